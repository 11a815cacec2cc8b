# SPDX-License-Identifier: Apache-2.0
"""Facts about a connected board, and the list of its metrics, as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from boardprof.show.layout import plain, text_table

_WIDTH = 96  # characters of a line of names


def info_text(facts: Mapping[str, Any]) -> str:
    """Return the facts as text."""
    lines = [
        f"{facts['board']}: {facts['summary']}",
        f"  port        {facts['port']}",
        f"  agent       {facts['agent_version']}, protocol {facts['protocol']}, "
        + (f"build {facts['build_id']}" if facts["build_id"] else "without a build id"),
        f"  frames      {facts['mtu_rx_bytes']} bytes to the board, "
        f"{facts['mtu_tx_bytes']} from it",
        f"  CPU         {8 * facts['pointer_bytes']}-bit pointers, {facts['byte_order']}-endian",
        f"  arena       {facts['arena_bytes']:,} bytes",
        f"  clock       {facts['clock_kind']}" + (", emulated" if facts["emulated"] else ""),
        f"  interrupts  {_interrupts(facts['interrupts'])}",
        f"  probes      {_probes(facts['probes'])}",
        f"  last reset  {facts['reset_cause']}",
    ]
    counters = [
        (
            counter["name"],
            str(counter["bits"]),
            f"{counter['hz']:,}" if counter["hz"] else "",
            counter["source"],
            collector["name"],
            "ok" if (why := counter["unsupported"]) is None else f"unsupported: {why}",
        )
        for collector in facts["collectors"]
        for counter in collector["counters"]
    ]
    lines += _table("Counters", ("Name", "Bits", "Hz", "Source", "Collector", "State"), counters)
    faults = [
        (fault["cause"], "yes" if (why := fault["not_caught"]) is None else f"no: {why}")
        for fault in facts["faults"]
    ]
    lines += _table("Faults of a called function", ("Cause", "Caught"), faults)
    lines.append("Functions")
    lines += [f"  {f['name']}{f['signature']}" for f in facts["functions"]] or ["  (none)"]
    return "\n".join(lines)


def _probes(facts: Mapping[str, Any] | None) -> str:
    if facts is None:
        return "none: the agent was built without BP_CFG_TRACE"
    cores = f" on each of {facts['cores']} cores" if facts["cores"] > 1 else ""
    why = f", which {facts['clock_unsupported']}" if facts["clock_unsupported"] else ""
    runs = f"; recording {' and '.join(facts['recording'])}" if facts["recording"] else ""
    return (
        f"a ring of {facts['ring_bytes']:,} bytes{cores}; the clock counts "
        f"{facts['clock_unit']} of {facts['clock_source']}{why}{runs}"
    )


def _interrupts(facts: Mapping[str, Any] | None) -> str:
    if facts is None:
        return "cannot be masked"
    parts = ["can be masked" + (", the guard's timer with them" if facts["masks_guard"] else "")]
    if facts["longest_us"]:
        parts.append(f"for at most {facts['longest_us']:,} us")
    if facts["skips"]:
        parts.append("counts exclude hooked interrupts")
    if facts["timer_us"]:
        parts.append(f"a timer interrupts every {facts['timer_us']:,} us")
    return "; ".join(parts)


def _table(title: str, headers: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    table = plain([text_table(headers, rows)]) if rows else "(none)"
    return [title, *(f"  {line}" for line in table.splitlines())]


def metrics_text(facts: Mapping[str, Any]) -> str:
    """Return the list of a board's metrics: available ones, then others, grouped by reason."""
    lines = [f"Metrics of {facts['board']}"]
    for owner in dict.fromkeys(each["collector"] for each in facts["metrics"]):
        own = [each for each in facts["metrics"] if each["collector"] == owner]
        title = "computed" if owner is None else owner
        at_once = f", {facts['slots'][owner]} in one pass" if owner in facts["slots"] else ""
        lines += ["", f"{title}: {sum(each['available'] for each in own)} available{at_once}"]
        lines += _lines(own)
    return "\n".join(lines)


def _lines(metrics: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    available = [each for each in metrics if each["available"]]
    width = max((len(each["name"]) for each in available), default=0)
    for each in available:
        yield f"  {each['name']:{width}}  {each['description']}"
    for reason in dict.fromkeys(each["reason"] for each in metrics if not each["available"]):
        names = [
            each["name"] or each["description"] for each in metrics if each["reason"] == reason
        ]
        yield f"  not available: {reason}"
        yield from _wrapped(names)


def _wrapped(names: list[str]) -> Iterator[str]:
    """Break names into lines. Names contain minus signs and colons and must stay whole."""
    line = ""
    for name in names:
        if line and len(line) + len(name) + 2 > _WIDTH:
            yield f"    {line},"
            line = ""
        line = f"{line}, {name}" if line else name
    yield f"    {line}"
