# SPDX-License-Identifier: Apache-2.0
"""board.toml speaks of counts that the board has, and of sizes that the agent can have."""

from __future__ import annotations

from pathlib import Path

import pytest

from boardprof.target.descriptions.tables import KnownWork
from tests.unit.test_board_keys import BOARD, refused, spec_of
from tests.unit.test_boards import folder_of

COUNTS = (
    BOARD.replace('["hpm"]', '["cycles_instret", "riscv_hpm"]') + "[events.riscv_hpm]\nTLB = 1\n"
)
"""Whose counters are cycles and instructions, and whose event is TLB."""

KNOWN = "Known here: cycles, instructions, TLB"


def test_what_is_unsupported_may_be_a_counter_an_event_or_a_derived_metric(tmp_path: Path) -> None:
    text = COUNTS.replace(
        "[events",
        'TLB = "no"\n"riscv_hpm.TLB" = "no"\nIPC = "no"\n'
        '[derived]\nIPC = { kind = "Ratio", formula = "riscv_hpm.TLB / cycles" }\n[events',
    )
    assert list(spec_of(tmp_path, text).unsupported) == ["cycles", "TLB", "riscv_hpm.TLB", "IPC"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            COUNTS.replace("cycles =", "cycle ="),
            "13: [unsupported] cycle: is not a count of this board; "
            f"did you mean 'cycles'? {KNOWN}.",
        ),
        (
            COUNTS.replace("cycles =", "colour ="),
            f"13: [unsupported] colour: is not a count of this board; {KNOWN}.",
        ),
        (
            COUNTS + '[port]\nclock = "declared"\n[port.unsupported]\nticks = "no"\n',
            f"19: [port.unsupported] ticks: is not a count of this board; {KNOWN}.",
        ),
        (
            COUNTS + '[derived]\nIPC = { kind = "Ratio", formula = "2 * instrucions / cycles" }\n',
            '17: [derived.IPC] formula: "instrucions" is not a count of this board; '
            f"did you mean 'instructions'? {KNOWN}.\n"
            "  2 * instrucions / cycles\n"
            "      ^^^^^^^^^^^",
        ),
        (
            COUNTS + '[derived]\nIPC = { kind = "Ratio", formula = "cycles /* 2" }\n',
            '17: [derived.IPC] formula: "cycles /* 2": a number, a name or a bracket is '
            'expected, but "* 2" was found.\n  cycles /* 2\n          ^',
        ),
        (
            COUNTS + '[doctor.work]\nloads = { function = "f", per_round = 1 }\n',
            f"17: [doctor.work] loads: is not a count of this board; {KNOWN}.",
        ),
    ],
)
def test_a_misspelt_count_is_told_with_what_there_is(
    tmp_path: Path, text: str, message: str
) -> None:
    assert refused(tmp_path, text) == message


@pytest.mark.parametrize("collector", ["linux_perf", "riscv_hpm", "of_another_package"])
def test_where_a_board_knows_its_events_by_name_nothing_is_known_before(
    tmp_path: Path, collector: str
) -> None:
    text = BOARD.replace("hpm", collector).replace("cycles =", "anything =")
    assert "anything" in spec_of(tmp_path, text).unsupported


def test_the_boards_own_counters_are_known_by_its_schema(tmp_path: Path) -> None:
    schema = (
        "from construct import Int32ul, Struct\n"
        "from boardprof_protocol.layout import Counter, Layout\n"
        'S = Struct("a" / (Int32ul * "count"), "b" / (Int32ul * "count"))\n'
        'LAYOUTS = [Layout("hpm", 1000, 1, S, (Counter("stalls", "a", "b"),))]\n'
    )
    folder = folder_of(tmp_path, BOARD.replace("cycles =", "stall ="))
    (folder / "schema.py").write_text(schema)
    from boardprof.base.errors import UsageError
    from boardprof.target.descriptions.board import load_board

    with pytest.raises(UsageError, match="did you mean 'stalls'"):
        load_board(folder)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("arena = -5", "arena: must be 0..0x7fffffff, not -5."),
        ("mtu = 16", "mtu: must be 64..65535, not 16."),
        ("mtu = 65536", "mtu: must be 64..65535, not 65536."),
        ("handles = 0", "handles: must be 1..255, not 0."),
        ("slot_bytes = 0", "slot_bytes: must be 1 or more, not 0."),
        ("crc_table = 2", "crc_table: must be 0, 1, 8, not 2."),
        ("guard = 2", "guard: must be 0, 1, not 2."),
        ("arena = 64, mtu = 128, bulk = 256", "bulk: must be 0, 64..mtu, not 256."),
        ("bulk = 64", "bulk: bulk needs arena: what channels carry stands there."),
        (
            "arena = 64, bulk = 64, stream = 100",
            "stream: must be 0, powers of two up to 0x40000000, not 100.",
        ),
    ],
)
def test_a_size_that_the_agent_cannot_have_is_told_at_its_line(
    tmp_path: Path, config: str, message: str
) -> None:
    text = BOARD.replace("[launch]", f"config = {{ {config} }}\n[launch]")
    assert refused(tmp_path, text) == f"6: [build.config] {message}"


def test_the_sizes_at_the_ends_are_right(tmp_path: Path) -> None:
    config = "mtu = 64, arena = 2147483647, handles = 255, bulk = 64, stream = 64, rx_bytes = 64"
    text = BOARD.replace("[launch]", f"config = {{ {config} }}\n[launch]")
    assert spec_of(tmp_path, text).build.config["arena"] == 2147483647


def test_known_keys_are_told_once_each(tmp_path: Path) -> None:
    message = refused(tmp_path, f'colour = "red"\n{BOARD}')
    assert message.count("guard") == 1


# -- work for the doctor ----------------------------------------------------------------------

DOCTOR = '[doctor]\nsources = ["port.c"]\n[doctor.work]\n'


def test_a_board_brings_work_for_its_counters(tmp_path: Path) -> None:
    text = COUNTS + DOCTOR + 'TLB = { function = "touches_pages", per_round = 64 }\n'
    doctor = spec_of(tmp_path, text).doctor
    assert doctor.sources == ("port.c",)
    assert doctor.work == {"TLB": KnownWork("touches_pages", 64)}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[doctor]\nsources = ["no.c"]\n', "17: [doctor] sources: there is no file 'no.c' in th"),
        ("[doctor]\nsource = []\n", "17: [doctor] source: unknown key; did you mean 'sources'?"),
        (DOCTOR + "TLB = 3\n", "19: [doctor.work] TLB: must be a table, not an integer (3)."),
        (
            DOCTOR + 'TLB = { function = "f" }\n',
            "19: [doctor.work.TLB] per_round: the key is missing; it must be an integer.",
        ),
        (
            DOCTOR + 'TLB = { function = "f", per_round = 0 }\n',
            "19: [doctor.work.TLB] per_round: must be a count of 1 or more, not 0.",
        ),
        (
            DOCTOR + 'TLB = { function = "f()", per_round = 1 }\n',
            "19: [doctor.work.TLB] function: must be the name of a C function, not 'f()'.",
        ),
    ],
)
def test_wrong_work_is_told(tmp_path: Path, text: str, message: str) -> None:
    assert refused(tmp_path, COUNTS + text).startswith(message)
