# SPDX-License-Identifier: Apache-2.0
"""board.toml is read strictly; boards come from the tree and from other packages."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from boardprof.base.errors import UnknownNameError, UsageError
from boardprof.target.build.sources import agent_units
from boardprof.target.descriptions.board import (
    BoardSpec,
    ClockSpec,
    board_spec,
    default_board,
    find_boards,
    load_board,
)
from boardprof.target.descriptions.tables import BuildSpec, LaunchSpec, agent_options
from tests.support import ROOT

SMALLEST = """\
summary = "a board"
[build]
cc = "some-gcc"
package = "gcc-some"
[launch]
kind = "library"
[clock]
kind = "measured"
"""

LARGEST = """\
summary = "a board with everything"
family = "lab"
default = true
[build]
cc = "some-gcc"
size = "some-size"
package = "gcc-some"
cflags = ["-mcpu=x"]
ldflags = ["-lm"]
arch = "cortex_m"
sources = ["main.c", "start.S"]
link_script = "x.ld"
collectors = ["cycles32"]
config = { mtu = 512, arena = 4096 }
output = "elf"
freestanding = true
main = "port"
[launch]
kind = "process"
command = ["emulator", "{image}", "tcp:127.0.0.1:{port},nodelay=on"]
package = "emulator-package"
listen = "host"
[clock]
kind = "simulated"
[unsupported]
cycles = "the emulator has no cycle model"
"""


def folder_of(tmp_path: Path, text: str, *files: str, name: str = "lab-board") -> Path:
    """Write a board's folder with empty sources."""
    folder = tmp_path / name
    folder.mkdir(parents=True)
    (folder / "board.toml").write_text(text)
    for file in files or ("port.c",):
        (folder / file).parent.mkdir(exist_ok=True)
        (folder / file).write_text("")
    return folder


def test_a_board_that_says_only_what_it_must_gets_the_defaults(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, SMALLEST)
    assert load_board(folder) == BoardSpec(
        name="lab-board",
        folder=folder,
        summary="a board",
        build=BuildSpec(
            cc="some-gcc",
            package="gcc-some",
            size=None,
            cflags=(),
            ldflags=(),
            arch=None,
            sources=("port.c",),
            link_script=None,
            collectors=(),
            config={},
            shared=False,
            freestanding=False,
            own_main=False,
        ),
        launch=LaunchSpec("library", (), None, None, None),
        clock=ClockSpec("measured"),
        family=None,
        default=False,
        unsupported={},
    )


def test_a_board_that_says_everything_is_read_as_it_is_written(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, LARGEST, "main.c", "start.S", "x.ld")
    assert load_board(folder) == BoardSpec(
        name="lab-board",
        folder=folder,
        summary="a board with everything",
        build=BuildSpec(
            cc="some-gcc",
            package="gcc-some",
            size="some-size",
            cflags=("-mcpu=x",),
            ldflags=("-lm",),
            arch="cortex_m",
            sources=("main.c", "start.S"),
            link_script="x.ld",
            collectors=("cycles32",),
            config={"mtu": 512, "arena": 4096},
            shared=False,
            freestanding=True,
            own_main=True,
        ),
        launch=LaunchSpec(
            "process",
            command=("emulator", "{image}", "tcp:127.0.0.1:{port},nodelay=on"),
            package="emulator-package",
            listen="host",
            baud=None,
        ),
        clock=ClockSpec("simulated"),
        family="lab",
        default=True,
        unsupported={"cycles": "the emulator has no cycle model"},
    )


def test_a_serial_board_runs_at_115200_baud_unless_told(tmp_path: Path) -> None:
    serial = SMALLEST.replace('"library"', '"serial"')
    assert load_board(folder_of(tmp_path / "a", serial)).launch.baud == 115200
    fast = serial.replace('"serial"', '"serial"\nbaud = 921600')
    assert load_board(folder_of(tmp_path / "b", fast)).launch.baud == 921600


