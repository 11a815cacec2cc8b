# SPDX-License-Identifier: Apache-2.0
"""Record calls on an emulated board that a recorder watches.

The plan of a recorder says which calls of an image to record, and which code belongs to the agent.
Its form and that of a record are described in ``device_runtime_c/recorder/bp_recorder.h``.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from boardprof.base.errors import BoardError, BoardprofError, DecodeError, UsageError
from boardprof.measure.hotspots.call_tree import CallEdge, CallPath, CallTree, profile_of
from boardprof.measure.hotspots.callgrind import Callgrind
from boardprof.measure.hotspots.core_cycles import CORES, NO_CYCLES, CycleModel, Cycles
from boardprof.results.report.measurement import Measurement
from boardprof.results.report.profile import CORE_CYCLES, INTERRUPTS, MODELLED, Cost, Profile
from boardprof.target.arguments.passing import copied_arguments
from boardprof.target.descriptions.board import BoardSpec, check_recordable
from boardprof.target.descriptions.tables import SimulatorSpec, filled
from boardprof.target.elf.addresses import SymbolTable, disassembly, objdump_of, symbol_table
from boardprof.target.toolchain.simulator import build_simulator

_FIRST = "boardprof-record 1"

_WINDOW = ("bp_window",)
_THUNK = "bp_thunk"
_OUTSIDE = (
    *("bp_round", "bp_measure_loop", "bp_measure", "bp_guarded", "bp_single", "bp_call_target"),
    *("bp_call_painted", "bp_call_user", "bp_agent_poll", "bp_handle", "main", "bp_arch_guard"),
    "bp_guard_enter",
)
"""Code of the agent that no measured function calls: a fault or a time limit leads there."""
_VECTOR, _VECTORS, _VECTOR_BYTES, _VECTOR_COUNT = "bp_trap", "bp_vectors", 128, 16
"""Where traps lead: one place on a RISC-V, a table of code on an AArch64."""


def plan_text(table: SymbolTable, functions: Iterable[str], record: Path, image: Path) -> str:
    """Return the plan to record calls of functions, as far as the image has them."""
    lines = ["boardprof-plan 1", f"record {record}"]
    lines += [f"enter {table.entries[name]:x}" for name in functions if name in table.entries]
    lines += [f"interrupt {address:x}" for address in _traps(table)]
    lines += _ranges(table)
    if not any(line.startswith("window ") for line in lines):
        raise UsageError(
            f"{image} has no symbols, so there is no way to tell where a call begins.",
            hint="use the image as the linker wrote it, before strip",
        )
    return "".join(f"{line}\n" for line in lines)


def _traps(table: SymbolTable) -> Iterator[int]:
    """Yield where traps begin: a load that traps right before a return looks like the return."""
    if _VECTOR in table.entries:
        yield table.entries[_VECTOR]
    code = table.at(table.entries.get(_VECTORS, -1))
    if code is not None:  # on a Cortex-M, the table has addresses instead of code
        yield from range(code.low, code.low + _VECTOR_COUNT * _VECTOR_BYTES, _VECTOR_BYTES)


def _ranges(table: SymbolTable) -> Iterator[str]:
    for code in table.functions:
        span = f"{code.low:x} {code.high:x}"
        yield f"function {span}"
        name = code.name.partition(".")[0]  # GCC's clones: name.constprop.0
        if name in _WINDOW:
            yield f"window {span}"
        elif name.startswith(_THUNK):
            yield f"thunk {span}"
        elif name in _OUTSIDE:
            yield f"outside {span}"


def read_record(file: Path, model: CycleModel | None = None) -> CallTree:
    """Read a record; ``model`` gives the costs that the recorder has asked for.

    Without it, a record with such costs is read without them.
    """
    try:
        lines = file.read_text(encoding="ascii").splitlines()
    except (OSError, ValueError) as error:
        raise DecodeError(f"The recorder has written no record: {error}.") from error
    if lines[:1] != [_FIRST] or lines[-1:] != ["end"]:
        raise DecodeError("The recorder's record is not complete, or of another version.")
    tree = CallTree()
    for number, line in enumerate(lines[1:-1], 2):
        try:
            _take(tree, model, *line.split(" "))
        except (ValueError, IndexError) as error:
            raise DecodeError(f"Line {number} of the record is damaged: {line:.80}") from error
    if model is None and set(MODELLED) & {*tree.columns}:
        _remove_modelled(tree)
    _check(tree)
    return tree


def _remove_modelled(tree: CallTree) -> None:
    kept = len(tree.columns) - len(MODELLED)
    tree.columns = tree.columns[:kept]
    tree.total = tree.total[:kept]
    tree.totals = {entry: cost[:kept] for entry, cost in tree.totals.items()}
    tree.calls = [replace(each, cost=each.cost[:kept]) for each in tree.calls]
    tree.counts = {place: cost[:kept] for place, cost in tree.counts.items()}


def _take(tree: CallTree, model: CycleModel | None, kind: str, *words: str) -> None:
    match kind:
        case "pass":
            _add_pass(tree, model, *words)
        case "left" if model is not None:
            path, times, last, goes_to = words
            count = _count(tree, int(path), int(last, 16))
            _add_cycles(count, columns_of(exit_cost(model, last, goes_to), int(times)))
        case "left":
            pass
        case "ran":
            _add_counts(tree, words, 1)
        case "not":
            _add_counts(tree, words, -1)
        case "call":
            caller, site, callee, calls, *cost = words
            edge = CallEdge(int(caller), int(site, 16), int(callee), int(calls), _numbers(cost))
            tree.calls.append(edge)
        case "function":
            tree.totals[int(words[0], 16)] = _numbers(words[1:])
        case "path":
            number, parent, entry, calls = words
            if int(number) != len(tree.paths):
                raise ValueError(number)
            tree.paths.append(CallPath(int(parent), int(entry, 16), int(calls)))
        case "columns":
            tree.columns = words
        case "state":
            tree.state = " ".join(words)
        case "total":
            tree.total = _numbers(words)
        case _:
            raise ValueError(kind)


def _numbers(words: Sequence[str]) -> Cost:
    return tuple(map(int, words))


def _count(tree: CallTree, path: int, address: int) -> list[int]:
    count = tree.counts.get((path, address))
    if count is None:
        count = tree.counts[path, address] = [0] * len(tree.columns)
    return count


def _add_counts(tree: CallTree, words: Sequence[str], sign: int) -> None:
    path, times, first, lengths, *cost = words
    for address in addresses(first, lengths):
        count = _count(tree, int(path), address)
        count[0] += sign * int(times)
        for column, amount in enumerate(cost, 1):  # such rows have one instruction
            count[column] += int(amount)


def _add_pass(tree: CallTree, model: CycleModel | None, path: str, times: str, *words: str) -> None:
    costs = pass_costs(model, *words) if model is not None else []
    for index, address in enumerate(addresses(*words[1:])):
        count = _count(tree, int(path), address)
        count[0] += int(times)
        if costs:
            _add_cycles(count, columns_of(costs[index], int(times)))


def _add_cycles(count: list[int], cycles: Sequence[int]) -> None:
    """Add to the last columns."""
    for column, amount in enumerate(cycles, len(count) - len(cycles)):
        count[column] += amount


def _check(tree: CallTree) -> None:
    """See that the instructions of the call add up to its total."""
    outside = {INTERRUPTS}
    for number, each in enumerate(tree.paths):  # parents come first
        if each.parent in outside:
            outside.add(number)
    sums = [0] * len(tree.columns)
    for (path, _), count in tree.counts.items():
        if path not in outside:
            sums = [a + b for a, b in zip(sums, count, strict=True)]
    if tuple(sums) != tree.total:
        raise DecodeError(
            f"The record contradicts itself: its instructions add up to {sums}, its total is "
            f"{list(tree.total)}."
        )


_RECORDERS = {
    "recorder": ("bp_qemu.c", "the recorder for QEMU"),
    "node_recorder": ("bp_node.c", "the recorder for Node.js"),
}
"""Its front ends that an emulator loads, by the placeholders of ``launch.record``."""


def _recorder(front_end: str) -> SimulatorSpec:
    return SimulatorSpec(
        sources=("{runtime}/recorder/*.[ch]",),
        command=(
            *("gcc", "-std=c11", "-O2", "-flto", "-shared", "-fPIC"),
            *(f"{{runtime}}/recorder/{front_end}", "{runtime}/recorder/bp_recorder.c"),
            *("-o", "{output}"),
        ),
        program="gcc",
        package="gcc",
    )


class EmulatorRecorder:
    """The recorder of an emulator; see ``device_runtime_c/recorder``."""

    def __init__(
        self,
        folder: Path,
        image: Path,
        table: SymbolTable,
        functions: Iterable[str],
        model: CycleModel | None = None,
    ) -> None:
        """Write the plan; a ``model`` tells what each instruction costs."""
        self._table = table
        self._record = folder / "record"
        self._plan = folder / "plan"
        self._model = model
        plan = plan_text(table, functions, self._record, image)
        self._answers = None if model is None else CostAnswers(folder, model)
        if self._answers is not None:
            plan += self._answers.plan
        self._plan.write_text(plan, "utf-8")

    @property
    def unmodelled(self) -> str:
        """Why the model has no cycles of the last call; "" if it has, or if there is none."""
        return "" if self._answers is None else self._answers.unknown

    def close(self) -> None:
        """Tell no more costs."""
        if self._answers is not None:
            self._answers.close()

    def watched(self, spec: BoardSpec) -> BoardSpec:
        """Return the board with the options of its emulator that record."""
        values = {"plan": _in_options(self._plan), "image": "{image}", "port": "{port}"}
        options = spec.launch.record
        for name, (front_end, what) in _RECORDERS.items():
            if any(f"{{{name}}}" in option for option in options):
                recorder = build_simulator(spec, _recorder(front_end), what=what)
                values[name] = _in_options(recorder)
        command = (*spec.launch.command, *filled(options, values))
        return replace(spec, launch=replace(spec.launch, command=command))

    def arm(self) -> None:
        """Remove what is known of the call before; the recorder asks for all costs again."""
        self._record.unlink(missing_ok=True)
        if self._answers is not None:
            self._answers.unknown = ""

    def record(self, function: str) -> tuple[CallTree, SymbolTable] | None:
        """Return the record, if it is there."""
        del function  # the last call was of it
        if not self._record.exists():
            return None
        return read_record(self._record, None if self.unmodelled else self._model), self._table


def _in_options(path: Path) -> str:
    return os.fspath(path).replace(",", ",,")


# -- runs -----------------------------------------------------------------------------------------


_REFUSED = "Could not load plugin"
"""What QEMU says if it has no plugins, or an interface that the recorder does not know."""


_REMOVED_S = 3.0
"""How long a board that has ended may go on writing: under callgrind its doorman does."""


def _remove(folder: Path) -> None:
    deadline_s = time.monotonic() + _REMOVED_S
    while True:
        is_last = time.monotonic() > deadline_s
        try:
            shutil.rmtree(folder, ignore_errors=is_last)
            return
        except OSError:
            time.sleep(0.02)


_LOST = "interrupts or other tasks ran within the call, and could not be told apart from it"


def _counted(found: Measurement, record: CallTree) -> dict[str, int]:
    """Return the board's counts, without one that differs only by what is estimated in it."""
    readings = found.samples[0].readings
    recorded = dict(zip(record.columns, record.total, strict=True))
    return {
        name: net
        for name, (net, *_) in found.nets.items()
        if not 0 < abs(recorded.get(name, net) - net) <= readings[name].outside_hooks
    }


