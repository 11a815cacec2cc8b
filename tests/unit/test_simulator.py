# SPDX-License-Identifier: Apache-2.0
"""The program that plays a board is built once for each content of its sources."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from boardprof.base.errors import BuildError, MissingToolError, UsageError
from boardprof.target.descriptions.board import BoardSpec, load_board
from boardprof.target.toolchain.simulator import build_simulator
from tests.cli.command import ended, wait_until
from tests.support import requires_compiler
from tests.unit.test_board_keys import BOARD

BUILD = """\
echo built >> builds
cp sim.txt "$1"
"""
SIMULATOR = """\
[launch.simulator]
sources = ["build.sh", "sim.txt"]
command = ["sh", "build.sh", "{output}", "{scratch}"]
program = "sh"
package = "dash"
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "boardprof"


def board(
    tmp_path: Path, build: str = BUILD, table: str = SIMULATOR, name: str = "lab-board"
) -> BoardSpec:
    """Write a board's folder whose simulator is made by a shell script that keeps count."""
    folder = tmp_path / name
    folder.mkdir(exist_ok=True)
    text = BOARD.replace('"emulator"', '"{simulator}"').replace("[clock]", f"{table}[clock]")
    (folder / "board.toml").write_text(text)
    (folder / "port.c").write_text("")
    (folder / "build.sh").write_text(build)
    (folder / "sim.txt").write_text("one")
    return load_board(folder)


def built(spec: BoardSpec, notes: list[str] | None = None, timeout_s: float = 60.0) -> Path:
    assert spec.launch.simulator is not None
    on_note = None if notes is None else notes.append
    return build_simulator(spec, spec.launch.simulator, on_note=on_note, timeout_s=timeout_s)


def builds(spec: BoardSpec) -> int:
    return (spec.folder / "builds").read_text().count("built")


def test_a_simulator_is_built_in_the_cache_and_announced(tmp_path: Path, cache: Path) -> None:
    spec, notes = board(tmp_path), list[str]()
    program = built(spec, notes)
    assert program.is_relative_to(cache)
    assert (program.name, program.read_text()) == ("simulator", "one")
    assert notes == ["building the simulator of lab-board with sh, once"]


def test_it_is_built_once_and_again_only_when_a_source_changes(tmp_path: Path) -> None:
    spec, notes = board(tmp_path), list[str]()
    first = built(spec)
    assert built(spec, notes) == first
    assert (builds(spec), notes) == (1, [])
    (spec.folder / "sim.txt").write_text("two")
    assert built(spec).read_text() == "two"
    (spec.folder / "sim.txt").write_text("one")
    assert built(spec) == first
    assert builds(spec) == 2


def test_it_is_built_again_for_another_command(tmp_path: Path) -> None:
    built(board(tmp_path))
    spec = board(tmp_path, table=SIMULATOR.replace('"{scratch}"', '"{scratch}", "-O3"'))
    built(spec)
    assert builds(spec) == 2


def test_it_is_built_again_by_another_version_of_the_tool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = tmp_path / "bin" / "labtool"
    tool.parent.mkdir()
    monkeypatch.setenv("PATH", f"{tool.parent}:{os.environ['PATH']}")
    spec = board(tmp_path, table=SIMULATOR.replace('program = "sh"', 'program = "labtool"'))
    for version in ("1.0", "1.0", "1.1"):
        tool.write_text(f"#!/bin/sh\necho {version}\n")
        tool.chmod(0o755)
        built(spec)
    assert builds(spec) == 2


def test_it_is_built_again_from_another_version_of_the_python_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tmp_path / "site"
    (site / "lab_core").mkdir(parents=True)
    (site / "lab_core" / "__init__.py").write_text("raise SystemExit('imported')\n")
    (site / "lab_core" / "core.txt").write_text("core")
    info = site / "lab_core-1.dist-info"
    info.mkdir()
    monkeypatch.syspath_prepend(site)
    table = SIMULATOR.replace('"{scratch}"', '"{python_package}"')
    spec = board(
        tmp_path,
        'echo built >> builds\ncp "$2/core.txt" "$1"\n',
        f'{table}python_package = "lab-core"\n',
    )
    for version in ("1.0", "1.1"):
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: lab-core\nVersion: {version}\n"
        )
        assert built(spec).read_text() == "core"
    assert builds(spec) == 2


