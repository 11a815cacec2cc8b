# SPDX-License-Identifier: Apache-2.0
"""Facts about a connected board and its metrics, as plain data."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from boardprof.measure.probe_recorder import probe_facts
from boardprof.measure.session.board import Board
from boardprof.target.descriptions.build_and_guard import GuardSpec


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


def metrics_info(board: Board) -> dict[str, Any]:
    """Return what a board can count; ``slots`` has the events per pass of each collector."""
    return {
        "schema_version": 1,
        "board": board.spec.name,
        "slots": {p.collector.name: p.slots for p in board.offer.programmable},
        "metrics": [{**asdict(m), "available": m.reason is None} for m in board.metrics()],
    }
