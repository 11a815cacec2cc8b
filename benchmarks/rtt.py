# SPDX-License-Identifier: Apache-2.0
"""How near bulk transfers through a debug probe come to the probe's own access to memory.

The probe is the tests' own, on QEMU's GDB server. Run from the repository:
``python benchmarks/rtt.py [--json]``.
"""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import closing
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from boardprof.measure.connect import connect
from boardprof.target.build.builder import build
from boardprof.target.descriptions.board import board_spec
from tests.rtt_probe import RttProbe, with_rtt

__all__ = ["main"]

_BOARD = "qemu-cortex-m3"
_RINGS = (1024, 4096, 16384)
_SIZE = 1 << 16
_ROUNDS = 5


def _by_probe(probe: RttProbe, ring: int) -> float:
    """Return the seconds in which the probe alone empties a full ring until it has all bytes."""
    with probe.lock:
        begin = time.perf_counter()
        for _ in range(-(-_SIZE // (ring - 1))):
            up, _down = probe.rings()
            probe.stub.read(up.buffer, ring - 1)
            probe.stub.write(up.address + 16, up.read.to_bytes(4, "little"))
            probe.stub.ask(then_go=True)
        return time.perf_counter() - begin


def _measured(ring: int) -> tuple[float, float]:
    """Return 10^3 bytes per second of ``board.memory.read``, and of the probe alone."""
    spec = with_rtt(board_spec(_BOARD), ring)
    image = build(spec).image
    ours, probes = [], []
    with closing(RttProbe(spec, image)) as probe, connect(_BOARD, probe.port, image=image) as board:
        block, content = board.memory.alloc(_SIZE), os.urandom(_SIZE)
        board.memory.write(block, content)
        for _ in range(_ROUNDS):
            begin = time.perf_counter()
            found = board.memory.read(block)
            ours.append(time.perf_counter() - begin)
            assert found == content, "the board gave back other bytes than were written"
            probes.append(_by_probe(probe, ring))
    return _SIZE / 1e3 / median(ours), _SIZE / 1e3 / median(probes)


def main(arguments: list[str]) -> int:
    """Print a line for each size of the ring."""
    figures = {ring: _measured(ring) for ring in _RINGS}
    if "--json" in arguments:
        rates = {f"rtt_{ring}_kb_s": ours for ring, (ours, _) in figures.items()}
        limits = {f"memory_{ring}_kb_s": probe for ring, (_, probe) in figures.items()}
        print(json.dumps(rates | limits))
        return 0
    for ring, (ours, probe) in figures.items():
        share = f"{ours:7.0f} of {probe:7.0f} kB/s, {ours / probe:4.0%}"
        print(f"64 KiB through a ring of {ring:6,} bytes: {share} of the probe's own")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
