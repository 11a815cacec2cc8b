# SPDX-License-Identifier: Apache-2.0
"""Every board holds what it says; boards that were made wrong on purpose are found out."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import pytest

from boardprof.base.errors import UsageError
from boardprof.measure.connect import connect
from boardprof.measure.doctor.check_board import check_board, proof_facts, proof_sources
from boardprof.measure.doctor.counters import FAILED, OK, SKIPPED, UNSUPPORTED, Finding, amount
from boardprof.target.descriptions.board import BoardSpec, load_board
from boardprof.target.descriptions.tables import DoctorSpec, KnownWork
from tests.boards.conftest import available
from tests.firmware import build
from tests.support import AGENT


def findings(spec: BoardSpec) -> dict[str, Finding]:
    with connect(spec, image=build(spec, proof_sources(spec)).image) as board:
        return {found.subject: found for found in check_board(board)}


def altered(like: str, folder: Path, *changes: tuple[str, str]) -> BoardSpec:
    """Return a board like another one, whose port.c has one text in place of another."""
    copy = folder / f"{like}-wrong"
    shutil.copytree(available(like).folder, copy)
    port = copy / "port.c"
    text = port.read_text(encoding="utf-8")
    virt = (AGENT / "arch" / "riscv" / "bp_arch_virt.h").read_text(encoding="utf-8")
    text = text.replace('#include "bp_arch_virt.h"\n', virt)
    for old, new in changes:
        assert text.count(old) == 1, f"{old!r} does not stand once in {port}"
        text = text.replace(old, new)
    port.write_text(text, encoding="utf-8")
    return load_board(copy)


def test_a_board_of_ours_holds_what_it_says(spec: BoardSpec) -> None:
    found = findings(spec)
    assert [f"{f.subject}: {f.text}" for f in found.values() if f.verdict == FAILED] == []
    assert {"clock", "arena", "stack"} <= set(found)
    busy = "the machine is too busy"  # where others are at work, nothing is said of a time
    proved = [f.subject for f in found.values() if f.verdict == OK or f.text.startswith(busy)]
    assert set(proved) & {"ticks", "instructions", "cycles", "duration_time"}, found


def test_an_emulator_that_follows_the_hosts_time_fails_by_its_instructions() -> None:
    spec = available("qemu-rv32")
    command = [word for word in spec.launch.command if not word.startswith(("-icount", "shift="))]
    assert len(command) == len(spec.launch.command) - 2
    wrong = dataclasses.replace(
        spec, launch=dataclasses.replace(spec.launch, command=tuple(command))
    )
    found = findings(wrong)["instructions"]
    assert found.verdict == FAILED
    assert "follows the host's time" in found.text


def test_a_counter_that_is_wider_than_declared_fails(tmp_path: Path) -> None:
    wrong = altered("qemu-rv32", tmp_path, (".ticks_bits = 64", ".ticks_bits = 8"))
    found = findings(wrong)["ticks"]
    assert found.verdict == FAILED
    assert "more than its 8 bits hold" in found.text


def test_a_counter_of_64_bits_that_wraps_early_fails_and_the_others_are_judged(
    tmp_path: Path,
) -> None:
    wrong = altered(
        "qemu-rv32",
        tmp_path,
        ("return bp_arch_counter_at(BP_MTIME);", "return bp_arch_counter_at(BP_MTIME) & 0x7ffu;"),
    )
    found = findings(wrong)
    assert found["ticks"].verdict == FAILED
    assert "mtime stepped back within the window" in found["ticks"].text
    assert "it wraps before its declared width" in found["ticks"].text
    assert "thread" not in found["ticks"].text
    assert found["instructions"].verdict == OK
    assert {"clock", "arena", "stack"} <= set(found)


def test_a_counter_that_is_narrower_than_declared_fails(tmp_path: Path) -> None:
    """The real one wraps at 2^16: every few milliseconds."""
    wrong = altered(
        "qemu-rv32",
        tmp_path,
        ("return bp_arch_counter_at(BP_MTIME);", "return bp_arch_counter_at(BP_MTIME) & 0x1ffu;"),
        (".ticks_bits = 64", ".ticks_bits = 32"),
    )
    found = findings(wrong)["ticks"]
    assert found.verdict == FAILED
    assert found.text.endswith("it wraps before its declared width")


def test_a_wrong_frequency_is_seen_by_the_other_clocks_of_the_board(tmp_path: Path) -> None:
    wrong = altered(
        "qemu-cortex-m3",
        tmp_path,
        (
            '#include "bp_arch_mps2.h"',
            "#define BP_MPS2_HZ 16000000u\n"
            "#define BP_MPS2_UART 0x40004000u\n"
            "#define BP_MPS2_FPGAIO 0x40028000u\n"
            "#define BP_MPS2_WATCHDOG 0x40008000u\n"
            "#define BP_MPS2_WATCHDOG_HZ BP_MPS2_HZ\n"
            "#define BP_MPS2_ROM 0u\n"
            "#define BP_MPS2_ROM_BYTES 0x400000u\n"
            '#include "bp_arch_mps2.h"',
        ),
    )
    found = findings(wrong)["ticks"]
    assert found.verdict == FAILED
    assert "or did not go as far as a second clock" in found.text
    assert found.text.endswith("or its declared frequency is wrong")


def test_a_counter_that_is_stuck_is_unsupported_and_says_so(tmp_path: Path) -> None:
    wrong = altered("qemu-rv32", tmp_path, ("return bp_arch_counter_at(BP_MTIME);", "return 0;"))
    found = findings(wrong)
    assert (found["ticks"].verdict, found["ticks"].text) == (
        UNSUPPORTED,
        "mtime does not advance",
    )
    assert found["instructions"].verdict == OK


def test_a_board_of_which_no_counter_works_is_told_so() -> None:
    spec = available("native")
    with connect(spec) as board:
        names = [counter.name for each in board.device.collectors for counter in each.counters]
    found = findings(dataclasses.replace(spec, unsupported=dict.fromkeys(names, "of no use here")))
    assert found["counters"].verdict == FAILED
    assert "has no working counter" in found["counters"].text
    assert (found["arena"].verdict, found["stack"].verdict) == (OK, SKIPPED)


def test_a_call_that_the_board_ends_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    """So many rounds that they take longer than the limit of the board."""
    spec = available("native")
    monkeypatch.setattr("boardprof.measure.doctor.counters._FIRST_ROUNDS", 1 << 30)
    with connect(spec, image=build(spec, proof_sources(spec)).image, timeout_s=0.2) as board:
        found = {each.subject: each for each in check_board(board)}
    assert found["time limit"].verdict == FAILED
    assert "proof_rounds" in found["time limit"].text
    assert found["stack"].verdict in (OK, UNSUPPORTED)
    assert proof_facts(list(found.values()))["unsupported"] == {}


def test_only_counters_are_unsupported_in_board_toml() -> None:
    made = [
        Finding("clock", FAILED, "is off"),
        Finding("ticks", FAILED, "does not grow", is_counter=True),
        Finding("cycles", OK, "evenly", is_counter=True),
    ]
    assert proof_facts(made) == {
        "schema_version": 1,
        "findings": [
            {"subject": "clock", "verdict": "failed", "text": "is off"},
            {"subject": "ticks", "verdict": "failed", "text": "does not grow"},
            {"subject": "cycles", "verdict": "ok", "text": "evenly"},
        ],
        "unsupported": {"ticks": "does not grow"},
    }


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("linux", "boardprof agent serve -b linux "),
        ("arduino-uno", "boardprof flash -b arduino-uno "),
        ("native", "boardprof build -b native "),
    ],
)
def test_firmware_without_known_work_is_told_what_to_build_and_how(name: str, hint: str) -> None:
    spec = available("native")
    with connect(spec) as board:
        board.spec = available(name)
        with pytest.raises(UsageError) as caught:
            list(check_board(board))
    assert caught.value.message == (
        f"The firmware of {name} lacks functions with known work: proof_depth, proof_rounds."
    )
    assert caught.value.hint is not None
    assert hint in caught.value.hint
    assert "/proof/proof.c " in caught.value.hint
    assert "/proof/work.c" in caught.value.hint


def test_work_of_the_boards_own_is_built_with_the_rest_and_missed_by_name(tmp_path: Path) -> None:
    spec = available("native")
    (tmp_path / "own.c").write_text("void spins(unsigned rounds) { while (rounds-- > 0) {} }\n")
    work = {"page-faults": KnownWork("spin", 1)}
    own = dataclasses.replace(spec, folder=tmp_path, doctor=DoctorSpec(("own.c",), work))
    assert proof_sources(own)[-1] == str(tmp_path / "own.c")
    image = build(spec, proof_sources(own)).image
    with connect(spec, image=image) as board:
        assert "spins" in board.functions
        board.spec = own
        with pytest.raises(UsageError, match="lacks functions with known work: spin"):
            list(check_board(board))


# -- known work -------------------------------------------------------------------------------


def test_every_counter_of_the_cycle_accurate_board_is_proved() -> None:
    spec = available("ibex-rtl")
    wrong = dataclasses.replace(spec.doctor, work={**spec.doctor.work, "jumps": TOO_MANY})
    found = findings(dataclasses.replace(spec, doctor=wrong))
    assert found["jumps"].verdict == FAILED
    assert found["jumps"].text.endswith(
        " counts in 50, 100, 150 rounds of proof_jumps; "
        "it should be 3 counts in each round of proof_jumps"
    )
    texts = {name: f.text for name, f in found.items() if f.verdict == OK and f.is_counter}
    assert {name: text for name, text in texts.items() if text.endswith(", exactly")} == {
        "jobs": "1 count in each round of known_jobs, exactly",
        "busy": "29 counts in each round of known_jobs, exactly",
        "macs": "64 counts in each round of known_jobs, exactly",
        "read-stalls": "1 count in each round of known_read_stalls, exactly",
        "write-stalls": "1 count in each round of known_write_stalls, exactly",
        "data-waits": "1 count in each round of proof_loads, exactly",
        "loads": "1 count in each round of proof_loads, exactly",
        "stores": "1 count in each round of proof_stores, exactly",
        "branches": "2 counts in each round of proof_branches, exactly",
        "branches-taken": "1 count in each round of proof_branches, exactly",
        "instruction-waits": "1 count in each round of known_fetches, exactly",
        "compressed-instructions": "2 counts in each round of proof_compressed, exactly",
        "multiply-waits": "2 counts in each round of proof_multiplications, exactly",
        "divide-waits": "36 counts in each round of proof_divisions, exactly",
    }
    assert set(texts) == {*spec.doctor.work, *TABLE, "ticks", "cycles", "instructions"}


TOO_MANY = KnownWork("proof_jumps", 3)
TABLE = {"loads", "stores", "branches", "branches-taken", "compressed-instructions"}


def test_events_are_proved_or_said_to_be_without_known_work() -> None:
    found = findings(available("qemu-rv32"))
    event = found["riscv_hpm.instructions"]
    assert event.verdict == OK
    assert event.text.startswith("2 counts a round, evenly, the same in every run; an empty window")
    for name in ("dTLB-load-misses", "dTLB-store-misses", "iTLB-load-misses"):
        assert (found[name].verdict, found[name].text) == (SKIPPED, "no known work for it")


def test_an_event_that_counts_nothing_is_unsupported() -> None:
    found = findings(available("qemu-cortex-m55"))
    assert (found["stall"].verdict, found["stall"].text) == (
        UNSUPPORTED,
        "stall does not advance",
    )


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (1, "counts", "1 count"),
        (2, "counts", "2 counts"),
        (1.0, "ticks", "1 tick"),
        (0.02, "ticks", "0.02 ticks"),
        (1, "ns", "1 ns"),
        (12345, "ns", "12,345 ns"),
    ],
)
def test_an_amount_has_its_unit(value: float, unit: str, text: str) -> None:
    assert amount(value, unit) == text
