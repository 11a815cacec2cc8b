# SPDX-License-Identifier: Apache-2.0
"""The wheel, installed into an empty environment and used from another folder.

pip takes the wheel's dependencies from where it is set up to look for them, as `make setup` does.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import venv
from dataclasses import dataclass
from pathlib import Path

import pytest

from scripts.package_readme import described
from tests.projects.firmware import requires_board
from tests.support import ROOT, requires_compiler, requires_tool

pytestmark = pytest.mark.timeout(400)  # pip and the first build, on a busy machine

SQUARE = "unsigned square(unsigned x);\nunsigned square(unsigned x) { return x * x; }\n"


@dataclass(frozen=True)
class Installed:
    """An environment with nothing but the wheel, and a folder to work in."""

    python: Path
    folder: Path

    def run(self, *command: str | Path, timeout_s: float = 200.0) -> str:
        """Run a program that must succeed; return what it printed on standard output."""
        kept = {key: text for key, text in os.environ.items() if not key.startswith("PYTHON")}
        own = {"HOME": str(self.folder), "XDG_CACHE_HOME": str(self.folder / "cache")}
        done = subprocess.run(
            list(map(str, command)),
            cwd=self.folder,
            env={**kept, **own},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def boardprof(self, *arguments: str | Path) -> str:
        return self.run(self.python.parent / "boardprof", *arguments)


def built_wheel(folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"]
    command += ["--no-build-isolation", "--wheel-dir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, timeout=100, cwd=folder)
    (wheel,) = folder.glob("boardprof-*.whl")
    return wheel


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    folder = tmp_path_factory.mktemp("wheel")
    wheel = built_wheel(folder)
    venv.create(folder / "venv")
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "square.c").write_text(SQUARE)
    python = folder / "venv" / "bin" / "python"
    # Not with the environment of Installed: pip may be set up in the home folder.
    pip = [sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check"]
    subprocess.run(
        [*pip, "install", "--quiet", "--no-compile", wheel],
        check=True,
        timeout=250,
        cwd=elsewhere,
    )
    return Installed(python, elsewhere)


def test_the_first_screen_of_the_readme_works_with_the_wheel_alone(installed: Installed) -> None:
    """Its first commands install it, and measure a function of the checkout on this machine."""
    requires_compiler("gcc")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (screen,) = re.findall(
        r"<!-- not run: the tests of the wheel.*?```console\n(.*?)```", readme, re.S
    )
    assert readme.index(screen) < readme.index("Debian")
    _, install, command, *shown = screen.splitlines()
    assert install == "$ pip install ."
    examples = installed.folder / "examples"
    examples.symlink_to(ROOT / "examples")
    try:
        words = command.removeprefix("$ boardprof ").split()
        found = installed.boardprof(*words).splitlines()
    finally:
        examples.unlink()
    assert len(found) == len(shown) == 2
    for line, pattern in zip(found, shown, strict=True):
        assert re.fullmatch(".*".join(map(re.escape, pattern.split("..."))), line), line


def test_the_wheel_tells_type_checkers_where_the_public_modules_stand(
    installed: Installed,
) -> None:
    code = "import boardprof, pathlib; print(pathlib.Path(boardprof.__file__).parents[1])"
    packages = Path(installed.run(installed.python, "-c", code).strip())
    ours = ROOT / "host" / "boardprof-stubs"
    theirs = packages / "boardprof-stubs"
    assert {each.name: each.read_bytes() for each in theirs.iterdir()} == {
        each.name: each.read_bytes() for each in ours.iterdir()
    }


def test_the_description_of_the_wheel_has_no_link_that_needs_the_repository(
    installed: Installed,
) -> None:
    code = "import importlib.metadata as m; print(m.metadata('boardprof').get_payload())"
    text = installed.run(installed.python, "-c", code)
    assert text.lstrip().startswith("# boardprof\n")
    assert "tutorial (`docs/tutorial.md`) takes you" in text
    assert re.findall(r"\]\((?!https?://)[^)]*\)", text) == []
    assert "<!--" not in text


def test_links_of_the_description_lead_to_the_repository_if_it_has_an_address() -> None:
    text = "![p](docs/p.png) [a](docs/a.md#b) [`x.md`](x.md) [w](https://w.org)\n"
    url = "https://example.org/r/"
    assert described(text, url) == (
        "![p](https://example.org/r/raw/main/docs/p.png) "
        "[a](https://example.org/r/blob/main/docs/a.md#b) "
        "[`x.md`](https://example.org/r/blob/main/x.md) [w](https://w.org)\n"
    )
    assert described(text, None) == " a (`docs/a.md`) `x.md` [w](https://w.org)\n"


def unpacked(folder: Path) -> Path:
    """Build the source distribution and unpack it; return its folder."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(folder)]
    subprocess.run(command, check=True, timeout=100, cwd=ROOT, stdout=subprocess.DEVNULL)
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as files:
        files.extractall(folder, filter="data")
    return folder / archive.name.removesuffix(".tar.gz")


