# SPDX-License-Identifier: Apache-2.0
"""The result of ``boardprof doctor --link``, as text and as JSON."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from boardprof.doctor.link_test import LinkReport, Tests, Throughput
from boardprof.errors import LinkError

_UNITS = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B"))


def link_facts(report: LinkReport) -> dict[str, Any]:
    """Return one test of a line as plain data for JSON; null if not measured."""
    counts, times = report.counts, report.round_trips_s
    return {
        "port": report.port,
        "baud": report.baud,
        "error": None,
        "clean": report.is_clean,
        "frames_to_board": counts.sent,
        "frames_to_host": counts.received,
        "damaged_to_board": counts.damaged_to_board,
        "damaged_to_host": counts.damaged_to_host,
        "lost": counts.lost,
        "error_rate": report.error_rate,
        "naks": counts.naks,
        "requests_sent_again": counts.again,
        "unreadable_from_board": counts.unreadable,
        "console_bytes": counts.console_bytes,
        "injected_faults": report.injected,
        "round_trips": len(times),
        "round_trip_min_s": times[0] if times else None,
        "round_trip_median_s": statistics.median(times) if times else None,
        "round_trip_p99_s": _p99(times) if times else None,
        "to_board": _throughput_facts(report.to_board),
        "to_host": _throughput_facts(report.to_host),
        "no_data": report.no_data or None,
    }


def _p99(times: Sequence[float]) -> float:
    """Return the least time that 99 % of them do not exceed."""
    return times[-(-99 * len(times) // 100) - 1]


def _throughput_facts(found: Throughput | None) -> dict[str, Any] | None:
    return None if found is None else dict(vars(found))


def best_baud(tests: Tests) -> int | None:
    """Return the fastest clean rate, else the least damaging one. None if none answers."""
    answered = {
        baud: test
        for baud, test in tests.items()
        if isinstance(test, LinkReport) and baud is not None
    }
    return min(answered, key=lambda baud: (answered[baud].error_rate, -baud), default=None)


def exit_code(tests: Tests) -> int:
    """Return exit code 0 if the best rate is clean, 4 if not, the error's if no board answers."""
    reports = [test for test in tests.values() if isinstance(test, LinkReport)]
    errors = [test for test in tests.values() if not isinstance(test, LinkReport)]
    if not reports:
        return max(error.exit_code for error in errors)
    return 0 if any(report.is_clean for report in reports) else LinkError.exit_code


def links_facts(tests: Tests) -> dict[str, Any]:
    """Return all tests of a line as JSON shows them."""
    return {
        "schema_version": 1,
        "best_baud": best_baud(tests),
        "tests": [
            link_facts(test)
            if isinstance(test, LinkReport)
            else {"baud": baud, "error": test.message}
            for baud, test in tests.items()
        ],
    }


def links_text(name: str, tests: Tests) -> str:
    """Return all tests of a line for people; the best rate last, if there were several."""
    parts = [
        link_text(name, test) if isinstance(test, LinkReport) else f"{baud:,} baud: {test.message}"
        for baud, test in tests.items()
    ]
    if len(tests) > 1:
        best = best_baud(tests)
        parts.append(f"Best: {best:,} baud" if best else "The board answers at none of these.")
    return "\n\n".join(parts)


def link_text(name: str, report: LinkReport) -> str:
    """Return one test of a line for people."""
    counts, times = report.counts, report.round_trips_s
    total = counts.sent + counts.received
    rate = f", {report.baud:,} baud" if report.baud is not None else ""
    trips = "every call needed a retry"
    if times:
        shown = (times[0], statistics.median(times), _p99(times))
        trips = f"{' … '.join(map(_time_text, shown))}    {len(times):,} calls"
    lines = [
        f"Link: {name} at {report.port}{rate}",
        f"  Frames      {counts.sent:,} to the board, {counts.received:,} to the host",
        f"  Damaged     {counts.damaged_to_board:,} to the board ({counts.naks:,} NAKs), "
        f"{counts.damaged_to_host:,} to the host, {counts.lost:,} lost",
        f"  Error rate  {100 * report.error_rate:.3g} %  ({counts.faults:,} of {total:,} frames)",
        f"  Sent again  {counts.again:,} requests",
        f"  Console     {counts.console_bytes:,} bytes of text between the frames",
        f"  Round trip (min … median … p99):  {trips}",
        f"  To the board:  {_throughput_text(report.to_board, report.no_data)}",
        f"  To the host:   {_throughput_text(report.to_host, report.no_data)}",
    ]
    if report.injected:
        lines.append(
            f"  Injected    {report.injected:,} faults by --faults; every answer was correct"
        )
    return "\n".join([*lines, "", verdict(report)])


def verdict(report: LinkReport) -> str:
    """Return in one line what the test says of the line."""
    if report.is_clean:
        return "The link is clean: nothing was damaged or lost."
    whole = "Every call still got the correct answer"
    if report.injected:
        return f"The link loses frames, as requested with --faults. {whole}."
    return (
        f"The link loses frames. {whole}. Try a lower baud rate, a shorter cable or a better "
        "ground."
    )


def _time_text(seconds: float) -> str:
    return f"{seconds * 1e3:.2f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.1f} µs"


def _throughput_text(found: Throughput | None, why_not: str) -> str:
    if found is None:
        return f"not measured: {why_not}"
    factor, unit = next(entry for entry in _UNITS if found.bytes_per_s >= entry[0] or entry[0] == 1)
    wire = "" if found.wire_percent is None else f", {found.wire_percent:.1f} % of the wire"
    return f"{found.bytes_per_s / factor:.1f} {unit}/s{wire}    {found.size:,} bytes at a time"
