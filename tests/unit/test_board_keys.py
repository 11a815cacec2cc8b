# SPDX-License-Identifier: Apache-2.0
"""board.toml of boards that are emulated or on a desk, that count events, and of simulators."""

from __future__ import annotations

from pathlib import Path

import pytest

from boardprof.base.errors import UsageError
from boardprof.base.toml_table import TomlTable
from boardprof.target.descriptions.board import BoardSpec, ClockSpec, load_board
from boardprof.target.descriptions.tables import LaunchSpec, PortSpec, SimulatorSpec, read_derived
from tests.unit.test_boards import folder_of

BOARD = """\
summary = "a board"
[build]
cc = "some-gcc"
package = "gcc-some"
collectors = ["hpm"]
[launch]
kind = "process"
command = ["emulator", "{image}", "{port}"]
listen = "host"
[clock]
kind = "simulated"
[unsupported]
cycles = "the emulator has none"
"""
DESK = '[port]\nbaud = 9600\nclock = "declared"\n[port.unsupported]\nsleep = "not on this one"\n'
NOT_CAUGHT = 'misaligned = "no"\ndivide = "no"\n'
SIMULATOR = """\
[launch.simulator]
sources = ["sim/*.c", "port.c"]
command = ["cc", "-o", "{output}", "sim/a.c"]
program = "cc"
package = "gcc"
"""


def spec_of(tmp_path: Path, text: str) -> BoardSpec:
    return load_board(folder_of(tmp_path, text))


def refused(tmp_path: Path, text: str) -> str:
    folder = folder_of(tmp_path, text)
    with pytest.raises(UsageError) as caught:
        load_board(folder)
    return str(caught.value).removeprefix(f"{folder / 'board.toml'}:")


