# SPDX-License-Identifier: Apache-2.0
"""What a connected board is and offers, as JSON-able facts and as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from boardprof.board.board import Board
from boardprof.boards.build import GuardSpec
from boardprof.render.layout import plain, text_table


def board_info(board: Board) -> dict[str, Any]:
    """Return facts about a connected board.

    Keys with a unit in their name are numbers; ``counters`` has one entry a counter with its width
    in bits, its rate in Hz (None: no clock) and why it is unsupported (None: it is supported).
    """
    welcome, dictionary, device = board.welcome, board.dictionary, board.device
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
                        "unsupported": device.unsupported.get(counter.name),
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
    """Return what the guard of this agent catches; an agent can be built without one."""
    guarded = any(function.name == "bp.guard" for function in board.dictionary.functions)
    return board.spec.guard if guarded else GuardSpec()


def info_text(facts: dict[str, Any]) -> str:
    """Lay the facts out for reading."""
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