def test_the_source_distribution_has_what_setting_it_up_reads(tmp_path: Path) -> None:
    source = unpacked(tmp_path)
    names = ["requirements.lock", "requirements-dev.lock", "scripts/venv.sh", "Makefile"]
    names += ["CONTRIBUTING.md", ".clang-format", "docs/pictures/changed.png"]
    for name in names:
        assert (source / name).read_bytes() == (ROOT / name).read_bytes()
    readme = (source / "README.md").read_text(encoding="utf-8")
    links = {found.partition("#")[0] for found in re.findall(r"\]\((?!https?:)([^)#]+)", readme)}
    assert {link for link in links if not (source / link).exists()} == set()


@pytest.mark.nightly
def test_the_source_distribution_is_set_up_and_measures(tmp_path: Path) -> None:
    source = unpacked(tmp_path)
    own = {key: text for key, text in os.environ.items() if key not in ("MAKEFLAGS", "VIRTUAL_ENV")}
    for command in (
        ["make", "setup-demo"],
        [".venv/bin/boardprof", "run", "examples/workloads:crc32"],
    ):
        subprocess.run(command, check=True, timeout=380, cwd=source, env=own)


def test_the_wheel_measures_on_this_machine(installed: Installed) -> None:
    requires_compiler("gcc")
    found = installed.boardprof("run", "-b", "native", "square.c:square", "x=12", "--repeat", "2")
    assert found.startswith("square(x=12) on native: ")


@pytest.mark.board("qemu-rv32")
def test_the_wheel_builds_firmware_for_a_board(installed: Installed) -> None:
    requires_board("qemu-rv32")
    found = installed.boardprof(
        "run", "-b", "qemu-rv32", "square.c:square", "x=12", "--repeat", "2"
    )
    assert found.startswith("square(x=12) on qemu-rv32: ")
    (image,) = installed.folder.glob("cache/boardprof/images/*/qemu-rv32.elf")
    header = image.read_bytes()[:20]
    assert header[:5] == b"\x7fELF\x01"  # 32 bits
    assert header[18:20] == b"\xf3\x00"  # EM_RISCV


def test_the_wheel_has_the_sources_for_other_build_systems(installed: Installed) -> None:
    folder = Path(installed.boardprof("runtime", "path").strip())
    assert folder.is_relative_to(installed.python.parents[1])
    names = ["include/boardprof/bp.h", "src/bp_agent.c", "CMakeLists.txt", "boardprof.mk"]
    names += ["library.json", "platformio.py", "zephyr/module.yml", "zephyr/Kconfig"]
    names += ["options/options.json", "options/options.mk", "sources.cmake"]
    names += ["esp_idf/boardprof/CMakeLists.txt", "arduino/examples/Measure/Measure.ino"]
    for name in names:
        assert (folder / name).read_bytes() == (ROOT / "device_runtime_c" / name).read_bytes()


def test_the_wheel_has_at_most_two_megabytes(installed: Installed) -> None:
    (wheel,) = installed.folder.parent.glob("boardprof-*.whl")
    assert wheel.stat().st_size < 2_000_000


def test_the_wheel_has_the_manual_page(installed: Installed) -> None:
    page = installed.python.parents[1] / "share" / "man" / "man1" / "boardprof.1"
    text = page.read_text(encoding="utf-8")
    assert text.startswith('.TH BOARDPROF 1 "" "boardprof" "User Commands"\n')
    assert ".SS boardprof run [OPTIONS]" in text
    assert "\n.SH EXIT STATUS\n" in text


def test_the_wheel_has_no_file_that_belongs_to_a_checkout(installed: Installed) -> None:
    folder = Path(installed.boardprof("runtime", "path").strip()).parent
    found = {path.name for path in folder.rglob("*") if path.is_file()}
    assert not {name for name in found if name.endswith((".o", ".a", ".elf"))}


@pytest.mark.board("qemu-rv32")
def test_a_project_is_built_by_cmake_with_the_wheel_alone(installed: Installed) -> None:
    requires_board("qemu-rv32")
    requires_tool("cmake", "cmake")
    example = ROOT / "examples" / "firmware_cmake"
    build = installed.folder / "build"
    toolchain = f"-DCMAKE_TOOLCHAIN_FILE={example}/toolchains/rv32.cmake"
    command = f"-DBOARDPROF={installed.python.parent}/boardprof"
    installed.run("cmake", "-S", example, "-B", build, toolchain, command)
    installed.run("cmake", "--build", build)
    where = ("-b", "qemu-rv32", "--image", build / "thermostat.elf")
    found = installed.boardprof("run", *where, "isqrt", "x=99", "--repeat", "2")
    assert found.startswith("isqrt(x=99) on qemu-rv32: ")
