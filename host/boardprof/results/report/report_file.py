# SPDX-License-Identifier: Apache-2.0
"""Files with Reports, and baseline files, which have only the parts that gates need.

A baseline file is meant to be committed and read in a diff. It is JSON with one line per value. If
all samples are equal, it has one value for all; otherwise a list with one value for each::

    {
     "kind": "boardprof.baseline",
     "version": 1,
     "boards": {
      "qemu-rv32": {"clock": "simulated", "emulated": true, "counters": {"instructions": 0}}
     },
     "measurements": [
      {"function": "fir", "arguments": "n=256", "board": "qemu-rv32", "flags": "-O2",
       "samples": 10, "calls": 1, "count": {"Stack (bytes)": 0, "instructions": 116869}}
     ]
    }

`boardprof.show.baseline` writes it, and lists what it leaves out.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

from boardprof.base.errors import ReportFileError, UsageError
from boardprof.base.metrics import TAGS, Count, Duration, Percent, Ratio, metric_from_json
from boardprof.base.writing import check_is_file, write_bytes
from boardprof.results.report.calls import LABEL, Row
from boardprof.results.report.report import SCHEMA_VERSION, Report

_OR_RUN = "`boardprof history` lists the runs that were kept"

BASELINE_KIND: Final = "boardprof.baseline"
BASELINE_VERSION: Final = 1
"""Version of the layout; it grows if an old reader would misread new files."""

_BEGINNING: Final = rf'\s*{{\s*"kind":\s*"{re.escape(BASELINE_KIND)}"'

VALUES: Final = tuple(TAGS[kind] for kind in (Count, Duration, Percent, Ratio))
"""Keys of a measurement's values, by kind of metric."""

COLD: Final = "cold "
"""Prefix of such a key for the very first call."""

COLUMNS: Final = {
    "arguments": "Argument Shapes",
    "sweep": "Flags",
    "hash": "Hash",
    "label": LABEL,
}
"""Column of the rows for each key of a measurement."""

_COURSE: Final = {"number": "calls", "warmup": "warm-up", "calls_before": "calls before"}
_NAMES: Final = {dict: "an object", list: "an array", str: "a text", int: "a whole number"}
_WROTE: Final = "a file that `--baseline FILE` wrote, unchanged"
_BY_RUN: Final = "a file written by `boardprof run --json FILE`"
_MOST_SAMPLES: Final = 10_000_000

T = TypeVar("T", dict[str, Any], list[Any], str, int)


def check_report_file(file: str) -> None:
    """Check that ``file`` can be written, before anything is measured.

    Raises:
        UsageError: the name is empty or a folder, or its folder is missing or not writable.
    """
    if not file:
        raise UsageError("A file without a name cannot be written.", hint="give it one, e.g. out")
    check_is_file(file)
    path = Path(file)
    if path.exists() and not path.is_file():  # a pipe or a device is written to directly
        if not os.access(path, os.W_OK):
            raise UsageError(f"{file} cannot be written: no permission.")
        return
    folder = path.resolve().parent
    if not folder.is_dir():
        raise UsageError(f"{file} cannot be written: there is no folder {folder}.")
    if not os.access(folder, os.W_OK):
        raise UsageError(f"{file} cannot be written: no permission in {folder}.")


def write_report(report: Report, file: str) -> None:
    """Write the Report as JSON; a regular file completely or not at all.

    Raises:
        UsageError, StorageError: the file cannot be written.
    """
    write_text(report.json() + "\n", file)


def write_text(text: str, file: str) -> None:
    """Write a text; a regular file completely or not at all.

    Raises:
        UsageError, StorageError: the file cannot be written.
    """
    write_bytes(text.encode(), file)


def read_report(file: str) -> Report:
    """Read a Report from a JSON file, or from a baseline file.

    Raises:
        ReportFileError: the file does not exist, or does not hold a Report.
    """
    try:
        text = Path(file).read_bytes().decode()
    except IsADirectoryError as error:
        raise ReportFileError(
            f"{file} is a folder.", hint=f"name a file in it; {_OR_RUN}"
        ) from error
    except OSError as error:
        message = f"{file} cannot be read: {error.strerror}."
        raise ReportFileError(message, hint=f"name another file; {_OR_RUN}") from error
    except UnicodeDecodeError as error:
        raise ReportFileError(
            f"{file} is not a Report: it is not text (byte {error.start}).",
            hint=_BY_RUN,
        ) from error
    try:
        if is_baseline(text):
            return report_of_baseline(baseline_content(text))
        return Report.from_json(text)
    except ReportFileError as error:
        raise ReportFileError(f"{file}: {error.message}", hint=error.hint or _BY_RUN) from error


# -- baseline files ---------------------------------------------------------------------------


def is_baseline(text: str) -> bool:
    """Tell whether a text is a baseline file, even if reformatted, rather than a Report."""
    if re.match(_BEGINNING, text) or f'"{BASELINE_KIND}"' not in text:
        return re.match(_BEGINNING, text) is not None
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(content, dict) and content.get("kind") == BASELINE_KIND


def baseline_content(text: str) -> dict[str, Any]:
    """Parse a baseline file.

    Raises:
        ReportFileError: it is not JSON, or of a version that this package cannot read.
    """
    try:
        content = _need(json.loads(text), dict, "the file")
    except (ValueError, RecursionError) as error:
        raise ReportFileError(f"this is not JSON: {error}.", hint=_WROTE) from error
    if content.get("kind") != BASELINE_KIND or content.get("version") != BASELINE_VERSION:
        raise ReportFileError(
            f"this is a baseline of version {content.get('version')!r:.20}, and this boardprof "
            f"reads version {BASELINE_VERSION}.",
            hint="write it again with --baseline FILE",
        )
    return content


