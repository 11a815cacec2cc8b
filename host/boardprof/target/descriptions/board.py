# SPDX-License-Identifier: Apache-2.0
"""What a board is: the content of its folder's ``board.toml``, read strictly.

Each ``read_...`` of this package reads one table. Like `TomlTable`, it raises UsageError for an
unknown key, a missing key and a wrong value.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from boardprof.base.errors import UnknownNameError, UsageError
from boardprof.base.files import boards_dir, read_short_text
from boardprof.base.packages import load_plugins
from boardprof.base.toml_table import TomlTable, parsed
from boardprof.target.descriptions.tables import (
    DEFAULT_BAUD,
    BuildSpec,
    DerivedSpec,
    DoctorSpec,
    FlashSpec,
    GuardSpec,
    LaunchSpec,
    PortSpec,
    check_formula,
    check_names,
    counted_names,
    read_build,
    read_derived,
    read_doctor,
    read_events,
    read_flash,
    read_guard,
    read_launch,
    read_port,
)

BOARD_FILE = "board.toml"

_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}"
_QEMU = "qemu-system-"
_QEMU_RISCV = "qemu-system-riscv"
_EMULATORS = r"(?i)qemu-[\w-]+|renode(-\w+)?|spike|FVP_[\w-]+"
_ICOUNT = r"--?icount"
_FIXED = r"(?:(?:.*,)?shift=)?(\d+)(?:,.*)?"
_COUNTED = ("instructions", "cycles", "ticks")
_TIMES = ("duration_time", "task-clock", "cpu-clock")
_TIME_SCALE = 30.0  # time scale for an emulator that is found at a port


@dataclass(frozen=True)
class ClockSpec:
    """Where the board's clock frequency comes from: ``[clock]``."""

    kind: str
    time_scale: float = 1.0  # wall seconds per second of the board's clock, for timeouts
    emulated: bool = False  # by a cycle-accurate simulator, as good as real
    reason: str = ""  # for ``kind``, if neither board.toml nor the user chose it
    given: bool = False

    @property
    def is_emulated(self) -> bool:
        """Whether the board is emulated by a program."""
        return self.emulated or self.kind == "simulated"


def _read_clock(table: TomlTable) -> ClockSpec:
    spec = ClockSpec(
        kind=table.choice("kind", ("measured", "declared", "simulated")),
        time_scale=table.positive("time_scale", 1.0),
        emulated=table.take("emulated", bool, False),
    )
    if spec.emulated and spec.kind != "declared":
        raise table.error(
            "emulated", f'it is for simulators with kind = "declared", not "{spec.kind}"'
        )
    table.end()
    return spec


@dataclass(frozen=True)
class BoardSpec:
    """One board: the content of its ``board.toml``."""

    name: str
    folder: Path
    summary: str
    build: BuildSpec
    launch: LaunchSpec
    clock: ClockSpec
    guard: GuardSpec = field(default_factory=GuardSpec)
    flash: FlashSpec | None = None  # None if the host starts it, or if unknown
    port: PortSpec | None = None  # the real board, if the host also starts an emulator
    family: str | None = None
    default: bool = False
    status: str = "none"  # what each change tests: "run", "built" or "none"
    unsupported: Mapping[str, str] = field(default_factory=dict, hash=False)  # counter -> why
    events: Mapping[str, Mapping[str, int]] = field(default_factory=dict, hash=False)
    derived: Mapping[str, DerivedSpec] = field(default_factory=dict, hash=False)
    doctor: DoctorSpec = field(default_factory=DoctorSpec)
    instruction_ns: int = 0  # what each takes on the clock of a QEMU; 0 if not known

    @property
    def runs_here(self) -> bool:
        """Whether its image is a program or a library for this machine's own system."""
        return self.build.arch == "posix" and not self.clock.is_emulated

    def at_port(self) -> BoardSpec:
        """Return the board as it is at a port: the real one if it has ``[port]``."""
        if self.port is None:
            return self
        launch, clock = LaunchSpec("serial", baud=self.port.baud), ClockSpec(self.port.clock)
        real = replace(self, launch=launch, clock=clock, port=None, instruction_ns=0)
        return replace(real, unsupported=self.port.unsupported)

    def played_by(self, commands: Iterable[Sequence[str]]) -> BoardSpec:
        """Return the board as emulated, if an emulator is at the other end of its line."""
        found = next(((name, each) for each in commands if (name := emulator_name(each))), None)
        if found is None:
            return self
        emulator, command = found
        clock, cycles = self.clock, {"cycles": f"{emulator} has no cycle model"}
        if clock.kind != "simulated":
            clock = ClockSpec("simulated", _TIME_SCALE, reason=f"{emulator} runs at its port")
        if self.build.arch == "posix":  # its clocks are those of the host
            cycles |= dict.fromkeys(_TIMES, f"{emulator} is slower than the CPU that it emulates")
        unsupported = {**cycles, **self.unsupported, **_without_meaning(command)}
        time_ns = instruction_time_ns(command) or 0
        return replace(self, clock=clock, unsupported=unsupported, instruction_ns=time_ns)


