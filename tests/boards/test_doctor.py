# SPDX-License-Identifier: Apache-2.0
"""Every board holds what it says; boards that were made wrong on purpose are found out."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import pytest

from boardprof.boards.board_file import BoardSpec, load_board
from boardprof.connection import connect
from boardprof.firmware.builder import build
from boardprof.run.proof import (
    FAILED,
    OK,
    SKIPPED,
    UNSUPPORTED,
    Finding,
    proof_facts,
    proof_sources,
    prove,
)
from tests.boards.conftest import available


def findings(spec: BoardSpec) -> dict[str, Finding]:
    with connect(spec, image=build(spec, proof_sources()).image) as board:
        return {found.subject: found for found in prove(board)}


def altered(like: str, folder: Path, *changes: tuple[str, str]) -> BoardSpec:
    """Return a board like another one, whose port.c has one text in place of another."""
    copy = folder / f"{like}-wrong"
    shutil.copytree(available(like).folder, copy)
    port = copy / "port.c"
    text = port.read_text(encoding="utf-8")
    for old, new in changes:
        assert text.count(old) == 1, f"{old!r} does not stand once in {port}"
        text = text.replace(old, new)
    port.write_text(text, encoding="utf-8")
    return load_board(copy)


def test_a_board_of_ours_holds_what_it_says(spec: BoardSpec) -> None:
    found = findings(spec)
    assert [f"{f.subject}: {f.text}" for f in found.values() if f.verdict == FAILED] == []
    assert {"clock", "arena", "stack"} <= set(found)
    proved = [f.subject for f in found.values() if f.verdict == OK]
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
    assert "follows the host's time" in found.text or "evenly" in found.text


def test_a_counter_that_is_wider_than_declared_fails(tmp_path: Path) -> None:
    wrong = altered("qemu-rv32", tmp_path, (".ticks_bits = 64", ".ticks_bits = 8"))
    found = findings(wrong)["ticks"]
    assert found.verdict == FAILED
    assert "more than its 8 bits hold" in found.text


def test_a_counter_that_is_narrower_than_declared_fails(tmp_path: Path) -> None:
    """The real one wraps at 2^16: every few milliseconds."""
    wrong = altered(
        "qemu-rv32",
        tmp_path,
        ("return bp_arch_mtime(BP_MTIME);", "return bp_arch_mtime(BP_MTIME) & 0x1ffu;"),
        (".ticks_bits = 64", ".ticks_bits = 32"),
    )
    found = findings(wrong)["ticks"]
    assert found.verdict == FAILED
    assert "grow" in found.text or "wraps before its declared width" in found.text


def test_a_wrong_frequency_is_seen_by_the_slower_clock(tmp_path: Path) -> None:
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
    found = findings(wrong)["coarse clock"]
    assert found.verdict == FAILED
    assert "by the slower clock" in found.text


def test_a_counter_that_is_stuck_is_unsupported_and_says_so(tmp_path: Path) -> None:
    wrong = altered("qemu-rv32", tmp_path, ("return bp_arch_mtime(BP_MTIME);", "return 0;"))
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
    assert "has no counter that works" in found["counters"].text
    assert (found["arena"].verdict, found["stack"].verdict) == (OK, SKIPPED)


def test_a_call_that_the_board_ends_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    """So many rounds that they take longer than the limit of the board."""
    spec = available("native")
    monkeypatch.setattr("boardprof.run.proof._FIRST_ROUNDS", 1 << 32 - 1)
    with connect(spec, image=build(spec, proof_sources()).image, timeout_s=0.2) as board:
        found = {each.subject: each for each in prove(board)}
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


def test_firmware_without_known_work_is_named_with_what_to_flash() -> None:
    spec = available("native")
    from boardprof.errors import UsageError

    with connect(spec) as board, pytest.raises(UsageError, match="no functions of known work"):
        prove(board)