# -- the line ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('cc = "some-gcc"', "cc = 3", "3: [build] cc: must be a string, not an integer (3)."),
        ('cc = "some-gcc"\n', "", "2: [build] cc: the key is missing; it must be a string."),
        ('["hpm"]', '[\n"hpm",\n7]', "5: [build] collectors: must be a string, not an integer"),
        ("[clock]", "[clocks]", " clock: the key is missing; it must be a table."),
        (
            "cycles",
            "guarded = true\n[unsupported.x]\ncycles",
            "13: [unsupported] guarded: must be a string",
        ),
    ],
)
def test_an_error_names_the_line_of_the_key_or_of_its_table(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    assert refused(tmp_path, BOARD.replace(old, new, 1)).startswith(message)


# -- what boards share ------------------------------------------------------------------------


def test_a_board_has_what_its_base_says_and_it_does_not(tmp_path: Path) -> None:
    text = BOARD.replace("[build]", 'base = "linux/static.toml"\nstatus = "built"\n[build]', 1)
    spec = spec_of(tmp_path, text.replace("[clock]", "[guard.not]\n" + NOT_CAUGHT + "[clock]", 1))
    assert (spec.build.arch, spec.build.cc, spec.build.collectors) == (
        "posix",
        "some-gcc",
        ("hpm",),
    )
    assert "abort" in spec.guard.catches
    assert spec.guard.missing == {"misaligned": "no", "divide": "no"}
    assert spec.unsupported == {"cycles": "the emulator has none"}


def test_a_base_is_a_description_beside_boardprofs_boards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for base in ("linux/sttic.toml", "../pyproject.toml", __file__):
        with pytest.raises(UsageError, match=r"base: .* is not in .*boards"):
            spec_of(tmp_path / Path(base).stem, f'base = "{base}"\n{BOARD}')
    monkeypatch.setattr("boardprof.target.descriptions.board.boards_dir", lambda: tmp_path)
    (tmp_path / "loop.toml").write_text('base = "loop.toml"\n')
    with pytest.raises(UsageError, match=r"base: loop\.toml names itself"):
        spec_of(tmp_path, f'base = "loop.toml"\n{BOARD}')


# -- a board on a desk ------------------------------------------------------------------------


def test_a_board_with_a_port_is_the_emulated_one_until_it_is_at_a_port(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, BOARD + DESK)
    assert spec.port == PortSpec("declared", 9600, {"sleep": "not on this one"})
    assert (spec.launch.kind, spec.clock.kind) == ("process", "simulated")
    assert spec.unsupported == {"cycles": "the emulator has none"}
    real = spec.at_port()
    assert real.launch == LaunchSpec("serial", baud=9600)
    assert real.clock == ClockSpec("declared", 1.0, False)
    assert real.unsupported == {"sleep": "not on this one"}
    assert (real.name, real.build, real.port) == (spec.name, spec.build, None)


def test_a_board_without_a_port_is_the_same_at_any(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, BOARD)
    assert spec.at_port() is spec


def test_a_port_runs_at_115200_baud_unless_told(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, BOARD + '[port]\nclock = "measured"\n')
    assert spec.port == PortSpec("measured", 115200, {})


def test_a_board_with_a_port_may_be_flashed(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, BOARD + DESK + '[flash]\ncommand = ["tool", "{hex}"]\n')
    assert spec.flash is not None
    assert spec.flash.command == ("tool", "{hex}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (BOARD + "[port]\nbaud = 9600\n", "14: [port] clock: the key is missing; it must be a s"),
        (
            BOARD + '[port]\nclock = "simulated"\n',
            '15: [port] clock: must be one of "measured", "declared", not "simulated"',
        ),
        (
            BOARD + '[port]\nclock = "measured"\nbaud = 0\n',
            "16: [port] baud: must be a baud rate above 0, not 0",
        ),
        (
            BOARD + '[port]\nclock = "measured"\nspeed = 9600\n',
            "16: [port] speed: unknown key; Known here: clock, baud, unsupported",
        ),
        (
            BOARD.replace('"process"', '"library"').replace("command", "#").replace("listen", "#")
            + DESK,
            '16: [port] clock: [port] is for boards with launch.kind = "process", not "library"',
        ),
        (
            BOARD + '[flash]\ncommand = ["tool", "{image}"]\n',
            '15: [flash] command: a board with launch.kind = "process" can only be flashed if it '
            "has [port]",
        ),
    ],
)
def test_a_wrong_port_is_told(tmp_path: Path, text: str, message: str) -> None:
    assert refused(tmp_path, text).startswith(message)


# -- simulators -------------------------------------------------------------------------------


def with_simulator(text: str = SIMULATOR) -> str:
    return BOARD.replace('"emulator"', '"{simulator}"').replace("[clock]", f"{text}[clock]")


def test_a_simulator_is_read_as_it_is_written(tmp_path: Path) -> None:
    text = with_simulator(
        SIMULATOR.replace(
            '"{output}"', '"{output}", "{scratch}", "{runtime}/x", "{python_package}"'
        )
        + 'headers = { "sim.h" = "libsim-dev" }\npython_package = "some-core"\n'
    )
    folder = folder_of(tmp_path, text, "port.c", "sim/a.c", "sim/b.c")
    assert load_board(folder).launch.simulator == SimulatorSpec(
        sources=("sim/*.c", "port.c"),
        command=(
            *("cc", "-o", "{output}", "{scratch}", "{runtime}/x", "{python_package}", "sim/a.c"),
        ),
        program="cc",
        package="gcc",
        headers={"sim.h": "libsim-dev"},
        python_package="some-core",
    )


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (', "port.c"]', ', "no.c"]', "11: [launch.simulator] sources: there is no file 'no.c'"),
        ("sim/*.c", "sim/*.v", "11: [launch.simulator] sources: there is no file 'sim/*.v'"),
        ("sim/*.c", "{home}/*.c", '11: [launch.simulator] sources: "{home}" is not known; {ru'),
        ("{output}", "{scratch}", '12: [launch.simulator] command: must contain "{output}"'),
        (
            '"{output}"',
            '"{output}", "{python_package}"',
            '12: [launch.simulator] command: "{python_package}" is not known; {output}, {runtime}, '
            "{scratch} are",
        ),
        ('program = "cc"\n', "", "10: [launch.simulator] program: the key is missing; it must be"),
        ('package = "gcc"\n', "", "10: [launch.simulator] package: the key is missing; it must be"),
        (
            '"{simulator}"',
            '"sim"',
            '8: [launch] command: must contain "{image}", and "{port}" if listen',
        ),
    ],
)
def test_a_wrong_simulator_is_told(tmp_path: Path, old: str, new: str, message: str) -> None:
    text = with_simulator().replace(old, new, 1)
    folder = folder_of(tmp_path, text, "port.c", "sim/a.c")
    with pytest.raises(UsageError) as caught:
        load_board(folder)
    assert message in str(caught.value)


