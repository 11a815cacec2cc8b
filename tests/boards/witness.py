# SPDX-License-Identifier: Apache-2.0
"""A board whose emulator counts instructions for itself, and what is held against its counts.

QEMU's own view of what it executes, through the TCG plugin in tests/tools, says how many
instructions ran from a function's first one to its return.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from boardprof.base.metrics import Count
from boardprof.measure.board.board import Board
from boardprof.measure.connect import connect
from boardprof.results.report.report import Report
from boardprof.target.build.build_options import BuildOptions
from boardprof.target.cfunction import CFunction, CType, Scalar
from boardprof.target.descriptions.board import BoardSpec
from tests.boards.conftest import WORKLOADS
from tests.firmware import build
from tests.tools.insn_count import build_plugin, plugin_argument, read_counts, symbol_range

__all__ = ["CALLERS", "NAMES", "SIGNATURES", "Witness", "argument", "check_every_signature"]
__all__ += ["check_net", "counts_of", "select", "watch_windows", "witness"]

NAMES = sorted(path.stem for path in WORKLOADS.glob("*.c"))
SIGNATURES = Path(__file__).parent / "fixtures" / "signatures.c"
CALLERS = ("bp_window", "bp_thunk_void", "bp_call_target", "bp_single", "bp_call_painted")
"""Code of the agent that a measured function returns to, beside its own thunk."""

ELEMENTS = 12
"""Of each array that a function of signatures.c gets as ``n`` or ``length``."""

DTYPES = {"char": "uint8", "bool": "bool", "f32": "float32", "f64": "float64"}
DTYPES |= {
    f"{short}{bits}": f"{long}{bits}"
    for short, long in (("i", "int"), ("u", "uint"))
    for bits in (8, 16, 32, 64)
}


@dataclass(frozen=True)
class Witness:
    """A board whose emulator counts for itself."""

    board: Board
    counts: Path
    entries: dict[str, int]
    functions: tuple[CFunction, ...] = ()

    def written(self) -> int:
        """How many bytes of counts there are by now, for `last`, which takes long for many."""
        return self.counts.stat().st_size

    def last(self, function: str, calls: int, start: int = 0) -> list[int]:
        """Instructions of the last ``calls`` calls of ``function``, as QEMU executed them."""
        return read_counts(self.counts, start)[self.entries[function]][-calls:]

    def measured(self, function: str, calls: int, start: int = 0) -> list[int]:
        """The same of the samples of the last profile: two calls came behind them."""
        return self.last(function, calls + 2, start)[:calls]


def witness(spec: BoardSpec, folder: Path, sources: Path, optimize: str = "-O2") -> Witness:
    firmware = build(spec, [sources], BuildOptions(optimize))
    entries = {f.name: symbol_range(firmware.image, f.name)[0] for f in firmware.functions}
    thunks = [f"bp_thunk_of_{f.name}" for f in firmware.functions if f.parameters or f.result]
    stops = [symbol_range(firmware.image, name) for name in (*CALLERS, *thunks)]
    counts = folder / "counts.txt"
    plugin = plugin_argument(build_plugin(), list(entries.values()), stops, counts)
    launch = dataclasses.replace(spec.launch, command=(*spec.launch.command, *plugin))
    watched = dataclasses.replace(spec, launch=launch)
    board = connect(watched, image=firmware.image)
    return Witness(board, counts, entries, tuple(firmware.functions))


def watch_windows(
    spec: BoardSpec, folder: Path, collector: str, sources: Path = WORKLOADS / "crc32.c"
) -> Witness:
    """Count what is executed from a collector's start to its stop."""
    firmware = build(spec, [sources])
    start, _ = symbol_range(firmware.image, f"bp_{collector}_start")
    stop = symbol_range(firmware.image, f"bp_{collector}_stop")
    counts = folder / "counts.txt"
    plugin = plugin_argument(build_plugin(), [start], [stop], counts)
    launch = dataclasses.replace(spec.launch, command=(*spec.launch.command, *plugin))
    watched = dataclasses.replace(spec, launch=launch)
    return Witness(connect(watched, image=firmware.image), counts, {collector: start})


def counts_of(report: Report, counter: str) -> list[int]:
    return [v.value for row in report.calls if isinstance(v := row[counter], Count)]


def argument(name: str, kind: CType) -> Any:
    """Return an argument for a parameter of signatures.c: arrays are of 16 elements."""
    if isinstance(kind, Scalar):
        if name in ("n", "length"):
            return ELEMENTS
        return {"bool": True, "f32": 1.5, "f64": -0.25}.get(kind.text, 100)
    if isinstance(kind.element, Scalar):
        return np.arange(1, 17).astype(DTYPES[kind.element.text])
    return bytearray([1, 0] * 8 * kind.element_size)


def check_net(found: Witness, function: str) -> Report:
    """See that two samples of three calls count what the emulator executed; return the Report."""
    report = found.board.profile(function, warmup=1, repeat=2, number=3)
    executed = found.measured(function, 6)
    assert counts_of(report, "instructions") == [sum(executed[:3]), sum(executed[3:])]
    return report


def check_every_signature(found: Witness) -> None:
    """See the same of each function of signatures.c, in two samples of ten calls."""
    for fn in found.functions:
        arguments = [argument(p.name, p.type) for p in fn.parameters]
        report = found.board.profile(fn.name, *arguments, warmup=1, repeat=2, number=10)
        executed = found.measured(fn.name, 20)
        sums = [sum(executed[:10]), sum(executed[10:])]
        assert counts_of(report, "instructions") == sums, fn.name


def select(board: Board, collector: str, *events: int) -> Any:
    """Have a collector's slots count these events; return what the board answers."""
    function = board.dictionary.function(f"{collector}.select")
    return board.session.invoke(function.id, function.name, *events)