class RecordedBoard(Protocol):
    """What recording needs of a board that was started."""

    def measure(
        self,
        function: str,
        *args: object,
        warmup: int,
        repeat: int,
        named: Mapping[str, object] | None,
    ) -> Measurement:
        """Measure a function."""

    def close(self) -> None:
        """End it."""


class HotspotRun:
    """A board of its own, started with a recorder; `close` it."""

    def __init__(
        self,
        spec: BoardSpec,
        image: Path,
        functions: Mapping[str, str],
        start: Callable[[BoardSpec], RecordedBoard],
        *,
        sources: Iterable[Path] = (),
    ) -> None:
        """Start the board; ``functions`` may be recorded: name -> name for the linker."""
        check_recordable(spec)
        self._folder = contextlib.ExitStack()
        self._image = image
        self._sources = tuple(sources)
        self._start = start
        self._symbols = functions
        self._board: RecordedBoard | None = None
        table = symbol_table(image)
        self._texts = disassembly(image, objdump_of(spec.build.cc))
        try:
            folder = Path(tempfile.mkdtemp(prefix="bp-"))
            self._folder.callback(_remove, folder)
            self._spec = spec
            self._recorder: EmulatorRecorder | Callgrind = (
                Callgrind(folder, image, table, self._texts)
                if spec.launch.recorder
                else self._emulator_recorder(folder, image, table, functions)
            )
            self._spec = self._recorder.watched(spec)
            self._board = start(self._spec)
        except BaseException as error:
            self._folder.close()
            if isinstance(error, BoardError) and _REFUSED in error.message:
                qemu = spec.launch.command[0]
                raise BoardError(
                    f"{qemu} does not load the recorder. {error.message}",
                    hint=f"install another version of {qemu}: 7.2 and 10.0 of Debian 12 and 13 "
                    "load it; or sample the call instead (--sampled, or sampled=True)",
                ) from error
            raise

    def _emulator_recorder(
        self, folder: Path, image: Path, table: SymbolTable, functions: Mapping[str, str]
    ) -> EmulatorRecorder:
        core = self._spec.build.core
        model = CycleModel(core, self._texts) if core in CORES else None
        recorder = EmulatorRecorder(folder, image, table, functions.values(), model)
        self._folder.callback(recorder.close)
        return recorder

    def profile(
        self,
        function: str,
        *args: object,
        named: Mapping[str, object] | None = None,
        warmup: int = 1,
    ) -> Profile:
        """Record one call of a function; incomplete if a fault or a limit has ended it."""
        if self._board is None:
            self._board = self._start(self._spec)
        symbol = self._symbols.get(function, function)
        counted: dict[str, int] = {}
        failure = ""
        self._recorder.arm()
        ours, by_name = copied_arguments(args, named)
        try:
            found = self._board.measure(function, *ours, warmup=warmup, repeat=1, named=by_name)
        except BoardprofError as error:
            failure = error.message
            kept = self._recorder.record(symbol) or self._ended(function)
            if kept is None:
                raise
        else:
            kept = self._recorder.record(symbol)
            if kept is None:
                raise DecodeError(f"Nothing was recorded of the call of {function}.")
            counted = _counted(found, kept[0])
            if not kept[0].is_complete:
                failure = _LOST
        record, table = kept
        if failure and record.is_complete:
            record = replace(record, state="incomplete left")
        profile = profile_of(
            record,
            table,
            self._image,
            function,
            self._spec.name,
            {} if self._spec.launch.recorder else counted,
            self._texts,
            self._sources,
        )
        has_cycles = CORE_CYCLES in profile.columns
        return replace(
            profile,
            failure=failure,
            recorder=self._spec.launch.recorder or "",
            modelled=model_text(self._spec.build.core) if has_cycles else "",
            unmodelled=self._recorder.unmodelled,
        )

    def _ended(self, function: str) -> tuple[CallTree, SymbolTable] | None:
        """Return what a recorder tells only when its board has ended."""
        assert self._board is not None
        self._board.close()
        self._board = None
        return self._recorder.record(self._symbols.get(function, function))

    def close(self) -> None:
        """End the board."""
        if self._board is not None:
            self._board.close()
        self._folder.close()


