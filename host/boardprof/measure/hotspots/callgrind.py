# SPDX-License-Identifier: Apache-2.0
"""Calls on Linux, recorded by callgrind: it simulates its own CPU.

A dump has what ran within one of the agent's windows, by call path. Valgrind 3.19 manual, section
6.2.4; its form: section 13.1, "Callgrind Format Specification".
"""

from __future__ import annotations

import os
import shutil
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from boardprof.base.errors import DecodeError, MissingToolError, UsageError
from boardprof.measure.hotspots.call_tree import ELSEWHERE, CallEdge, CallPath, CallTree
from boardprof.results.report.profile import CALL, INTERRUPTS, OTHER, Cost
from boardprof.target.descriptions.board import BoardSpec
from boardprof.target.elf.addresses import CodeRange, SymbolTable

_WINDOW = "bp_window"
_THUNK = "bp_thunk"
_CALLERS = 1000
"""Functions of a path that callgrind tells apart, each turn of a recursion through several as well.

Beyond, it does not count calls anew in each dump, so that their number is not known.
"""

_Path = tuple[str, ...]
"""Functions, outermost first, each once: recursion leads back to the first."""

_CUT = "..."  # stands first in a path whose beginning callgrind does not tell apart any more


def callgrind_command(command: Sequence[str], dumps: Path) -> tuple[str, ...]:
    """Return the command that runs an agent under callgrind; dumps are ``dumps.PROCESS.NUMBER``."""
    return (
        *("valgrind", "--quiet", "--demangle=no", "--tool=callgrind"),
        f"--callgrind-out-file={os.fspath(dumps).replace('%', '%%')}.%p",
        *("--dump-instr=yes", "--dump-line=no", "--compress-pos=no", "--compress-strings=no"),
        *(f"--separate-callers={_CALLERS}", "--separate-recs=1"),
        *(f"--toggle-collect={_WINDOW}", f"--dump-after={_WINDOW}"),
        *command,
    )


def read_dump(
    file: Path, function: str, image: Path, table: SymbolTable, texts: Mapping[int, str]
) -> tuple[CallTree, SymbolTable] | None:
    """Return what a dump has of a call of a function; None if it has no such call."""
    # Functions of shared libraries have one address each, which no instruction of the image has.
    text = file.read_text(encoding="utf-8", errors="replace")
    if f"{function}'" not in text:
        return None
    dump = _Dump(function, os.fspath(image), table, texts)
    line = ""
    try:
        for line in text.splitlines():
            dump.take(line)
    except ValueError as error:
        raise DecodeError(f"The dump of callgrind is damaged: {line:.80}") from error
    return dump.result() if dump.entered else None


