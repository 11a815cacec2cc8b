# SPDX-License-Identifier: Apache-2.0
"""The wheel, installed into an empty environment and used from another folder.

pip takes the wheel's dependencies from where it is set up to look for them, as `make setup` does.
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

import pytest

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
    venv.create(folder / "venv", with_pip=True)
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "square.c").write_text(SQUARE)
    python = folder / "venv" / "bin" / "python"
    # Not with the environment of Installed: pip may be set up in the home folder.
    subprocess.run(
        [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel],
        check=True,
        timeout=250,
        cwd=elsewhere,
    )
    return Installed(python, elsewhere)


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
    for name in [*names, "library.json", "platformio.py", "zephyr/module.yml", "zephyr/Kconfig"]:
        assert (folder / name).read_bytes() == (ROOT / "device_runtime_c" / name).read_bytes()


def test_the_wheel_has_the_manual_page(installed: Installed) -> None:
    page = installed.python.parents[1] / "share" / "man" / "man1" / "boardprof.1"
    assert page.read_bytes() == (ROOT / "docs" / "boardprof.1").read_bytes()


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
