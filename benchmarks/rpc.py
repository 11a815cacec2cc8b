# SPDX-License-Identifier: Apache-2.0
"""How near the link comes to what it stands on: null calls, bulk, and a slow wire.

Host and board run on cores of their own, what is compared takes turns, and each figure is a median
over rounds. Run from the repository: ``python benchmarks/rpc.py [--json]``. Ends with 7 when
something cannot be built or run, and with 0 otherwise, targets met or not.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.rpc_bulk import SYSTEMS, measure_bulk
from benchmarks.rpc_null import CALLS, ROUNDS, NullCall, measure_null_call
from benchmarks.rpc_processes import BOARD_CORE, HOST_CORE, BenchmarkError
from benchmarks.rpc_wire import measure_wire
from boardprof.base.errors import BoardprofError
from boardprof.target.build.builder import build
from boardprof.target.descriptions.board import board_spec

__all__ = ["TARGETS", "Figure", "main"]

TARGETS = {
    "null_call_tcp_ratio": ("<=", 1.4),
    "null_call_pty_ratio": ("<=", 1.4),
    "bulk_tcp_mb_s": (">=", 100.0),
    "bulk_zeros_tcp_mb_s": (">=", 50.0),
    "bulk_vs_erpc": (">=", 20.0),
    "bulk_vs_rpyc": (">=", 6.0),
    "wire_efficiency": (">=", 0.97),
}
"""What each figure must reach."""

_LABELS = {
    "null_call_tcp_ratio": "null call over TCP, by echo",
    "null_call_pty_ratio": "null call over a pty, by echo",
    "bulk_tcp_mb_s": "1 MiB of random bytes, MB/s",
    "bulk_zeros_tcp_mb_s": "1 MiB of zeros, MB/s",
    "bulk_vs_erpc": "as fast as eRPC's Python, times",
    "bulk_vs_rpyc": "as fast as rpyc, times",
    "wire_efficiency": "64 KiB at 115200 baud, of the wire",
}


@dataclass(frozen=True)
class Figure:
    """A figure, and the rounds that it is the median of.

    Attributes:
        key: in the JSON.
        value: what is held against the target.
        spread: least and greatest of the rounds; None where there was one.
        note: for people.
    """

    key: str
    value: float
    spread: tuple[float, float] | None = None
    note: str = ""

    @property
    def is_met(self) -> bool:
        """Whether it reaches its target."""
        sign, target = TARGETS[self.key]
        return self.value <= target if sign == "<=" else self.value >= target


def _null_calls(image: Path, more: dict[str, float]) -> list[Figure]:
    figures = []
    for line in ("tcp", "pty"):
        measured = measure_null_call(line, image)
        more[f"null_call_{line}_us"] = median(measured.calls_us)
        more[f"echo_{line}_us"] = median(measured.echoes_us)
        figures.append(_null_figure(measured))
    return figures


def _null_figure(measured: NullCall) -> Figure:
    note = (
        f"{median(measured.calls_us):.1f} us to {median(measured.echoes_us):.1f} us; "
        f"{measured.request_bytes} bytes out, {measured.reply_bytes} back; "
        f"{ROUNDS} x {CALLS}"
    )
    spread = (min(measured.ratios), max(measured.ratios))
    return Figure(f"null_call_{measured.line}_ratio", measured.ratio, spread, note)


def _bulk(image: Path, more: dict[str, float]) -> list[Figure]:
    measured = measure_bulk(image)
    rate = 2**20 / 1e6
    figures = [
        _rates("bulk_tcp_mb_s", [rate / seconds for seconds in measured.random_s]),
        _rates("bulk_zeros_tcp_mb_s", [rate / seconds for seconds in measured.zeros_s]),
    ]
    for system in SYSTEMS:
        theirs = [rate / seconds for seconds in measured.others_s[system]]
        more[f"{system}_mb_s"] = median(theirs)
        note = f"{SYSTEMS[system]}: {median(theirs):.1f} MB/s"
        figures.append(_rates(f"bulk_vs_{system}", measured.ratios(system), note))
    return figures


def _rates(key: str, values: Sequence[float], note: str = "") -> Figure:
    return Figure(key, median(values), (min(values), max(values)), note)


def _wire(image: Path, more: dict[str, float]) -> list[Figure]:
    measured = measure_wire(image)
    more["wire_s"] = measured.elapsed_s
    return [Figure("wire_efficiency", measured.efficiency, None, f"{measured.elapsed_s:.3f} s")]


def measure(more: dict[str, float]) -> list[Figure]:
    """Measure everything; put further figures into ``more``."""
    image = build(board_spec("linux"), [Path(__file__).with_name("rpc_null.c")]).image
    parts: list[Callable[[Path, dict[str, float]], list[Figure]]] = [_null_calls, _bulk, _wire]
    return [figure for part in parts for figure in part(image, more)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; return the exit status."""
    parser = argparse.ArgumentParser(description="Null calls, bulk and a slow wire.")
    parser.add_argument("--json", action="store_true", help="print one JSON object at the end")
    options = parser.parse_args(arguments)
    more: dict[str, float] = {}
    try:
        figures = measure(more)
    except BoardprofError as error:
        print(f"rpc: {error}", file=sys.stderr)
        return error.exit_code
    except BenchmarkError as error:
        print(f"rpc: {error}", file=sys.stderr)
        return 7
    _print_table(figures)
    if options.json:
        values = {figure.key: figure.value for figure in figures} | more
        print(json.dumps({key: round(value, 4) for key, value in values.items()}))
    return 0


def _print_table(figures: Sequence[Figure]) -> None:
    print(f"The link to the board linux; host on core {HOST_CORE}, board on core {BOARD_CORE}")
    if HOST_CORE == BOARD_CORE:
        print("There is one core only: no figure below says what two would do.")
    print(f"{'':<36}{'figure':>9}{'least':>9}{'most':>9}{'target':>10}")
    for figure in figures:
        least, most = figure.spread or (None, None)
        sign, target = TARGETS[figure.key]
        cells = "".join("" if v is None else f"{v:>9.3g}" for v in (figure.value, least, most))
        verdict = "met" if figure.is_met else "MISSED"
        print(f"{_LABELS[figure.key]:<36}{cells:<27}{sign + f' {target:g}':>10}  {verdict}")
        if figure.note:
            print(f"    {figure.note}")


if __name__ == "__main__":
    sys.exit(main())