def report_of_baseline(content: Mapping[str, Any]) -> Report:
    """Return the Report that a baseline represents: its rows, and what comparing needs.

    Raises:
        ReportFileError: a value has the wrong type; the message gives its place.
    """
    boards = _need(content.get("boards"), dict, "boards")
    rows: list[Row] = []
    measurements = []
    for place, entry in enumerate(_need(content.get("measurements"), list, "measurements")):
        at = f"measurements[{place}]"
        rows += _rows(_need(entry, dict, at), at)
        facts = _need(boards.get(entry.get("board"), {}), dict, "boards")
        measurements.append(_measurement(entry, facts, at))
    devices = {name: _device(facts, f"boards.{name}") for name, facts in boards.items()}
    extra = {"schema_version": SCHEMA_VERSION, "devices": devices, "measurements": measurements}
    return Report(rows, {}, {}, extra)


def _need(value: object, kind: type[T], at: str) -> T:
    if type(value) is not kind:
        raise ReportFileError(f"{_NAMES[kind]} is needed.", where=at, hint=_WROTE)
    return value


def _device(facts: object, at: str) -> dict[str, Any]:
    known = _need(facts, dict, at)
    counters = _need(known.get("counters", {}), dict, f"{at}.counters")
    listed = [{"name": name, "hz": hz} for name, hz in counters.items()]
    return {
        "clock_kind": _need(known.get("clock", ""), str, f"{at}.clock"),
        "emulated": known.get("emulated") is True,
        "cflags": shlex.split(_need(known.get("cflags", ""), str, f"{at}.cflags")),
        "collectors": [{"counters": listed}],
    }


def _rows(entry: Mapping[str, Any], at: str) -> Iterator[Row]:
    """Yield a row for each sample of a measurement."""
    same: Row = {"Name": _need(entry.get("function"), str, f"{at}.function")}
    for key, column in COLUMNS.items():
        if key in entry:
            same[column] = _need(entry[key], str, f"{at}.{key}")
    device = _need(entry.get("device", entry.get("board", "")), str, f"{at}.board")
    same |= {"Device": device} if device else {}
    samples = _need(entry.get("samples"), int, f"{at}.samples")
    if not 0 < samples <= _MOST_SAMPLES:
        raise ReportFileError(f"{samples} is out of range.", where=f"{at}.samples", hint=_WROTE)
    columns = {"Count": (TAGS[Count], _each(entry.get("calls"), samples, f"{at}.calls"))}
    for tag in VALUES:
        for metric, value in _need(entry.get(tag, {}), dict, f"{at}.{tag}").items():
            columns[metric] = (tag, _each(value, samples, f"{at}.{tag}.{metric}"))
    for n in range(samples):
        row = {**same}
        for metric, (tag, each) in columns.items():
            if each[n] is not None:
                try:
                    row[metric] = metric_from_json({tag: each[n]})
                except ValueError as error:
                    raise ReportFileError(f"{error}.", where=f"{at}.{tag}.{metric}") from error
        yield row


def _each(value: object, samples: int, at: str) -> list[Any]:
    """Return each sample's value, from one value for all or a list."""
    if not isinstance(value, list):
        return [value] * samples
    if len(value) != samples:
        raise ReportFileError(f"there are {len(value)} values for {samples} samples.", where=at)
    return value


def _measurement(entry: Mapping[str, Any], facts: Mapping[str, Any], at: str) -> dict[str, Any]:
    """Return a Report's data on a measurement, as far as comparing uses it."""
    found: dict[str, Any] = {
        "name": entry["function"],
        "device": entry.get("board", ""),
        "arguments": entry.get("arguments", ""),
        "label": entry.get("label", ""),
        "inputs_crc32": _need(entry.get("inputs", ""), str, f"{at}.inputs"),
        "flags": entry.get("sweep", entry.get("flags")),
        "compilers": _need(entry.get("compilers", []), list, f"{at}.compilers"),
        "libc": entry.get("C library"),
        "interrupts": {"masked": entry.get("interrupts") == "masked"},
    }
    overheads = _need(entry.get("overhead", {}), dict, f"{at}.overhead")
    doubts = _need(entry.get("doubt", {}), dict, f"{at}.doubt")
    if overheads:
        found["calibration"] = {name: overheads.get(name) for name in facts.get("counters", {})}
        found["calibration_samples"] = _windows(overheads, doubts, at)
    if "replies" in entry:
        found |= {key: entry.get(name) for key, name in _COURSE.items()}
        replies: list[list[dict[str, Any]]] = [
            [{}] * _need(count, int, f"{at}.replies")
            for count in _need(entry["replies"], list, f"{at}.replies")
        ]
        found["totals"] = replies[0] if replies else []
        found["further_passes"] = [{"totals": each} for each in replies[1:]]
    cold = {
        metric: {tag: value}
        for tag in VALUES
        for metric, value in _need(entry.get(COLD + tag, {}), dict, f"{at}.{COLD}{tag}").items()
    }
    return {**found, "cold": {"metrics": cold}} if cold else found


def _windows(
    overheads: Mapping[str, Any], doubts: Mapping[str, Any], at: str
) -> list[dict[str, dict[str, int]]]:
    """Return windows around the empty function with the original spread."""
    taken = {name: _need(value, int, f"{at}.overhead") for name, value in overheads.items()}
    apart = {n: value + _need(doubts.get(n, 0), int, f"{at}.doubt") for n, value in taken.items()}
    return [{"raw": taken}, {"raw": apart}]