# -- modelled cycles -------------------------------------------------------------------------------


_REAL_BOARDS = "took 2 % less to 14 % more"
"""How boards compare with the model of a Cortex-M3 or M4: docs/cycles.md, rounded away from 0."""

_HALF_WORD = 2
_UNKNOWN = "-"
_END = "end"
_END_S = 10.0
"""Wall time in which the thread ends, unless the machine is overloaded; seconds."""


class CostAnswers:
    """Answers a recorder's questions in a thread, until it is closed.

    The recorder asks for the cost of each pass through a block, and of each way out of one, when it
    first sees them. So it can add up costs by call, as it does with costs that an emulator knows.
    """

    def __init__(self, folder: Path, model: CycleModel) -> None:
        """Create the pipes; their form is in ``device_runtime_c/recorder/bp_recorder.h``."""
        self.pipes = folder / "costs"
        self.unknown = ""  # the first instruction without a cost, "" if all have one
        self._model = model
        names = [self.pipes.with_suffix(ending) for ending in (".ask", ".told")]
        for name in names:
            os.mkfifo(name)
        # With both ends open, no side waits for the other to open its own.
        self._asked, self._told = (os.open(name, os.O_RDWR | os.O_CLOEXEC) for name in names)
        self._thread = threading.Thread(target=self._answer, name="costs", daemon=True)
        self._thread.start()

    @property
    def plan(self) -> str:
        """The lines of a recorder's plan."""
        return "".join(f"cost {name}\n" for name in MODELLED) + f"ask {self.pipes}\n"

    def close(self) -> None:
        """End the thread."""
        os.write(self._asked, f"{_END}\n".encode())
        self._thread.join(_END_S)
        os.close(self._asked)
        os.close(self._told)

    def _answer(self) -> None:
        with open(self._asked, encoding="ascii", closefd=False) as asked:
            for line in iter(asked.readline, f"{_END}\n"):
                found = self._cost(*line.split())
                os.write(self._told, f"{found.point} {found.low} {found.high}\n".encode())

    def _cost(self, kind: str, *words: str) -> Cycles:
        try:
            if kind == "pass":
                return sum(pass_costs(self._model, *words), NO_CYCLES)
            return exit_cost(self._model, *words)
        except BoardprofError as error:
            self.unknown = self.unknown or error.message.removesuffix(".")
            return NO_CYCLES


