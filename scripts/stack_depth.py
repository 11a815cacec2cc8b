# SPDX-License-Identifier: Apache-2.0
"""The deepest stack of objects that gcc compiled with `-fcallgraph-info=su`.

gcc then writes a `.ci` file for each object: a call graph in VCG text whose nodes carry the frame
size. This script joins them and finds the path of calls with the largest sum of frames. The sum
is an upper bound: a tail call is taken for a call, and a weak definition stands beside the one
that overrides it. Interrupts come on top: give each handler as a root of its own and add. On
x86-64, compile with `-mno-red-zone`: gcc leaves the red zone out of the frame sizes.

What the files cannot say comes from a TOML file, by function name:

    [indirect]                          # who may be called through a pointer, by caller
    bp_dispatch = ["fn_add", "fn_fir"]
    [recursion]                         # most activations on the stack at once
    parse = 4
    [extern]                            # bytes of functions without a frame size: libgcc,
    __aeabi_uldivmod = 32               # assembly (also within C), variable-length arrays

A name is the C name, or gcc's title (`src/a.c:helper` for a static function); a C name also
means every clone that gcc makes of the function (`helper.part.0`).
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple, TypeVar

__all__ = ["CallGraph", "Depth", "Rules", "StackDepthError", "deepest"]

INDIRECT = "__indirect_call"
NODE = re.compile(r'^node: \{ title: "([^"]+)" label: "([^"]*)"', re.MULTILINE)
EDGE = re.compile(r'^edge: \{ sourcename: "([^"]+)" targetname: "([^"]+)"', re.MULTILINE)
FRAME = re.compile(r"\\n(\d+) bytes \((static|dynamic,bounded|dynamic)\)")

Value = TypeVar("Value")


class StackDepthError(Exception):
    """The depth has no bound, or not enough is known to compute it."""


@dataclass(frozen=True)
class Rules:
    """What the call graph files cannot say.

    Attributes:
        indirect: caller to all functions it may call through pointers.
        recursion: function to its largest number of activations on the stack at once, >= 1.
        extern: function without a frame size, or with more than gcc knows of, to its bytes, >= 0;
            they include its callees, unless the files or `indirect` name those.
    """

    indirect: Mapping[str, Sequence[str]] = field(default_factory=dict)
    recursion: Mapping[str, int] = field(default_factory=dict)
    extern: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def load(cls, path: Path) -> Rules:
        """Read and check a TOML file.

        Raises:
            StackDepthError: the file is not TOML, or a table or value is not as above.
        """
        try:
            tables = tomllib.loads(path.read_text(encoding="utf-8"))
        except tomllib.TOMLDecodeError as error:
            raise StackDepthError(f"{path}: {error}") from error
        for table, values in tables.items():
            if table not in cls.__dataclass_fields__ or not isinstance(values, dict):
                raise StackDepthError(f"{path}: {table!r}? use [indirect], [recursion], [extern]")
            for name, value in values.items():
                if not _fits(table, value):
                    raise StackDepthError(f"{path}: [{table}] {name} = {value!r} makes no sense")
        return cls(**tables)


@dataclass(frozen=True)
class Depth:
    """The deepest path: `path[0]` is a root, `frames[i]` the bytes of `path[i]`."""

    bytes: int
    path: tuple[str, ...]
    frames: tuple[int, ...]


@dataclass(frozen=True)
class CallGraph:
    """All call graph files of one build, joined.

    Attributes:
        frames: title to frame bytes, None where it has no bound (alloca, variable-length array).
        calls: title to the titles it calls, `__indirect_call` among them.
    """

    frames: Mapping[str, int | None]
    calls: Mapping[str, Sequence[str]]

    @classmethod
    def read(cls, ci_files: Iterable[Path]) -> CallGraph:
        """Parse the files.

        Raises:
            StackDepthError: there are none, or two define the same function (of two builds?).
        """
        frames: dict[str, int | None] = {}
        calls: dict[str, list[str]] = {}
        origin: dict[str, Path] = {}
        for path in ci_files:
            text = path.read_text(encoding="utf-8")
            for title, label in NODE.findall(text):
                if (size := FRAME.search(label)) is None:
                    continue
                if title in origin:
                    raise StackDepthError(
                        f"{title} is defined in {origin[title]} and in {path}: give one build only"
                    )
                origin[title] = path
                frames[title] = None if size[2] == "dynamic" else int(size[1])
            for caller, callee in EDGE.findall(text):
                calls.setdefault(caller, []).append(callee)
        if not frames:
            raise StackDepthError("no frame sizes found: compile with gcc -fcallgraph-info=su")
        return cls(frames, calls)


def deepest(ci_files: Iterable[Path], roots: Sequence[str], rules: Rules) -> Depth:
    """Find the path of calls that needs most stack.

    Args:
        ci_files: the `.ci` files of one build.
        roots: functions to start from, each on an empty stack.
        rules: what the files cannot say.

    Raises:
        StackDepthError: a root does not exist, a recursion has no bound, or reachable functions
            have no known size or call through a pointer without a rule; the latter two are
            listed all at once.
    """
    program = _Program(CallGraph.read(ci_files), rules)
    starts = [title for root in roots for title in program.root(root)]
    return _longest(program, starts, program.reach(starts))


class _Program:
    """The call graph completed by the rules."""

    def __init__(self, graph: CallGraph, rules: Rules) -> None:
        self.graph = graph
        self.rules = rules
        self.titles: dict[str, list[str]] = {}
        for title in graph.frames:
            self.titles.setdefault(_c_name(title), []).append(title)

    def root(self, name: str) -> list[str]:
        titles = self.targets(name)
        if titles[0] not in self.graph.frames:
            raise StackDepthError(f"no function {name} in these files: name another root")
        return titles

    def targets(self, name: str) -> list[str]:
        """Titles of the functions that a call of `name` may reach, or `name` if none is known."""
        if name in self.graph.frames:
            # gcc titles a weak definition like a static one; a public `f` may override `a.c:f`.
            public = _c_name(name)
            return [name, public] if public != name and public in self.graph.frames else [name]
        return self.titles.get(name, [name])

    def callees(self, title: str) -> list[str]:
        names = [name for name in self.graph.calls.get(title, ()) if name != INDIRECT]
        names += _lookup(self.rules.indirect, title) or ()
        return list(dict.fromkeys(target for name in names for target in self.targets(name)))

    def frame(self, title: str) -> int | None:
        # A naked function has a frame of 0 bytes for gcc, whatever its assembly pushes.
        known = (self.graph.frames.get(title), _lookup(self.rules.extern, title))
        return max((size for size in known if size is not None), default=None)

    def gaps(self, title: str) -> Iterator[str]:
        if self.frame(title) is None:
            kind = "an unbounded frame" if title in self.graph.frames else "no known frame size"
            yield f"{kind}: give its bytes in [extern]"
        by_pointer = INDIRECT in self.graph.calls.get(title, ())
        if by_pointer and _lookup(self.rules.indirect, title) is None:
            yield "calls through a pointer: list its callees in [indirect]"

    def reach(self, starts: Sequence[str]) -> dict[str, int]:
        """Frame bytes of all functions that can run; one error lists all that is not known."""
        caller = dict.fromkeys(starts, "")
        queue = list(caller)
        frames = {}
        gaps = []
        while queue:
            title = queue.pop(0)
            called_by = f" (called by {caller[title]})" if caller[title] else ""
            gaps += [f"{title}{called_by}: {gap}" for gap in self.gaps(title)]
            if (frame := self.frame(title)) is not None:
                frames[title] = frame
            new = [callee for callee in self.callees(title) if callee not in caller]
            caller.update(dict.fromkeys(new, title))
            queue += new
        if gaps:
            raise StackDepthError("\n".join(gaps))
        return frames


class _State(NamedTuple):
    """A function on the stack, and how many more times each function of [recursion] may enter."""

    title: str
    left: tuple[int, ...]


def _enter(title: str, left: tuple[int, ...], rules: Rules) -> Iterator[_State]:
    """The state after a call of `title`, or none if its bound is used up."""
    for index, name in enumerate(rules.recursion):
        if name in (title, _c_name(title)):
            if left[index] == 0:
                return
            left = (*left[:index], left[index] - 1, *left[index + 1 :])
    yield _State(title, left)


def _expand(program: _Program, starts: Sequence[_State]) -> dict[_State, list[_State]]:
    """All reachable states with those they call: without a cycle, if recursion is bounded."""
    below: dict[_State, list[_State]] = {}
    queue = list(starts)
    while queue:
        state = queue.pop()
        if state not in below:
            callees = program.callees(state.title)
            below[state] = [
                callee for title in callees for callee in _enter(title, state.left, program.rules)
            ]
            queue += below[state]
    return below


def _longest(program: _Program, starts: Sequence[str], frames: Mapping[str, int]) -> Depth:
    budget = tuple(program.rules.recursion.values())
    roots = [state for title in starts for state in _enter(title, budget, program.rules)]
    below = _expand(program, roots)
    depth: dict[_State, int] = {}
    for state in _callees_first(below):
        deepest_callee = max((depth[callee] for callee in below[state]), default=0)
        depth[state] = frames[state.title] + deepest_callee
    path = [max(roots, key=depth.__getitem__)]
    while below[path[-1]]:
        path.append(max(below[path[-1]], key=depth.__getitem__))
    titles = tuple(state.title for state in path)
    return Depth(depth[path[0]], titles, tuple(frames[title] for title in titles))


def _callees_first(below: Mapping[_State, Sequence[_State]]) -> list[_State]:
    try:
        return list(TopologicalSorter(below).static_order())
    except CycleError as error:
        cycle = " -> ".join(state.title for state in reversed(error.args[1]))
        raise StackDepthError(
            f"recursion without a bound: {cycle}: give the most activations of one in [recursion]"
        ) from error


def _c_name(title: str) -> str:
    """The C name in a title: `helper` for `src/a.c:helper.part.0`."""
    return title.rpartition(":")[2].partition(".")[0]


def _lookup(table: Mapping[str, Value], title: str) -> Value | None:
    return table.get(title, table.get(_c_name(title)))


def _fits(table: str, value: object) -> bool:
    if table == "indirect":
        return isinstance(value, list) and all(isinstance(name, str) for name in value)
    return type(value) is int and value >= (1 if table == "recursion" else 0)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the deepest path of the `.ci` files under a directory; 1 if it cannot be known."""
    parser = argparse.ArgumentParser(description="Deepest stack from gcc's -fcallgraph-info=su.")
    parser.add_argument("--rules", type=Path, metavar="TOML", help="what the files cannot say")
    parser.add_argument("--root", action="append", required=True, help="start here; repeatable")
    parser.add_argument("directory", type=Path, metavar="DIR", help="searched for .ci files")
    options = parser.parse_args(arguments)
    try:
        rules = Rules.load(options.rules) if options.rules else Rules()
        depth = deepest(sorted(options.directory.rglob("*.ci")), options.root, rules)
    except (OSError, StackDepthError) as error:
        print(error, file=sys.stderr)
        return 1
    for name, frame in zip(depth.path, depth.frames, strict=True):
        print(f"{frame:7} {name}")
    print(f"{depth.bytes:7} bytes in all")
    return 0


if __name__ == "__main__":
    sys.exit(main())