@pytest.mark.parametrize(
    ("old", "new", "parts"),
    [
        ('summary = "a board"', "", ["summary: the key is missing; it must be a string"]),
        ('summary = "a board"', "summary = 3", ["summary: must be a string, not an integer (3)"]),
        ("[clock]", "[clocks]", ["clock: the key is missing; it must be a table"]),
        (
            'cc = "some-gcc"',
            'cc = "some-gcc"\ncflag = []',
            ["[build] cflag: unknown key", "did you mean 'cflags'?", "Known here: cc, package"],
        ),
        (
            'summary = "a board"',
            'summary = "a board"\ncolour = "red"',
            ["colour: unknown key", "Known here: summary, family, default, status, build, launch"],
        ),
        (
            "[launch]",
            'cflags = "-O2"\n[launch]',
            ["[build] cflags: must be a list, not a string ('-O2')"],
        ),
        (
            "[launch]",
            "cflags = [1]\n[launch]",
            ["[build] cflags: must be a string, not an integer"],
        ),
        (
            "[launch]",
            'freestanding = "yes"\n[launch]',
            ["[build] freestanding: must be true or false, not a string ('yes')"],
        ),
        (
            "[launch]",
            'output = "hex"\n[launch]',
            ['[build] output: must be one of "elf", "shared", not "hex"'],
        ),
        (
            "[launch]",
            "config = { mtuu = 512 }\n[launch]",
            ["[build.config] mtuu: unknown key", "did you mean 'mtu'?"],
        ),
        (
            "[launch]",
            "config = { crc_table = true }\n[launch]",
            ["[build.config] crc_table: must be an integer, not true or false (True)"],
        ),
        (
            "[launch]",
            'sources = ["prot.c"]\n[launch]',
            ["[build] sources: there is no file 'prot.c' in the board's folder"],
        ),
        (
            "[launch]",
            'link_script = "x.ld"\n[launch]',
            ["[build] link_script: there is no file 'x.ld' in the board's folder"],
        ),
        (
            'kind = "library"',
            'kind = "libary"',
            ['[launch] kind: must be one of "library", "process", "serial", not "libary"'],
        ),
        (
            'kind = "library"',
            'kind = "library"\nbaud = 9600',
            ['[launch] baud: unknown key when kind = "library"'],
        ),
        (
            'kind = "library"',
            'kind = "process"\nlisten = "host"',
            ["[launch] command: the key is missing; it must be a list"],
        ),
        (
            'kind = "library"',
            'kind = "process"\ncommand = []\nlisten = "host"',
            ["[launch] command: the list is empty"],
        ),
        (
            'kind = "library"',
            'kind = "process"\ncommand = ["x", "{image}"]\nlisten = "host"',
            ['[launch] command: must contain "{image}", and "{port}" if listen = "host"'],
        ),
        (
            'kind = "library"',
            'kind = "process"\ncommand = ["x", "{image}", "{elf}"]\nlisten = "board"',
            ["[launch] command:", "no other placeholder is known"],
        ),
        (
            'kind = "library"',
            'kind = "process"\ncommand = ["x", "{image}", "{"]\nlisten = "board"',
            ["[launch] command:", "write a literal brace twice"],
        ),
        ("[clock]", "a = " + 9999 * "[", ["is not valid TOML: maximum recursion depth exceeded"]),
        ("[clock]", "[clock", ["is not valid TOML", "line 7"]),
    ],
)
def test_a_wrong_key_is_named_with_its_file_and_what_is_allowed(
    tmp_path: Path, old: str, new: str, parts: list[str]
) -> None:
    assert old in SMALLEST
    folder = folder_of(tmp_path, SMALLEST.replace(old, new, 1))
    with pytest.raises(UsageError) as caught:
        load_board(folder)
    for part in [str(folder / "board.toml"), *parts]:
        assert part in str(caught.value)


def test_a_folder_without_board_toml_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"board\.toml cannot be read: No such file"):
        load_board(tmp_path)


def test_a_folder_whose_name_is_no_board_name_is_refused(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, SMALLEST, name="my board")
    with pytest.raises(UsageError, match="a folder's name is the board's name: letters, digits"):
        load_board(folder)


def test_options_of_the_agent_are_those_of_bp_config_h() -> None:
    assert agent_options() == {
        "mtu": 256,
        "active_collectors": 4,
        "state_bytes": 128,
        "slot_bytes": 72,
        "arena": 0,
        "arena_margin": 0,
        "handles": 8,
        "open_windows": 0,
        "guard": 0,
        "bulk": 0,
        "rx_bytes": 0,
        "rtt": 0,
        "stream": 0,
        "clock": 0,
        "heap": 0,
        "stack": 0,
        "interrupts": 0,
        "marker": 0,
        "basepri": 0,
        "sampling": 0,
        "trace": 0,
        "trace_at": 0,
        "trace_cores": 1,
        "trace_clock": 0,
        "trace_heap": 0,
        "tasks": 0,
        "crc_table": 0,
    }