def test_a_command_cannot_name_a_simulator_that_is_not_built(tmp_path: Path) -> None:
    text = BOARD.replace('"emulator"', '"{simulator}"')
    assert '"{simulator}" with [launch.simulator]' in refused(tmp_path, text)


def test_a_declared_clock_may_be_a_simulators(tmp_path: Path) -> None:
    text = BOARD.replace('"simulated"', '"declared"\nemulated = true')
    clock = spec_of(tmp_path, text).clock
    assert (clock.kind, clock.is_emulated) == ("declared", True)


def test_a_simulated_clock_is_emulated_without_saying_so(tmp_path: Path) -> None:
    assert spec_of(tmp_path, BOARD).clock.is_emulated


def test_a_measured_clock_is_of_no_simulator(tmp_path: Path) -> None:
    text = refused(tmp_path, BOARD.replace('"simulated"', '"measured"\nemulated = true'))
    assert text.startswith('12: [clock] emulated: it is for simulators with kind = "declared"')


# -- an emulator without determinism ----------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ("", "without -icount"),
        ('"-icount", "shift=auto", ', "with -icount shift=auto"),
        ('"-icount", "auto,sleep=off", ', "with -icount auto,sleep=off"),
        ('"-icount", "sleep=off", ', "with -icount sleep=off"),
    ],
)
def test_qemu_without_a_fixed_shift_counts_no_instructions(
    tmp_path: Path, options: str, found: str
) -> None:
    text = BOARD.replace('"emulator"', f'"qemu-system-riscv32", {options}"-M", "virt"')
    reason = f"{found}, QEMU's counters show the host's time; it needs -icount shift=N"
    assert spec_of(tmp_path, text).unsupported == {
        "instructions": reason,
        "ticks": reason,
        "cycles": "the emulator has none",
    }


@pytest.mark.parametrize("icount", ["shift=0,sleep=off", "0", "6,sleep=off", "align=off,shift=10"])
@pytest.mark.parametrize("option", ["-icount", "--icount"])
def test_qemu_with_a_fixed_shift_counts_them(tmp_path: Path, icount: str, option: str) -> None:
    text = BOARD.replace('"emulator"', f'"/usr/bin/qemu-system-arm", "{option}", "{icount}"')
    assert spec_of(tmp_path, text).unsupported == {"cycles": "the emulator has none"}


def test_qemus_risc_v_counts_them_with_a_shift_of_0(tmp_path: Path) -> None:
    text = BOARD.replace('"emulator"', '"qemu-system-riscv64", "-icount", "shift=0,sleep=off"')
    assert spec_of(tmp_path, text).unsupported == {"cycles": "the emulator has none"}


@pytest.mark.parametrize(("icount", "each"), [("shift=3,sleep=off", 8), ("10", "1,024")])
def test_with_another_shift_it_counts_several_for_each_instruction(
    tmp_path: Path, icount: str, each: object
) -> None:
    text = BOARD.replace('"emulator"', f'"qemu-system-riscv64", "-icount", "{icount}"')
    assert spec_of(tmp_path, text).unsupported == {
        "instructions": f"with -icount {icount}, QEMU counts {each} for each; it needs shift=0",
        "cycles": "the emulator has none",
    }