def is_board_name(name: str) -> bool:
    """Return whether a board can have this name."""
    return re.fullmatch(_NAME, name) is not None


def load_board(folder: Path, *, with_counts: bool = True) -> BoardSpec:
    """Read ``folder``/board.toml; ``with_counts`` checks the counts that it names (slow)."""
    folder = Path(os.path.realpath(folder))  # resolve() raises in a circle, before Python 3.13
    top = TomlTable(_parsed(folder / BOARD_FILE), folder / BOARD_FILE)
    if not is_board_name(folder.name):
        raise UsageError(
            f"{folder}: a folder's name is the board's name: letters, digits, '.', '_' and '-'.",
            hint="rename the folder",
        )
    summary = top.take("summary", str)
    family = top.take("family", str, None)
    default = top.take("default", bool, False)
    status = top.choice("status", ("run", "built", "none"), "none")
    build_table = top.table("build")
    build = read_build(build_table)
    launch = read_launch(top.table("launch"))
    port = read_port(top.table("port"), launch.kind) if top.has("port") else None
    events = read_events(top.table("events", required=False), build.collectors)
    guard = top.table("guard") if top.has("guard") else None
    flash = top.table("flash") if top.has("flash") else None
    unsupported = top.table("unsupported", required=False).mapping(str)
    names = {event for codes in events.values() for event in codes}
    spec = BoardSpec(
        name=folder.name,
        folder=folder,
        summary=summary,
        family=family,
        default=default,
        status=status,
        build=build,
        launch=launch,
        clock=_read_clock(top.table("clock")),
        guard=read_guard(guard, build.config, build_table),
        flash=read_flash(flash, launch.kind, has_port=port is not None) if flash else None,
        port=port,
        unsupported=_without_meaning(launch.command) | unsupported,
        events=events,
        derived=read_derived(top.table("derived", required=False), names),
        doctor=read_doctor(top.table("doctor", required=False)),
        instruction_ns=instruction_time_ns(launch.command) or 0,
    )
    top.end()
    if with_counts:
        _check_counts(top, spec)
    return spec


def _check_counts(top: TomlTable, spec: BoardSpec) -> None:
    tables = [top.table("unsupported", required=False)]
    tables.append(top.table("port", required=False).table("unsupported", required=False))
    work = top.table("doctor", required=False).table("work", required=False)
    if not (spec.derived or any(table.keys for table in (*tables, work))):
        return
    known = counted_names(spec.folder, spec.build.collectors, spec.events)
    if known is None:
        return
    for table in tables:
        check_names(table, [*known, *spec.derived])
    check_names(work, known)
    for name, derived in spec.derived.items():
        check_formula(top.table("derived").table(name), derived.formula, known)


def metric_names(spec: BoardSpec) -> list[str] | None:
    """Return the metrics that a board may have; None if its description does not tell."""
    counts = counted_names(spec.folder, spec.build.collectors, spec.events)
    if counts is None:
        return None
    by_clock = ["instructions"] if spec.instruction_ns else []
    have = [name for name in counts if name not in spec.unsupported]
    return list(dict.fromkeys([*by_clock, *have, *spec.derived]))


_MOST_BASES = 4  # descriptions below one board


def _parsed(path: Path, depth: int = 0) -> dict[str, Any]:
    """Return the content of a description, over that of its ``base`` in the folder of boards."""
    try:
        content = parsed(read_short_text(path), path)
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read: {error.strerror}.", hint=f"a board's folder has a {BOARD_FILE}"
        ) from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not valid TOML: {error}.") from error
    table = TomlTable(content, path)
    base = table.take("base", str, None)
    content.pop("base", None)
    if base is None:
        return content
    folder = boards_dir().resolve()
    file = (folder / base).resolve()
    if not (file.is_relative_to(folder) and file.is_file()):
        raise table.error("base", f"{base} is not in {folder}")
    if depth >= _MOST_BASES:
        raise table.error("base", f"{base} names itself, or too many others")
    return _over(_parsed(file, depth + 1), content)


def _over(base: dict[str, Any], content: dict[str, Any]) -> dict[str, Any]:
    """Return ``base`` with the values of ``content``; tables of both are joined."""
    for key, value in content.items():
        both = isinstance(value, dict) and isinstance(base.get(key), dict)
        base[key] = _over(base[key], value) if both else value
    return base


def emulator_name(command: Sequence[str]) -> str | None:
    """Return the emulator that a command line starts; None if it is not one without a pipeline."""
    words = [Path(word).name.removesuffix(".exe") for word in command]
    if words[:1] == ["mono"]:  # runs Renode
        words = words[1:]
    return words[0] if words and re.fullmatch(_EMULATORS, words[0]) else None