def test_every_board_in_the_tree_loads_under_its_folders_name() -> None:
    boards = find_boards()
    assert {"linux", "native", "qemu-cortex-m3", "qemu-rv32"} <= boards.keys()
    for name, folder in boards.items():
        assert load_board(folder).name == name


def test_the_default_board_is_native() -> None:
    assert default_board().name == "native"


def test_an_unknown_board_is_answered_with_the_nearest_name_and_the_list() -> None:
    with pytest.raises(UnknownNameError) as caught:
        board_spec("qemu-rv23")
    assert caught.value.kind == "board"
    assert "There is no board 'qemu-rv23'; did you mean 'qemu-rv32'?" in str(caught.value)
    assert {"linux", "native", "qemu-cortex-m3", "qemu-rv32"} <= set(caught.value.known)


def test_a_boards_folder_without_a_slash_is_answered_with_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(ROOT / "boards" / "linux", tmp_path / "mycore")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UnknownNameError, match="There is no board 'mycore'") as caught:
        board_spec("mycore")
    assert caught.value.hint == "give -b ./mycore: the path of a folder needs a /"
    assert board_spec("./mycore").name == "mycore"


def test_a_collector_beside_the_board_file_that_no_source_names_is_answered_with_how(
    tmp_path: Path,
) -> None:
    shutil.copytree(ROOT / "boards" / "linux", tmp_path / "mycore")
    spec = load_board(tmp_path / "mycore")
    spec = replace(spec, build=replace(spec.build, collectors=("mycol",)))
    with pytest.raises(UnknownNameError, match="There is no collector 'mycol'") as caught:
        agent_units(spec)
    assert caught.value.hint is None
    (tmp_path / "mycore" / "bp_mycol.c").write_text("")
    with pytest.raises(UnknownNameError, match="There is no collector 'mycol'") as caught:
        agent_units(spec)
    file = tmp_path / "mycore" / "board.toml"
    assert caught.value.hint == f'"bp_mycol.c" among the sources of [build] in {file}'


def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str, code: str) -> None:
    """Install a package with one entry point, ``board``, onto sys.path."""
    site = tmp_path / "site"
    info = site / f"{package}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[boardprof.boards]\nany = {package}:board\n")
    (site / f"{package}.py").write_text(code)
    monkeypatch.syspath_prepend(site)


@pytest.mark.parametrize("given", ["{!r}", "Path({!r})", "lambda: {!r}"])
def test_another_packages_board_is_found_by_its_folders_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    folder = folder_of(tmp_path, SMALLEST)
    value = given.format(str(folder))
    name = f"lab_package_{len(given)}"  # an own name: Python keeps what it has imported
    install(tmp_path, monkeypatch, name, f"from pathlib import Path\nboard = {value}\n")
    assert find_boards()["lab-board"] == folder
    assert board_spec("lab-board").summary == "a board"


def test_a_board_of_the_tree_is_read_without_importing_other_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, monkeypatch, "lab_fatal", "raise SystemExit('imported')\n")
    assert board_spec("native").name == "native"


@pytest.mark.parametrize(
    ("package", "code", "warning"),
    [
        ("lab_raises", "raise RuntimeError('not today')\n", "not today"),
        ("lab_nowhere", "board = '/nowhere'\n", "/nowhere has no board.toml"),
    ],
)
def test_another_packages_broken_board_is_left_out_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str, code: str, warning: str
) -> None:
    install(tmp_path, monkeypatch, package, code)
    with pytest.warns(UserWarning, match=warning):
        boards = find_boards()
    assert "native" in boards


def test_another_package_cannot_take_the_name_of_a_board_of_the_tree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = folder_of(tmp_path, SMALLEST, name="native")
    install(tmp_path, monkeypatch, "lab_namesake", f"board = {str(folder)!r}\n")
    with pytest.warns(UserWarning, match="'native' in lab_namesake:board is ignored"):
        boards = find_boards()
    assert boards["native"] != folder
