# SPDX-License-Identifier: Apache-2.0
"""What many events of probes cost: decoding them, beside babeltrace2, and exporting them.

The events are those of a control loop: a range, a range in it, two values, a mark, and every tenth
time an interrupt. babeltrace2 reads the same events from a folder in the Common Trace Format. It
prints them, as it does by default, counts them, or only reads them. Times are CPU seconds, user and
system, the least of several.
Run from the repository: ``python benchmarks/events.py [--json] [--events N]``. Ends with 1 when a
figure is over its target.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from boardprof.results.probes.events import read_names
from boardprof.results.probes.run import ProbeRun, RunFacts, TraceClock
from boardprof.results.probes.timeline import ProbeCosts
from boardprof.show.ctf import render_ctf
from boardprof.show.exporters import find_probe_exporter, write_exported
from boardprof_protocol.codes import TraceBlockFlag
from boardprof_protocol.trace import TRACE_BLOCK

LEAST = {"decode_m_s": 20.0, "vs_babeltrace2": 10.0}
MOST = {f"{name}_s": 8.0 for name in ("perfetto", "chrome", "speedscope", "collapsed", "ctf")}
"""Targets, with 1,000,000 events."""

_NAMES = b"\x01control\0\x01filter\0\x02timer\0\x04input\0\x05error\0\x03done\0"
_CONTROL, _FILTER, _TIMER, _INPUT, _ERROR, _DONE = 16, 18, 20, 22, 23, 24
_TURN = (_CONTROL, _INPUT, _FILTER, _FILTER + 1, _ERROR, _DONE, _CONTROL + 1)
_INTERRUPTED = (*_TURN[:3], _TIMER, _TIMER + 1, *_TURN[3:])
_TURNS = 10 * len(_TURN) + 2
"""Events of ten turns of the loop: one of them is interrupted."""

_BLOCK = 500
"""Words of a block; a board with a ring of 4 KiB sends blocks of that size."""

_SINKS = {
    "babeltrace2": [],
    "babeltrace2_counter": ["-c", "sink.utils.counter"],
    "babeltrace2_silent": ["-c", "sink.utils.dummy"],
}
"""Options of babeltrace2: print all events, count them, or only read them."""

_ROUNDS = 5
_TIMEOUT_S = 600.0
_MISSING = 7  # exit code


def recording(count: int, seed: int = 1) -> ProbeRun:
    """Return a recording of about ``count`` events."""
    chance = np.random.default_rng(seed)
    numbers = np.tile([*_INTERRUPTED, *(9 * _TURN)], max(1, count // _TURNS)).astype(np.uint32)
    deltas = chance.integers(20, 400, len(numbers), dtype=np.uint32)
    has_value = (numbers == _INPUT) | (numbers == _ERROR)
    at = np.concatenate([[0], np.cumsum(1 + has_value)])
    words = np.zeros(int(at[-1]), "<u4")
    words[at[:-1]] = deltas << 8 | numbers
    words[at[:-1][has_value] + 1] = chance.integers(0, 2**32, int(has_value.sum()), dtype=np.uint32)
    return ProbeRun(
        RunFacts("bench", time="2026-11-25T10:00:00.000+00:00"),
        TraceClock("cycles", "DWT_CYCCNT", 168_000_000),
        read_names(_NAMES),
        ProbeCosts(empty=30, mark=12, value=15),
        b"".join(_blocks(words, at, np.cumsum(deltas, dtype=np.int64))),
    )


def _blocks(
    words: npt.NDArray[np.uint32], at: npt.NDArray[np.int64], times: npt.NDArray[np.int64]
) -> list[bytes]:
    cuts = np.unique(np.append(np.searchsorted(at, np.arange(0, at[-1], _BLOCK)), len(times)))
    found = []
    for first, end in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True):
        content, now = words[at[first] : at[end]], int(times[end - 1])
        head = {
            "core": 0,
            "flags": TraceBlockFlag.WHOLE,
            "words": len(content),
            "sequence": int(at[first]) % 2**32,
            "dropped": 0,
            "last": now % 2**32,
            "now": now % 2**32,
            "ticks": now,
        }
        found.append(TRACE_BLOCK.struct.build(head) + content.tobytes())
    return found


def figures_of(made: ProbeRun) -> dict[str, float]:
    """Return the rate of decoding, the ratio to babeltrace2, and the time of each exporter."""
    (events,) = (each.events for each in made.timelines().values())
    decode_s = _least_s(made.timelines)
    found = {"events": float(len(events)), "decode_m_s": len(events) / decode_s / 1e6}
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace"
        write_exported(render_ctf(made), trace)
        for name, options in _SINKS.items():
            its_s = _least_of_children_s(["babeltrace2", *options, str(trace)])
            found[f"{name}_m_s"] = len(events) / its_s / 1e6
            found[f"vs_{name}"] = its_s / decode_s
    for name in MOST:
        exporter = find_probe_exporter(name.removesuffix("_s"))
        if exporter is None:
            raise AssertionError(f"there is no exporter {name}")
        found[name] = _least_s(lambda of=exporter: of(made), 1)  # type: ignore[misc]
    return found


def _least_s(work: Callable[[], object], rounds: int = _ROUNDS) -> float:
    """Return the CPU seconds of the fastest round."""
    found = []
    for _ in range(rounds):
        began = time.process_time()
        work()
        found.append(time.process_time() - began)
    return min(found)


def _least_of_children_s(command: list[str]) -> float:
    found = []
    for _ in range(_ROUNDS):
        before = os.times()
        subprocess.run(command, stdout=subprocess.DEVNULL, timeout=_TIMEOUT_S, check=True)
        after = os.times()
        found.append(
            after.children_user
            + after.children_system
            - before.children_user
            - before.children_system
        )
    return min(found)


def main() -> int:
    """Run it; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="end with one line of JSON")
    parser.add_argument("--events", type=int, default=1_000_000, help="about how many")
    options = parser.parse_args()
    try:
        figures = figures_of(recording(options.events))
    except FileNotFoundError:
        print("babeltrace2 is not installed. Try: apt-get install babeltrace2", file=sys.stderr)
        return _MISSING
    for name, value in figures.items():
        least, most = LEAST.get(name), MOST.get(name)
        target = f">= {least:g}" if least else f"<= {most:g}" if most else ""
        print(f"{name:<22} {value:>12,.2f}  {target}")
    missed = [name for name, least in LEAST.items() if figures[name] < least]
    missed += [name for name, most in MOST.items() if figures[name] > most]
    for name in missed:
        target_value = LEAST.get(name) or MOST[name]
        print(f"{name} is {figures[name]:.4g}; the target is {target_value:g}")
    if options.json:
        print(json.dumps({name: round(value, 4) for name, value in figures.items()}))
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