# -- status, events, derived metrics ----------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "status"), [("", "none"), ('status = "run"', "run"), ('status = "built"', "built")]
)
def test_a_boards_status_is_none_unless_it_says_more(
    tmp_path: Path, line: str, status: str
) -> None:
    assert spec_of(tmp_path, f"{line}\n{BOARD}").status == status


def test_another_status_is_refused(tmp_path: Path) -> None:
    message = refused(tmp_path, f'status = "tried"\n{BOARD}')
    assert message.startswith('1: status: must be one of "run", "built", "none", not "tried"')


def test_events_are_codes_of_a_programmable_collector(tmp_path: Path) -> None:
    text = '[events.hpm]\nbranch-misses = 0x10\n"l1d.refill" = 3\n'
    spec = spec_of(tmp_path, BOARD + text)
    assert spec.events == {"hpm": {"branch-misses": 16, "l1d.refill": 3}}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "[events.pmu]\nx = 1",
            "14: [events] pmu: the board does not have this collector; build.collectors: hpm",
        ),
        ('[events.hpm]\nx = "1"', "15: [events.hpm] x: must be an integer, not a string ('1')"),
        (
            "[events.hpm]\nx = -1",
            "15: [events.hpm] x: must be a code of 0 or more that fits in 64 bits, not -1",
        ),
        (
            '[events.hpm]\n"a b" = 1',
            "15: [events.hpm] a b: must be a name of letters, digits",
        ),
        ("[events]\nhpm = 3", "15: [events] hpm: must be a table, not an integer (3)"),
        ("[derived]\nIPC = 3", "15: [derived] IPC: must be a table, not an integer (3)"),
        (
            '[derived.IPC]\nkind = "Duration"',
            '15: [derived.IPC] kind: must be one of "Count", "Percent", "Ratio"',
        ),
        ('[derived.IPC]\nkind = "Ratio"', "14: [derived.IPC] formula: the key is missing; it"),
        (
            '[derived]\nIPC = { kind = "Ratio", formula = "a / " }',
            '15: [derived.IPC] formula: "a / ": a number, a name or a bracket is expected, but it',
        ),
        (
            '[derived]\nIPC = { kind = "Ratio", formula = "a", unit = "x" }',
            "15: [derived.IPC] unit: unknown key; Known here: kind, formula",
        ),
    ],
)
def test_wrong_events_and_formulas_are_told(tmp_path: Path, text: str, message: str) -> None:
    assert refused(tmp_path, f"{BOARD}{text}\n").startswith(message)


def test_a_derived_metric_has_a_kind_and_a_formula(tmp_path: Path) -> None:
    text = '[derived]\n"IPC" = { kind = "Ratio", formula = "instructions / cycles" }\n'
    found = spec_of(tmp_path, BOARD + text).derived["IPC"]
    assert (found.kind, found.formula.text) == ("Ratio", "instructions / cycles")
    assert found.formula.names == ("instructions", "cycles")
    assert found.formula.value({"instructions": 30.0, "cycles": 20.0}) == 1.5


@pytest.mark.parametrize(
    "name",
    [
        *("Name", "Duration (us)", "Percent", "Device", "Count", "Argument Shapes", "Flags"),
        *("Hash", "Stack (bytes)", "Perturbation (%)", "duration", "all"),
    ],
)
def test_a_derived_metric_has_no_name_that_a_report_needs(tmp_path: Path, name: str) -> None:
    text = f'[derived]\n"{name}" = {{ kind = "Count", formula = "instructions" }}\n'
    message = "boardprof already uses this name"
    assert refused(tmp_path, BOARD + text).startswith(f"15: [derived] {name}: {message}")


def test_a_derived_metric_hides_no_event(tmp_path: Path) -> None:
    file = tmp_path / "board.toml"
    file.write_text('[derived]\nloads = { kind = "Count", formula = "1" }\n')
    table = TomlTable({"loads": {"kind": "Count", "formula": "1"}}, file, "derived")
    with pytest.raises(UsageError, match=r"loads: an event in \[events\] already has this name"):
        read_derived(table, {"loads"})