class _Dump:
    """What is known after the lines so far."""

    def __init__(
        self, function: str, image: str, table: SymbolTable, texts: Mapping[int, str]
    ) -> None:
        self._function = function
        self._image = image
        self._table = table
        self._texts = texts
        self._object = self._callee_object = ""  # those of the lines that follow
        self._path: _Path | None = None
        self._around: _Path = ()  # the functions of this path and of its turns
        self._callee: _Path | None = None
        self._calls: int | None = None  # of the arc whose cost the next line has
        self._own: defaultdict[tuple[_Path, int], int] = defaultdict(int)
        self._with_callees: defaultdict[_Path, int] = defaultdict(int)  # cost of all around it
        self._arcs: defaultdict[tuple[_Path, int, _Path], list[int]] = defaultdict(lambda: [0, 0])
        self._entries: dict[_Path, int] = {}  # of functions; static ones may share a name
        self._named: dict[str, int] = {}  # the first entry with each name
        self._libraries: dict[int, CodeRange] = {}
        self.entered = 0
        self._total = 0

    def take(self, line: str) -> None:
        """Take the next line."""
        if line.startswith("0x"):
            address, cost = line.split()
            self._take_cost(int(address, 16), int(cost))
            return
        key, _, value = line.partition("=")
        if key == "ob":
            self._object = self._callee_object = value
        elif key == "cob":
            self._callee_object = value
        elif key == "fn":
            self._path = self._path_of(value)
            names = value.partition(f"'{_WINDOW}")[0].split("'")
            self._around = tuple(
                dict.fromkeys(name for name in reversed(names) if not name.startswith(_THUNK))
            )
        elif key == "cfn":
            self._callee = self._path_of(value)
        elif key == "calls":
            count, target = value.split()
            self._calls = int(count)
            if self._callee:
                self._place(self._callee, self._callee_object, int(target, 16))

    def _take_cost(self, address: int, cost: int) -> None:
        calls, self._calls = self._calls, None
        if calls is None:
            if self._path:
                place = self._place(self._path, self._object, address)
                self._own[self._path, place] += cost
                self._with_callees[self._around] += cost
            return
        callee, self._callee, self._callee_object = self._callee, None, self._object
        if callee and self._path:
            if callee == self._path and self._texts.get(address, "").startswith("j"):
                return  # a loop: callgrind takes each jump to a function's beginning for a call
            arc = self._arcs[self._path, self._place(self._path, self._object, address), callee]
            arc[0] += calls
            arc[1] += cost
        elif callee == (self._function,) and self._path is None:
            self.entered += calls
            self._total += cost

    def _path_of(self, chain: str) -> _Path | None:
        """Return the path of a chain of functions, innermost first; None outside of the call."""
        names = chain.split("'")
        is_cut = _WINDOW not in names and len(names) > _CALLERS
        if _WINDOW in names:
            names = names[: names.index(_WINDOW)]
        names = [name for name in names if not name.startswith(_THUNK)]
        if is_cut and names:
            around = dict.fromkeys(reversed(names))
            del around[names[0]]
            return (_CUT, *around, names[0])
        folded = tuple(dict.fromkeys(reversed(names)))
        if not folded or folded[0] != self._function:
            return None
        return folded[: folded.index(names[0]) + 1]

    def _place(self, path: _Path, file: str, address: int) -> int:
        """Return the address that stands for an instruction of the last function of a path."""
        name = path[-1]
        if file == self._image:
            code = self._table.at(address)
            entry = address if code is None else code.low
            self._named.setdefault(name, entry)
            known = self._entries.setdefault(path, entry)
            if known != entry and code is not None and self._table.at(known) is not None:
                raise UsageError(
                    f"Two functions named {name} ran within one path of calls, and callgrind "
                    "tells functions apart by their names.",
                    hint="rename one of them",
                )
            return address
        if name not in self._named:
            low = ELSEWHERE + len(self._libraries)
            self._named[name] = low
            self._libraries[low] = CodeRange(low, low + 1, name)
        return self._named[name]

    def _entry_of(self, path: _Path) -> int:
        return self._entries.get(path) or self._named.get(path[-1], 0)

    def result(self) -> tuple[CallTree, SymbolTable]:
        """Return the record and its functions."""
        total = sum(self._own.values())
        if total != self._total:
            raise DecodeError(
                f"The dump of callgrind contradicts itself: its instructions add up to {total:,}, "
                f"its calls to {self._total:,}."
            )
        paths = self._numbered()
        paths |= {path: _whole(path, paths) for path in self._seen() if path[0] == _CUT}
        calls: defaultdict[int, int] = defaultdict(int, {CALL: self.entered})
        uncounted: set[int] = set()
        arcs: defaultdict[tuple[int, int, int], list[int]] = defaultdict(lambda: [0, 0])
        for (caller, site, callee), (count, cost) in self._arcs.items():
            calls[paths[callee]] += count
            if callee[0] == _CUT:
                uncounted.add(paths[callee])
            arc = arcs[paths[caller], site, paths[callee]]
            arc[0] += count
            arc[1] += cost
        record = CallTree(columns=("instructions",), state="complete", total=(total,))
        record.paths = [CallPath(-1, 0, 0) for _ in range(max(OTHER, *paths.values()) + 1)]
        for path, number in paths.items():
            if path[0] != _CUT:
                parent = paths[path[:-1]] if path[:-1] else -1
                count = 0 if number in uncounted else calls[number]
                record.paths[number] = CallPath(parent, self._entry_of(path), count)
        record.calls = [CallEdge(*place, count, (cost,)) for place, (count, cost) in arcs.items()]
        counts: defaultdict[tuple[int, int], int] = defaultdict(int)
        for (path, at), cost in self._own.items():
            counts[paths[path], at] += cost
        record.counts = {place: [cost] for place, cost in counts.items()}
        record.totals = self._totals(paths)
        functions = [*self._table.functions, *self._libraries.values()]
        return record, SymbolTable(functions, self._table.entries)

    def _numbered(self) -> dict[_Path, int]:
        """Return the number of each path, those above it first."""
        known = {path for path in self._seen() if path[0] != _CUT}
        known |= {path[:depth] for path in known for depth in range(1, len(path))}
        ordered = sorted(known | {(self._function,)}, key=len)
        free = [CALL, *range(max(CALL, INTERRUPTS, OTHER) + 1, len(ordered) + 3)]
        return dict(zip(ordered, free, strict=False))

    def _totals(self, numbers: Mapping[_Path, int]) -> dict[int, Cost]:
        """Return the cost of each function with all that it called, recursion once."""
        found: defaultdict[int, int] = defaultdict(int)
        for around, cost in self._with_callees.items():
            for depth in range(1, len(around) + 1):
                found[self._entry_of(around[:depth])] += cost
        whole = {number: path for path, number in numbers.items() if path[0] != _CUT}
        for (path, _), cost in self._own.items():
            if path[0] == _CUT:
                for name in {*whole.get(numbers[path], ())} - {*path}:
                    found[self._named.get(name, 0)] += cost
        return {entry: (cost,) for entry, cost in found.items() if entry}

    def _seen(self) -> set[_Path]:
        return {path for path, _ in self._own} | {callee for _, _, callee in self._arcs}