def model_text(core: str) -> str:
    """Say what the cycles of a core's model are, after the word ``modelled``."""
    name = core.title().replace("Plus", "+")
    told = f"for a {name}: the core only, at zero wait states"
    return told + (f"; real boards {_REAL_BOARDS}" if core in ("cortex-m3", "cortex-m4") else "")


def pass_costs(model: CycleModel, came_from: str, first: str, lengths: str) -> list[Cycles]:
    """Return the cost of each instruction of a pass, in the words of a record."""
    return model.straight([*addresses(first, lengths)], _address(came_from))


def exit_cost(model: CycleModel, last: str, goes_to: str) -> Cycles:
    """Return what leaving a block costs, in the words of a record."""
    return model.leaving(int(last, 16), _address(goes_to))


def addresses(first: str, lengths: str) -> Iterator[int]:
    """Yield the addresses of a row of instructions, in the words of a record."""
    address = int(first, 16)
    for length in lengths:
        yield address
        address += _HALF_WORD * int(length, 16)


def columns_of(cycles: Cycles, times: int) -> Sequence[int]:
    """Return cycles as a profile has them, in the order of `MODELLED`."""
    found = cycles * times
    return found.point, found.low, found.high


def _address(text: str) -> int | None:
    return None if text == _UNKNOWN else int(text, 16)