def _without_meaning(command: Sequence[str]) -> dict[str, str]:
    """Return counter name -> why a board with this command line does not have it.

    QEMU counts instructions only if they drive its virtual clock (``-icount shift=N``). Otherwise
    such counters show the host's time (QEMU's documentation, "TCG Instruction Counting").
    """
    if not command or not Path(command[0]).name.startswith(_QEMU):
        return {}
    given = _icount(command)
    instruction_ns = instruction_time_ns(command)
    if instruction_ns is not None:
        is_riscv = Path(command[0]).name.startswith(_QEMU_RISCV)
        why = f"with -icount {given}, QEMU counts {instruction_ns:,} for each; it needs shift=0"
        return {"instructions": why} if is_riscv and instruction_ns > 1 else {}
    found = f"with -icount {given}" if given else "without -icount"
    why = f"{found}, QEMU's counters show the host's time; it needs -icount shift=N"
    return dict.fromkeys(_COUNTED, why)


def _icount(command: Sequence[str]) -> str:
    """Return the value of QEMU's last option ``-icount``; "" if it has none."""
    values = [after for word, after in pairwise([*command, ""]) if re.fullmatch(_ICOUNT, word)]
    return values[-1] if values else ""


def instruction_time_ns(command: Sequence[str]) -> int | None:
    """Return what each instruction takes on the clock of a QEMU, ns; None if that varies."""
    if not command or not Path(command[0]).name.startswith(_QEMU):
        return None
    fixed = re.fullmatch(_FIXED, _icount(command))
    return None if fixed is None else 1 << int(fixed[1])


# -- boards by name ------------------------------------------------------------------------------


def find_boards() -> dict[str, Path]:
    """Return the folder of every board, by name: boardprof's own, then other packages'."""
    boards = _own_boards()
    for folder, place in load_plugins("boards", "The board", _folder):
        if folder.name in boards:
            warnings.warn(
                f"The board {folder.name!r} in {place} is ignored: "
                f"{boards[folder.name]} already has this name.",
                stacklevel=2,
            )
            continue
        boards[folder.name] = folder
    return boards


def board_spec(name: str) -> BoardSpec:
    """Read the board called ``name``; a name with a ``/`` is the path of a board's folder."""
    if os.sep in name:
        return load_board(Path(name).expanduser())
    try:
        return _board_called(name)
    except UnknownNameError as error:
        if (Path(name) / BOARD_FILE).is_file():
            error.hint = f"give -b .{os.sep}{name}: the path of a folder needs a {os.sep}"
        elif "," in name:
            error.hint = "give one board: only `boardprof run` takes several"
        raise


def _board_called(name: str) -> BoardSpec:
    own = _own_boards()
    if name in own:  # before other packages are imported
        return load_board(own[name])
    boards = find_boards()
    if name not in boards:
        raise UnknownNameError("board", name, boards)
    return load_board(boards[name])


def default_board() -> BoardSpec:
    """Read the default board, which is one of boardprof's own."""
    specs = [load_board(folder, with_counts=False) for folder in _own_boards().values()]
    defaults = [spec for spec in specs if spec.default]
    if len(defaults) != 1:
        names = ", ".join(spec.name for spec in defaults) or "none"
        raise UsageError(
            f"Exactly one board must have default = true; in {boards_dir()} these have it: "
            f"{names}.",
            hint="name the board",
        )
    return defaults[0]


def unnamed_board() -> BoardSpec:
    """Return the description of a board at a port before its name is known; its name is ""."""
    return BoardSpec(
        name="",
        folder=boards_dir(),  # without counters of its own
        summary="a board without a description",
        build=BuildSpec(cc="", package=""),
        launch=LaunchSpec("serial", baud=DEFAULT_BAUD),
        clock=ClockSpec("declared"),
    )


def with_reported_board(spec: BoardSpec, name: str) -> BoardSpec:
    """Return ``spec``; for `unnamed_board` the known board, or only the name added."""
    if spec.name:
        return spec
    try:
        return _board_called(name).at_port()  # never a path: the name comes over the wire
    except UnknownNameError:
        return replace(spec, name=name)


def is_recordable(spec: BoardSpec) -> bool:
    """Tell whether calls on a board can be recorded."""
    return bool(spec.launch.record or spec.launch.recorder)


def check_recordable(spec: BoardSpec) -> None:
    """Check that calls on a board can be recorded."""
    if is_recordable(spec):
        return
    if spec.launch.kind == "serial":
        raise UsageError(
            f"Every instruction of a call can be seen on an emulated board, and {spec.name} is a "
            "real one.",
            hint="sample it instead (--sampled, or sampled=True), or take an emulated board of the "
            "same core: boardprof boards",
        )
    if spec.launch.kind == "process":
        raise UsageError(
            f"The emulator of {spec.name} cannot record a call.",
            hint="sample it instead (--sampled, or sampled=True)",
        )
    others = [name for name in find_boards() if board_spec(name).launch.recorder]
    raise UsageError(
        f"{spec.name} runs in this process, where nothing can record a call.",
        hint=f"take {' or '.join(f'-b {name}' for name in others)}, or an emulated board: "
        "boardprof boards",
    )


def _own_boards() -> dict[str, Path]:
    return {path.parent.name: path.parent for path in sorted(boards_dir().glob(f"*/{BOARD_FILE}"))}


def _folder(found: Any) -> Path:
    folder = Path(found() if callable(found) else found).resolve()
    if not (folder / BOARD_FILE).is_file():
        raise UsageError(f"{folder} has no {BOARD_FILE}.")
    return folder
