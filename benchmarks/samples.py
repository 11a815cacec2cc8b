# SPDX-License-Identifier: Apache-2.0
"""What many samples cost: decoding their blobs, and `show` and `compare` of their Reports.

The blobs are those of the board native: two collectors, three counters, 72 bytes a sample. A record
is one blob, its header and CRC looked at and its counters subtracted, in columns. Times are CPU
seconds, user and system, the least of several; `show` and `compare` are processes of their own.
Run from the repository: ``python benchmarks/samples.py [--json] [--samples N]``. Ends with 1 when a
figure is over its target.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from boardprof.results.record import Device
from boardprof.results.report.assemble import assemble
from boardprof.results.report.measurement import Measurement, PassResult
from boardprof.results.report.report_file import write_report
from boardprof.wire.decode.dictionary import CollectorInfo, CounterInfo
from boardprof.wire.decode.samples import Sample, decode_batch, decode_samples, records_of
from boardprof_protocol.blob import encode_blob
from boardprof_protocol.codes import CounterStatus
from boardprof_protocol.collectors import linux_clock, linux_faults
from boardprof_protocol.layout import Layout

LEAST = {"records_m_s": 20.0}
MOST = {"show_s": 2.0, "compare_s": 2.0}
"""Targets, with 100,000 samples."""

_LAYOUTS = (linux_faults.LAYOUT, linux_clock.LAYOUT)
_BY_ID = {layout.schema_id: layout for layout in _LAYOUTS}
_ALONE = 2000
"""Samples that construct reads, one by one, for its rate."""

_ROUNDS = 5
_TIMEOUT_S = 600.0


def collector(index: int, layout: Layout) -> CollectorInfo:
    """Return what a board would say of a collector."""
    counters = tuple(
        CounterInfo(each.name, each.name, 64, 0, 0, False, CounterStatus.OK, 0)
        for each in layout.counters
    )
    return CollectorInfo(index, layout.name, layout.schema_id, layout.version, layout.crc, counters)


COLLECTORS = tuple(collector(i, layout) for i, layout in enumerate(_LAYOUTS))


def blobs(samples: int, seed: int) -> bytes:
    """Return the blobs of samples as a board would send them: some 40 ns, in steps of one."""
    chance = random.Random(seed)
    found = []
    for number in range(samples):
        for layout in _LAYOUTS:
            fields = dict.fromkeys((each.name for each in layout.fields), 10**12 + 300 * number)
            for counter in layout.counters if layout is linux_clock.LAYOUT else ():
                fields[counter.stop] += 40 + round(chance.expovariate(1 / 8))
            body = bytes(layout.struct.build(fields))
            found.append(encode_blob(layout.schema_id, layout.version, body))
    return b"".join(found)


def columns(data: bytes) -> int:
    """Decode blobs to a column a counter; return how many there are."""
    records = records_of(data, COLLECTORS, _BY_ID)
    if records is None:
        raise AssertionError("the blobs are not right")
    differences = [
        records[f"f{i}"]["body"][counter.stop] - records[f"f{i}"]["body"][counter.start]
        for i, layout in enumerate(_LAYOUTS)
        for counter in layout.counters
    ]
    return len(differences[0]) * len(_LAYOUTS)


def decoding(data: bytes) -> dict[str, float]:
    """Return millions of records a second, and thousands of samples each way."""
    size = len(data) // len(blobs(1, 0))
    alone = data[: len(data) // size * min(size, _ALONE)]
    return {
        "records_m_s": columns(data) / _least_s(lambda: columns(data)) / 1e6,
        "samples_k_s": size / _least_s(lambda: decode_batch(data, COLLECTORS, _BY_ID)) / 1e3,
        "construct_k_s": min(size, _ALONE)
        / _least_s(lambda: decode_samples(alone, COLLECTORS, _BY_ID))
        / 1e3,
    }


def _least_s(work: Callable[[], object]) -> float:
    """Return the CPU seconds of the fastest round."""
    found = []
    for _ in range(_ROUNDS):
        began = time.process_time()
        work()
        found.append(time.process_time() - began)
    return min(found)


def commands(first: bytes, second: bytes) -> dict[str, float]:
    """Return the CPU seconds of `show` and `compare`."""
    with tempfile.TemporaryDirectory() as folder:
        files = [str(Path(folder) / name) for name in ("before.json", "after.json")]
        for file, data in zip(files, (first, second), strict=True):
            samples = decode_batch(data, COLLECTORS, _BY_ID)
            write_report(assemble([_measurement(samples)]), file)
        return {"show_s": _command_s("show", files[0]), "compare_s": _command_s("compare", *files)}


def _measurement(samples: list[Sample]) -> Measurement:
    device = Device(
        "native", "measured", False, "", "0.1.0", "00" * 8, 1, {}, collectors=COLLECTORS
    )
    windows = PassResult(tuple(samples), tuple(samples[:9]), tuple(samples[:1]), mask=3)
    return Measurement("crc", device, 1, 10, (windows,), arguments="data=uint8[4], n=4")


def _command_s(*words: str) -> float:
    found = []
    for _ in range(_ROUNDS):
        before = os.times()
        command = [sys.executable, "-m", "boardprof", *words]
        subprocess.run(command, capture_output=True, timeout=_TIMEOUT_S, check=True)
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
    parser.add_argument("--samples", type=int, default=100_000, help="how many")
    options = parser.parse_args()
    first, second = (blobs(options.samples, seed) for seed in (1, 2))
    figures = {**decoding(first), **commands(first, second)}
    print("records, M/s  samples, k/s  construct, k/s  show, s  compare, s")
    print(
        f"{figures['records_m_s']:>12.1f}  {figures['samples_k_s']:>12.0f}  "
        f"{figures['construct_k_s']:>14.1f}  {figures['show_s']:>7.2f}  "
        f"{figures['compare_s']:>10.2f}"
    )
    missed = [name for name, least in LEAST.items() if figures[name] < least]
    missed += [name for name, most in MOST.items() if figures[name] > most]
    for name in missed:
        target = LEAST.get(name) or MOST[name]
        print(f"{name} is {figures[name]:.4g}; the target is {target:g}")
    if options.json:
        print(json.dumps({name: round(value, 4) for name, value in figures.items()}))
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