def test_what_changes_while_it_is_built_is_built_once_more(tmp_path: Path) -> None:
    changing = 'grep -q one sim.txt && { cp sim.txt "$1"; echo two > sim.txt; exit; }\n'
    spec, notes = board(tmp_path, changing + BUILD), list[str]()
    assert built(spec, notes).read_text() == "two\n"
    assert notes[1:] == [
        "sources of the simulator of lab-board changed while it was built",
        "building the simulator of lab-board with sh, once",
    ]
    (spec.folder / "sim.txt").write_text("one")
    assert built(spec).read_text() == "two\n"  # nothing was kept under the key of "one"


def test_what_never_stops_changing_is_not_built(tmp_path: Path) -> None:
    spec = board(tmp_path, BUILD + "echo more >> sim.txt\n")
    with pytest.raises(BuildError, match="its sources changed during the build, 2 times"):
        built(spec)


def test_the_tool_and_the_build_have_one_environment_without_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = tmp_path / "bin" / "labtool"
    tool.parent.mkdir()
    monkeypatch.setenv("PATH", f"{tool.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("BOARDPROF_KEY", "secret")
    seen = f'echo "${{BOARDPROF_KEY-none}} $LC_ALL" >> {tmp_path}/seen\n'
    tool.write_text(f"#!/bin/sh\n{seen}")
    tool.chmod(0o755)
    table = SIMULATOR.replace('program = "sh"', 'program = "labtool"')
    built(board(tmp_path, seen + BUILD, table))
    assert set((tmp_path / "seen").read_text().splitlines()) == {"none C.UTF-8"}


def test_two_boards_of_the_same_sources_have_one_simulator(tmp_path: Path) -> None:
    assert built(board(tmp_path)) == built(board(tmp_path, name="lab-twin"))


def test_two_processes_at_once_build_it_once(tmp_path: Path) -> None:
    spec = board(tmp_path, BUILD + "sleep 1\n")
    code = (
        "import sys; from pathlib import Path\n"
        "from boardprof.target.descriptions.board import load_board\n"
        "from boardprof.target.toolchain.simulator import build_simulator\n"
        "spec = load_board(Path(sys.argv[1]))\n"
        "print(build_simulator(spec, spec.launch.simulator).read_text())\n"
    )
    command = [sys.executable, "-c", code, str(spec.folder)]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [process.communicate(timeout=60)[0] for process in both] == ["one\n", "one\n"]
    assert builds(spec) == 1


def test_a_damaged_program_is_built_again(tmp_path: Path) -> None:
    spec = board(tmp_path)
    built(spec).write_text("on")
    assert built(spec).read_text() == "one"
    assert builds(spec) == 2


def test_who_waits_for_another_process_is_told_and_gives_up_in_time(
    tmp_path: Path, cache: Path
) -> None:
    spec, notes = board(tmp_path), list[str]()
    lock = cache / "simulators" / f"{built(spec).parent.parent.name}.lock"
    built(spec).unlink()
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(BuildError) as caught:
            built(spec, notes, timeout_s=0.3)
    assert notes == ["waiting for another process that builds the simulator of lab-board"]
    assert "Another process has been building the simulator of lab-board for 0.3 s" in str(
        caught.value
    )
    assert built(spec).read_text() == "one"


def test_a_builder_that_was_killed_leaves_no_lock(tmp_path: Path, cache: Path) -> None:
    spec = board(tmp_path)
    lock = cache / "simulators" / f"{built(spec).parent.parent.name}.lock"
    built(spec).unlink()
    code = (
        "import fcntl, sys, time; file = open(sys.argv[1], 'w')\n"
        "fcntl.flock(file, fcntl.LOCK_EX); print('locked', flush=True); time.sleep(60)\n"
    )
    command = [sys.executable, "-c", code, str(lock)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.kill()
    assert built(spec).read_text() == "one"


def test_what_the_compiler_wrote_is_told_as_it_wrote_it(tmp_path: Path) -> None:
    requires_compiler("gcc")
    table = SIMULATOR.replace(
        '["sh", "build.sh", "{output}", "{scratch}"]', '["gcc", "-xc", "sim.txt", "-o", "{output}"]'
    )
    spec = board(tmp_path, table=table)
    (spec.folder / "sim.txt").write_text("int main(void) { return x; }\n")
    with pytest.raises(BuildError) as caught:
        built(spec)
    text = str(caught.value)
    assert text.startswith("The simulator of lab-board was not built (exit code 1):\nsim.txt: In f")
    assert "sim.txt:1:25: error: " in text
    assert f"The command was:\ncd {spec.folder} && gcc -xc sim.txt -o " in text


def test_of_a_long_error_the_beginning_is_told(tmp_path: Path) -> None:
    spec = board(tmp_path, "for i in $(seq 100); do echo line $i >&2; done; exit 3\n")
    with pytest.raises(BuildError) as caught:
        built(spec)
    lines = str(caught.value).splitlines()
    assert lines[1] == "line 1"
    assert lines[60:62] == ["line 60", "... (40 more lines)"]


def test_a_build_that_writes_no_program_has_failed(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match=r"was not built \(no program was written\):\nsaid"):
        built(board(tmp_path, "echo said\n"))


def test_a_build_that_does_not_end_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    spec = board(tmp_path, 'sleep 1000 & echo $! > child; wait; cp sim.txt "$1"\n')
    child = spec.folder / "child"
    for limit_s in (0.5, 5.0, 50.0):  # on a machine that stood still it may not have begun in time
        began = time.monotonic()
        with pytest.raises(
            BuildError, match=rf"was not built: the build did not end within {limit_s:g} s"
        ):
            built(spec, timeout_s=limit_s)
        assert time.monotonic() - began < limit_s + 20
        if child.is_file() and child.read_text().endswith("\n"):
            break
    pid = int(child.read_text())
    wait_until(lambda: ended(pid), "the build's child has ended", 10.0)


def test_a_missing_tool_is_named_with_its_package(tmp_path: Path) -> None:
    table = SIMULATOR.replace('"sh"\npackage = "dash"', '"no-such-tool"\npackage = "tools"')
    with pytest.raises(MissingToolError) as caught:
        built(board(tmp_path, table=table))
    assert (caught.value.tool, caught.value.package) == ("no-such-tool", "tools")


def test_a_missing_library_is_named_with_its_package(tmp_path: Path) -> None:
    requires_compiler("gcc")
    table = SIMULATOR.replace(
        '["sh", "build.sh", "{output}", "{scratch}"]', '["gcc", "-xc", "sim.txt", "-o", "{output}"]'
    )
    spec = board(tmp_path, table=table + 'headers = { "sim_lab.h" = "libsim-lab-dev" }\n')
    (spec.folder / "sim.txt").write_text('#include "sim_lab.h"\n')
    with pytest.raises(MissingToolError) as caught:
        built(spec)
    assert (caught.value.tool, caught.value.package) == ("sim_lab.h", "libsim-lab-dev")
    assert "The simulator of lab-board was not built: sim_lab.h was not found." in str(caught.value)


def test_a_missing_python_package_is_named_with_the_python_that_needs_it(tmp_path: Path) -> None:
    table = f'{SIMULATOR}python_package = "no-such-core"\n'
    with pytest.raises(MissingToolError) as caught:
        built(board(tmp_path, table=table))
    text = str(caught.value)
    assert f"The Python package no-such-core is not installed for {sys.executable}." in text
    assert text.endswith("-m pip install no-such-core")


def test_a_cache_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("no folder")
    with pytest.raises(UsageError, match="cannot be written"):
        built(board(tmp_path))