def _whole(path: _Path, numbers: Mapping[_Path, int]) -> int:
    """Return the path that one whose beginning is cut must be a part of: a deep recursion."""
    _, *names = path
    found = {
        numbers[known[: known.index(path[-1]) + 1]]
        for known in numbers
        if known[0] != _CUT and {*names} <= {*known}
    }
    return found.pop() if len(found) == 1 else OTHER


class Callgrind:
    """Valgrind's profiler, which runs the whole agent."""

    unmodelled = ""  # it has no core's cycles

    def __init__(
        self, folder: Path, image: Path, table: SymbolTable, texts: Mapping[int, str]
    ) -> None:
        """Keep its dumps in a folder; ``texts`` are of the image's instructions."""
        self._dumps = folder / "dump"
        self._image = image
        self._table = table
        self._texts = texts

    def watched(self, spec: BoardSpec) -> BoardSpec:
        """Return the board with an agent that runs under callgrind."""
        if shutil.which("valgrind") is None:
            raise MissingToolError("valgrind", "valgrind")
        command = callgrind_command(spec.launch.command, self._dumps)
        return replace(spec, launch=replace(spec.launch, command=command))

    def arm(self) -> None:
        """Remove all dumps."""
        for each in self._all():
            each.unlink()

    def record(self, function: str) -> tuple[CallTree, SymbolTable] | None:
        """Return what the last dump with a call of the function has of it."""
        for each in reversed(self._all()):
            found = read_dump(each, function, self._image, self._table, self._texts)
            if found is not None:
                return found
        return None

    def _all(self) -> list[Path]:
        """Return the dumps, oldest first: ``dump.PROCESS.NUMBER``, at its end ``dump.PROCESS``."""
        found = self._dumps.parent.glob(f"{self._dumps.name}.*")
        return sorted(found, key=lambda file: (file.suffixes[1:] == [], len(file.name), file.name))
