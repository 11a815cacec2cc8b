# SPDX-License-Identifier: Apache-2.0
"""`boardprof boards` lists what there is; `boardprof info` asks one board."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from boardprof.show.board_facts import info_text
from boardprof.target.descriptions.board import load_board
from scripts import boards_readme
from tests.cli.command import boardprof
from tests.support import ROOT, requires_tool

FOLDERS = sorted(path.parent.name for path in ROOT.glob("boards/*/board.toml"))


def test_every_folder_of_boards_is_listed_with_one_line() -> None:
    done = boardprof("boards")
    names = [line.split()[0] for line in done.out.splitlines() if not line.startswith(" ")]
    assert (done.code, sorted(names)) == (0, FOLDERS)
    assert done.out.count("(default)") == 1


def test_boards_as_json_have_the_same_facts_as_fields() -> None:
    done = boardprof("boards", "--json")
    listed = json.loads(done.out)
    assert (done.code, listed["schema_version"]) == (0, 1)
    boards = {board["name"]: board for board in listed["boards"]}
    assert sorted(boards) == FOLDERS
    assert [name for name, board in boards.items() if board["default"]] == ["native"]
    assert boards["qemu-rv32"]["clock"] == "simulated"
    assert boards["native"]["launch"] == "library"
    assert (boards["qemu-rv32"]["emulated"], boards["native"]["emulated"]) == (True, False)
    assert boards["native"]["port"] is None
    assert boards["native"]["time_scale"] == 1.0
    assert boards["native"]["faults"][:2] == [
        {"cause": "bad-address", "not_caught": None},
        {"cause": "misaligned", "not_caught": "this machine's CPU takes misaligned addresses"},
    ]


def test_what_a_board_lacks_on_this_machine_is_named_with_its_package(tmp_path: Path) -> None:
    bare = {"PATH": str(tmp_path)}
    done = boardprof("boards", environment=bare)
    assert done.code == 0
    assert "missing: gcc (Debian package gcc)\n" in done.out
    assert "missing: qemu-system-riscv32 (Debian package qemu-system-misc)\n" in done.out
    listed = json.loads(boardprof("boards", "--json", environment=bare).out)
    (arm,) = [board for board in listed["boards"] if board["name"] == "qemu-cortex-m3"]
    assert arm["missing"] == [
        {"tool": "arm-none-eabi-gcc", "package": "gcc-arm-none-eabi"},
        {"tool": "qemu-system-arm", "package": "qemu-system-arm"},
    ]


def test_each_board_says_what_is_tried_of_it_with_every_change() -> None:
    boards = json.loads(boardprof("boards", "--json").out)["boards"]
    status = {board["name"]: board["status"] for board in boards}
    assert (status["native"], status["qemu-rv32"]) == ("run", "run")
    assert set(status.values()) <= {"run", "built", "none"}


def test_the_table_of_boards_is_that_of_their_files() -> None:
    assert boards_readme.main(["--check"]) == 0


def test_a_row_says_what_was_never_run(tmp_path: Path) -> None:
    folder = tmp_path / "lab-board"
    folder.mkdir()
    (folder / "port.c").write_text("")
    text = (
        'summary = "a board"\nstatus = "built"\n[build]\ncc = "x"\npackage = "y"\n'
        'collectors = ["ticks"]\n[launch]\nkind = "serial"\n[clock]\nkind = "declared"\n'
    )
    (folder / "board.toml").write_text(text)
    assert boards_readme.table([load_board(folder)]).splitlines()[2] == (
        "| `lab-board` | a board | at a port, 115,200 baud | `ticks` | - | built in CI, never run |"
    )


def test_a_simulators_needs_are_named_with_the_boards(tmp_path: Path) -> None:
    done = boardprof("boards", environment={"PATH": str(tmp_path)})
    assert "missing: verilator (Debian package verilator)\n" in done.out


def test_info_shows_what_the_default_board_is_and_offers() -> None:
    done = boardprof("info")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("native: this machine, inside the host's own process\n")
    for part in ("protocol 1, build ", "64-bit pointers, little-endian", "clock       measured"):
        assert part in done.out
    assert "\n  page-faults    64                   perf_event_open " in done.out
    assert "\n  duration_time  64    1,000,000,000  CLOCK_MONOTONIC_RAW " in done.out
    assert done.out.endswith("Functions\n  (none)\n")


def test_info_as_json_names_each_counter_and_why_it_is_not_there() -> None:
    requires_tool("riscv64-unknown-elf-gcc", "gcc-riscv64-unknown-elf")
    requires_tool("qemu-system-riscv32", "qemu-system-misc")
    done = boardprof("info", "-b", "qemu-rv32", "--json")
    facts = json.loads(done.out)
    assert (done.code, facts["schema_version"], facts["board"]) == (0, 1, "qemu-rv32")
    assert (facts["emulated"], facts["clock_kind"]) == (True, "simulated")
    assert (facts["pointer_bytes"], facts["byte_order"]) == (4, "little")
    counters = {
        counter["name"]: counter
        for collector in facts["collectors"]
        for counter in collector["counters"]
    }
    assert counters["cycles"]["unsupported"] == (
        "QEMU has no cycle model: mcycle counts instructions"
    )
    assert counters["instructions"]["unsupported"] is None
    assert counters["instructions"]["bits"] == 64
    assert counters["ticks"]["hz"] == 10_000_000


def test_info_and_run_agree_on_the_counters_that_this_machine_has(tmp_path: Path) -> None:
    (tmp_path / "f.c").write_text("int f(void) { return 0; }\n")
    facts = json.loads(boardprof("info", "-b", "linux", "--json").out)
    slots = {
        counter["source"]: counter["unsupported"]
        for collector in facts["collectors"]
        if collector["name"] == "perf"
        for counter in collector["counters"]
    }
    assert slots["context-switches"] is None
    for event in ("cycles", "branch-misses"):
        run = boardprof("run", "-b", "linux", tmp_path / "f.c:f", "--metrics", event)
        assert (run.code == 0) is (slots[event] is None)
        assert slots[event] is None or f"perf: {slots[event]}" in run.err


def test_counters_and_faults_stand_in_columns() -> None:
    facts: dict[str, Any] = json.loads(boardprof("info", "-b", "native", "--json").out)
    ticks = {"name": "ticks", "source": "SysTick", "bits": 24, "hz": 25000000, "unsupported": None}
    other = {"name": "cycles", "source": "DWT", "bits": 32, "hz": None, "unsupported": "it stands"}
    facts["collectors"] = [
        {"name": "systick", "counters": [ticks]},
        {"name": "dwt", "counters": [other]},
    ]
    facts["faults"] = [
        {"cause": "divide", "not_caught": None},
        {"cause": "time-out", "not_caught": "it has no timer"},
    ]
    facts["functions"] = []
    assert info_text(facts).splitlines()[10:] == [
        "Counters",
        "  Name    Bits  Hz          Source   Collector  State",
        "  ticks   24    25,000,000  SysTick  systick    ok",
        "  cycles  32                DWT      dwt        unsupported: it stands",
        "Faults of a called function",
        "  Cause     Caught",
        "  divide    yes",
        "  time-out  no: it has no timer",
        "Functions",
        "  (none)",
    ]
    facts["collectors"] = []
    assert info_text(facts).splitlines()[10:12] == ["Counters", "  (none)"]


def test_a_command_for_one_board_says_so_of_several() -> None:
    done = boardprof("info", "-b", "native,linux")
    assert (done.code, done.out) == (2, "")
    assert done.err.endswith("Try: give one board: only `boardprof run` takes several\n")
