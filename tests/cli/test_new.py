# SPDX-License-Identifier: Apache-2.0
"""`boardprof new` makes files that build at once, with marks where something is to be changed."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from boardprof.base.errors import DecodeError, UnknownNameError, UsageError
from boardprof.results.redecode import load_schemas
from boardprof.target.descriptions.board import find_boards, load_board
from boardprof.target.scaffold import MARK, new_board, new_collector
from boardprof.wire.decode.dictionary import CollectorInfo
from boardprof.wire.decode.samples import decode_samples
from tests.cli.command import boardprof, rows
from tests.support import AGENT, WARNINGS, requires_compiler, requires_tool

SQUARE = "unsigned square(unsigned x);\nunsigned square(unsigned x) { return x * x; }\n"
ONCE = ("x=12", "--repeat", "1", "--warmup", "0")


@pytest.fixture
def square(tmp_path: Path) -> str:
    (tmp_path / "square.c").write_text(SQUARE)
    return f"{tmp_path / 'square.c'}:square"


# -- boards -----------------------------------------------------------------------------------


@pytest.mark.board("qemu-rv32")
def test_a_new_board_runs_before_anything_is_changed(tmp_path: Path, square: str) -> None:
    requires_compiler("riscv64-unknown-elf-gcc")
    requires_tool("qemu-system-riscv32", "qemu-system-misc")
    done = boardprof("new", "board", "lab-board", "--like", "qemu-rv32", tmp_path)
    assert (done.code, done.err) == (0, "")
    folder = tmp_path / "lab-board"
    assert f"{folder / 'link.ld'}: 2 to change\n" in done.out
    assert done.out.endswith(f"Build it: boardprof build -b {folder}\n")
    ran = boardprof("run", "-b", folder, square, *ONCE)
    assert (ran.code, rows(ran.out)) == (0, ["square"]), ran.err
    assert " lab-board " in ran.out


@pytest.mark.parametrize("like", sorted(find_boards()))
def test_every_board_can_be_the_model_of_another(tmp_path: Path, like: str) -> None:
    folder = new_board("lab-board", like, tmp_path)
    spec = load_board(folder)
    model = load_board(find_boards()[like])
    assert (spec.name, spec.summary) == ("lab-board", f"lab-board, made like {like}")
    assert (spec.build, spec.launch, spec.guard) == (model.build, model.launch, model.guard)
    assert (spec.default, spec.status) == (False, "none")
    has_port = bool(spec.build.sources)  # others have their main and port from arch/posix
    assert (folder / "board.toml").read_text().count(MARK) >= (5 if has_port else 3)
    if not has_port:
        return
    port = (folder / "port.c").read_text()
    assert MARK in port
    if spec.build.arch not in ("avr", "posix"):  # one core, or a socket: nothing of a chip's own
        for name in ("init", "read", "write", "ticks"):
            assert re.search(rf"^\w.*\bbp_port_{name}\(.*\) {{$", port, re.MULTILINE), name


def test_what_a_family_shares_is_in_the_copy_which_builds_and_runs(
    tmp_path: Path, square: str
) -> None:
    requires_tool("arm-none-eabi-gcc", "gcc-arm-none-eabi")
    requires_tool("qemu-system-arm", "qemu-system-arm")
    assert boardprof("new", "board", "copy", "--like", "qemu-cortex-m3", tmp_path).code == 0
    ran = boardprof("run", "-b", tmp_path / "copy", square, *ONCE)
    assert (ran.code, rows(ran.out)) == (0, ["square"]), ran.err
    done = boardprof("new", "board", "own", "--arch", "cortex_m", tmp_path)
    assert done.code == 0, done.err
    built = boardprof(
        "build", "-b", tmp_path / "own", square.partition(":")[0], "-o", tmp_path / "x"
    )
    assert built.code == 0, built.err


def test_an_unknown_architecture_is_told(tmp_path: Path) -> None:
    done = boardprof("new", "board", "own", "--arch", "cortex-m", tmp_path)
    assert done.code == 2
    assert "There is no architecture 'cortex-m'; did you mean 'cortex_m'?" in done.err


def test_the_marks_stand_over_what_is_to_be_changed(tmp_path: Path) -> None:
    folder = new_board("lab-board", "linux", tmp_path)
    lines = (folder / "board.toml").read_text().splitlines()
    marked = [lines[i + 1] for i, line in enumerate(lines) if line.startswith(f"# {MARK}")]
    assert [line.split(" ")[0] for line in marked][:6] == [
        *("summary", "cc", "arch", "cflags", "collectors", "config"),
    ]
    assert {"[launch]", "[clock]", "[guard]"} <= set(marked)


def test_a_board_in_a_folder_is_named_by_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    requires_compiler("gcc")
    monkeypatch.chdir(tmp_path)
    assert boardprof("new", "board", "lab-board", "--like", "native").code == 0
    done = boardprof("info", "-b", "./lab-board", "--json")
    assert (done.code, json.loads(done.out)["board"]) == (0, "lab-board")


@pytest.mark.parametrize(
    ("name", "like", "message"),
    [
        ("native", "linux", "A board 'native' already exists."),
        ("lab-board", "linx", "There is no board 'linx'; did you mean 'linux'?"),
        ("my board", "linux", "a board's name may have only letters"),
        ("../x", "linux", "a board's name may have only letters"),
        ("taken", "linux", "taken already exists."),
    ],
)
def test_what_cannot_be_a_new_board_is_told(
    tmp_path: Path, name: str, like: str, message: str
) -> None:
    (tmp_path / "taken").mkdir()
    with pytest.raises((UsageError, UnknownNameError)) as caught:
        new_board(name, like, tmp_path)
    assert message in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


def test_a_read_only_model_makes_a_board_that_can_be_changed(tmp_path: Path) -> None:
    model = tmp_path / "model"
    shutil.copytree(find_boards()["native"], model)
    (model / "notes").mkdir()
    for path in [*model.rglob("*"), model]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    folder = new_board("lab-board", str(model), tmp_path / "new")
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["lab-board"]
    assert (folder / "notes").is_dir()
    for path in [folder, *folder.rglob("*")]:
        assert path.stat().st_mode & 0o200, path


def test_a_copy_that_fails_leaves_nothing(tmp_path: Path) -> None:
    model = tmp_path / "model"
    shutil.copytree(find_boards()["native"], model)
    (model / "latin.c").write_bytes(b"/* \xe4 */")
    (tmp_path / "new").mkdir()
    with pytest.raises(UsageError, match="lab-board cannot be written: 'utf-8' codec"):
        new_board("lab-board", str(model), tmp_path / "new")
    assert list((tmp_path / "new").iterdir()) == []


def test_without_a_model_the_command_says_what_it_needs(tmp_path: Path) -> None:
    done = boardprof("new", "board", "lab-board", tmp_path)
    assert (done.code, "--like" in done.err) == (2, True)


# -- collectors -------------------------------------------------------------------------------


def test_a_new_collector_in_a_boards_folder_counts_at_once(tmp_path: Path, square: str) -> None:
    requires_compiler("gcc")
    folder = new_board("lab-board", "linux", tmp_path)
    done = boardprof("new", "collector", "lab_power", folder)
    assert (done.code, done.err) == (0, "")
    assert 'add "bp_lab_power.c" to build.sources (default: ["port.c"])' in done.out
    file = folder / "board.toml"
    names = ", ".join(f'"{name}"' for name in load_board(folder).build.collectors)
    text = file.read_text()
    assert f"collectors = [{names}]" in text
    text = text.replace("sources = []", 'sources = ["bp_lab_power.c"]')
    text = text.replace(f"collectors = [{names}]", 'collectors = ["lab_power", "linux_clock"]')
    file.write_text(text)
    ran = boardprof("run", "-b", folder, square, *ONCE, "--json", "-")
    assert ran.code == 0, ran.err
    (measured,) = json.loads(ran.out)["boardprof"]["measurements"]
    assert measured["samples"][0]["raw"]["lab_power"] > 0


def test_a_new_collectors_header_is_that_of_its_layout(tmp_path: Path) -> None:
    made = new_collector("lab_power", tmp_path)
    names = ["bp_lab_power.c", "lab_power.py", "lab_power.json", "lab_power_wire.h"]
    assert [path.name for path in made.files] == names
    header = (tmp_path / "lab_power_wire.h").read_text()
    (tmp_path / "lab_power_wire.h").write_text("")
    subprocess.run([sys.executable, tmp_path / "lab_power.py"], check=True, timeout=60)
    assert (tmp_path / "lab_power_wire.h").read_text() == header
    assert "#define BP_LAB_POWER_LEN 16u\n" in header
    lines = (made.steps[0]).splitlines()[1:]
    entry = tomllib.loads("\n".join(line.strip() for line in lines))
    points = entry["project"]["entry-points"]["boardprof.collectors"]
    assert points == {"lab_power": f"{tmp_path.name}.lab_power:LAYOUT"}


def test_a_new_collector_in_a_checkout_stands_where_the_others_do(tmp_path: Path) -> None:
    for folder in (
        *("device_runtime_c/collectors", "protocol/boardprof_protocol/collectors"),
        "protocol/vectors",
    ):
        (tmp_path / folder).mkdir(parents=True)
    made = new_collector("lab_power", tmp_path)
    assert [str(path.relative_to(tmp_path)) for path in made.files] == [
        "device_runtime_c/collectors/bp_lab_power.c",
        "protocol/boardprof_protocol/collectors/lab_power.py",
        "protocol/vectors/lab_power.json",
    ]
    assert made.steps[0] == "make gen"


def test_a_new_collectors_c_file_compiles_without_a_warning(tmp_path: Path) -> None:
    gcc = requires_compiler("gcc")
    new_collector("lab_power", tmp_path)
    command = [gcc, *WARNINGS, f"-I{AGENT / 'include'}", "-DBP_CFG_CLOCK=1", "-fsyntax-only"]
    subprocess.run([*command, tmp_path / "bp_lab_power.c"], check=True, timeout=60)


def test_a_new_collectors_vectors_are_one_that_is_read_and_some_that_are_refused(
    tmp_path: Path,
) -> None:
    new_collector("lab_power", tmp_path)
    good, *bad = json.loads((tmp_path / "lab_power.json").read_text())
    assert good["fields"] == {"start": 1000, "stop": 11000}
    assert good["body"] == "e803000000000000f82a000000000000"
    assert good["hex"][4:12] == "01001000"  # version 1, no flags, 16 bytes
    assert good["counters"][0]["difference"] == 10000
    assert [(case["error"], case["path"], case["offset"]) for case in bad] == [
        ("length", "stop", 14),
        ("length", "(end)", 22),
        ("crc", "blob[0].crc", 22),
        ("schema", "header", 0),
        ("cut", "blob[0].body", 6),
    ]


def test_what_a_new_collectors_vectors_call_bad_is_refused_where_they_say(tmp_path: Path) -> None:
    new_collector("lab_power", tmp_path)
    (layout,) = load_schemas(str(tmp_path / "lab_power.py"))
    collector = CollectorInfo(0, "lab_power", layout.schema_id, 1, layout.crc, ())
    for case in json.loads((tmp_path / "lab_power.json").read_text())[1:]:
        with pytest.raises(DecodeError) as caught:
            decode_samples(bytes.fromhex(case["hex"]), [collector], {layout.schema_id: layout})
        found = (caught.value.path.removeprefix("lab_power."), caught.value.offset)
        assert found == (case["path"], case["offset"]), case["name"]


def test_a_boards_collector_has_its_vectors_where_the_tests_look_for_them(tmp_path: Path) -> None:
    folder = new_board("lab-board", "linux", tmp_path)
    made = new_collector("lab_power", folder)
    assert folder / "vectors" / "lab_power.json" in made.files
    with pytest.raises(UsageError) as caught:
        new_collector("other", folder)
    assert str(caught.value) == f"{folder / 'schema.py'} already exists.\nTry: add to it"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("ticks", "A collector 'ticks' already exists."),
        ("Lab", "'Lab' is not a valid collector name"),
        ("lab-power", "'lab-power' is not a valid collector name"),
        ("there", "there.py already exists."),
    ],
)
def test_what_cannot_be_a_new_collector_is_told(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "there.py").write_text("")
    with pytest.raises(UsageError) as caught:
        new_collector(name, tmp_path)
    assert message in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["there.py"]
