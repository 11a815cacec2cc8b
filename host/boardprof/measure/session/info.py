# SPDX-License-Identifier: Apache-2.0
"""Facts about a connected board and its metrics, for JSON and as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from boardprof.measure.probe_recorder import probe_facts
from boardprof.measure.sampling.available_metrics import ListedMetric
from boardprof.measure.session.board import Board
from boardprof.show.layout import plain, text_table
from boardprof.target.descriptions.build_and_guard import GuardSpec

_WIDTH = 96
"""Characters of a line of names."""


def board_info(board: Board) -> dict[str, Any]:
    """Return facts about a connected board.

    Keys with a unit in their name are numbers. ``counters`` has an entry for each counter, with its
    width in bits, its rate in Hz (None if it is not a clock) and why it is unsupported (None if it
    is supported). Slots are programmed with their default events, to know which ones count.
    """
    welcome, dictionary, device = board.welcome, board.dictionary, board.device
    refused = {each.collector.name: each.by_itself().refused for each in board.link.programmable}
    return {
        "schema_version": 1,
        "board": board.spec.name,
        "summary": board.spec.summary,
        "port": device.port,
        "agent_version": dictionary.agent_version,
        "protocol": welcome.version,
        "build_id": device.build_id,
        "boot_id": welcome.boot_id,
        "reset_cause": welcome.reset_cause.name.lower().replace("_", " "),
        "mtu_rx_bytes": welcome.mtu_rx,
        "mtu_tx_bytes": welcome.mtu_tx,
        "pointer_bytes": welcome.pointer_size,
        "byte_order": "big" if welcome.big_endian else "little",
        "arena_bytes": dictionary.arena_bytes,
        "clock_kind": device.clock_kind,
        "emulated": device.emulated,
        "time_scale": board.spec.clock.time_scale,
        "faults": _guard(board).facts(),
        "interrupts": None if board.interrupts is None else asdict(board.interrupts),
        "probes": probe_facts(board.session, dictionary),
        "collectors": [
            {
                "name": collector.name,
                "schema": board.link.layouts[collector.schema_id].name,
                "version": collector.version,
                "counters": [
                    {
                        "name": counter.name,
                        "source": counter.source,
                        "bits": counter.bits,
                        "hz": counter.hz or None,
                        "counts_in_sleep": counter.counts_in_sleep,
                        "unsupported": device.unsupported.get(counter.name)
                        or refused.get(collector.name, {}).get(counter.source),
                    }
                    for counter in collector.counters
                ],
            }
            for collector in dictionary.collectors
        ],
        "functions": [
            {"name": f.name, "signature": f.signature, "measurable": f.measurable}
            for f in dictionary.user_functions
        ],
    }


def _guard(board: Board) -> GuardSpec:
    """Return the faults that this agent catches; an agent can be built without a guard."""
    guarded = any(function.name == "bp.guard" for function in board.dictionary.functions)
    return board.spec.guard if guarded else GuardSpec()


def info_text(facts: dict[str, Any]) -> str:
    """Return the facts as text."""
    lines = [
        f"{facts['board']}: {facts['summary']}",
        f"  port        {facts['port']}",
        f"  agent       {facts['agent_version']}, protocol {facts['protocol']}, "
        f"build {facts['build_id']}",
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
        (counter["name"], *_read_from(counter), collector["name"], _state(counter["unsupported"]))
        for collector in facts["collectors"]
        for counter in collector["counters"]
    ]
    lines += _table("Counters", ("Name", "Bits", "Hz", "Source", "Collector", "State"), counters)
    faults = [(fault["cause"], _caught(fault["not_caught"])) for fault in facts["faults"]]
    lines += _table("Faults of a called function", ("Cause", "Caught"), faults)
    lines.append("Functions")
    lines += [f"  {f['name']}{f['signature']}" for f in facts["functions"]] or ["  (none)"]
    return "\n".join(lines)


def _probes(facts: dict[str, Any] | None) -> str:
    if facts is None:
        return "none: the agent was built without BP_CFG_TRACE"
    cores = f" on each of {facts['cores']} cores" if facts["cores"] > 1 else ""
    why = f", which {facts['clock_unsupported']}" if facts["clock_unsupported"] else ""
    runs = f"; recording {' and '.join(facts['recording'])}" if facts["recording"] else ""
    return (
        f"a ring of {facts['ring_bytes']:,} bytes{cores}; the clock counts "
        f"{facts['clock_unit']} of {facts['clock_source']}{why}{runs}"
    )


def _interrupts(facts: dict[str, Any] | None) -> str:
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


def _read_from(counter: dict[str, Any]) -> tuple[str, str, str]:
    rate = f"{counter['hz']:,}" if counter["hz"] else ""
    return str(counter["bits"]), rate, counter["source"]


def _state(unsupported: str | None) -> str:
    return "ok" if unsupported is None else f"unsupported: {unsupported}"


def _caught(not_caught: str | None) -> str:
    return "yes" if not_caught is None else f"no: {not_caught}"


# -- metrics -----------------------------------------------------------------------------------


def metrics_json(board: Board, metrics: list[ListedMetric]) -> dict[str, Any]:
    """Return the list as plain data; ``slots`` has the events per pass of each collector."""
    return {
        "schema_version": 1,
        "board": board.spec.name,
        "slots": {p.collector.name: p.slots for p in board.offer.programmable},
        "metrics": [{**asdict(m), "available": m.reason is None} for m in metrics],
    }


def metrics_text(board: Board, metrics: list[ListedMetric]) -> str:
    """Return the list as text: available metrics, then others, grouped by reason."""
    slots = {p.collector.name: p.slots for p in board.offer.programmable}
    lines = [f"Metrics of {board.spec.name}"]
    for owner in dict.fromkeys(m.collector for m in metrics):
        own = [m for m in metrics if m.collector == owner]
        title = "computed" if owner is None else owner
        at_once = f", {slots[owner]} in one pass" if owner in slots else ""
        lines += ["", f"{title}: {sum(m.reason is None for m in own)} available{at_once}"]
        lines += _lines(own)
    return "\n".join(lines)


def _lines(metrics: list[ListedMetric]) -> Iterator[str]:
    available = [m for m in metrics if m.reason is None]
    width = max((len(m.name) for m in available), default=0)
    for metric in available:
        yield f"  {metric.name:{width}}  {metric.description}"
    for reason in dict.fromkeys(m.reason for m in metrics if m.reason is not None):
        names = [m.name or m.description for m in metrics if m.reason == reason]
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
