# SPDX-License-Identifier: Apache-2.0
"""The hosts and boards of a fleet, what they do, and what is leased on this machine."""

from __future__ import annotations

import platform
import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from boardprof.jobs.fleet.boards import next_check, quarantines
from boardprof.jobs.fleet.lease import local_leases
from boardprof.show.layout import Page


def local_status() -> dict[str, Any]:
    """Return what is leased on this machine, and its boards in quarantine, as plain data."""
    leases = [{"what": what, "holder": holder} for what, holder in local_leases().items()]
    kept = [{"board": place, **asdict(found)} for place, found in quarantines().items()]
    return {"schema_version": 1, "host": platform.node(), "leases": leases, "quarantines": kept}


def fleet_status(scheduler: str) -> dict[str, Any]:
    """Return the hosts of a fleet and their boards, as plain data; raises as `DaskProvider`."""
    from boardprof.jobs.fleet.dask_provider import DaskProvider
    from boardprof.jobs.fleet.dask_worker import FACTS

    provider = DaskProvider(scheduler)
    try:
        workers = provider.workers()
    finally:
        provider.close()
    hosts = [
        {
            "host": worker["id"],
            "address": address,
            "silent_s": round(time.time() - worker["last_seen"], 1),
            "boards": list(worker.get("metrics", {}).get(FACTS, ())),
        }
        for address, worker in workers.items()
    ]
    return {"schema_version": 1, "scheduler": scheduler, "hosts": hosts}


def status_page(facts: Mapping[str, Any]) -> Page:
    """Return what `local_status` or `fleet_status` found, as text."""
    if "leases" in facts:
        lines = [f"{lease['what']}: {lease['holder']}" for lease in facts["leases"]]
        lines += [f"{each['board']}: {_quarantine_text(each)}" for each in facts["quarantines"]]
        return lines or ["Nothing is leased on this machine."]
    if not facts["hosts"]:
        return ["No worker is connected."]
    lines = []
    for host in facts["hosts"]:
        lines.append(f"{host['host']} at {host['address']}, last seen {host['silent_s']:.0f} s ago")
        for board in host["boards"]:
            kept = board.get("quarantine")
            what = _quarantine_text(kept) if kept else "free"
            if board["works_on"] is not None:
                what = f"{time.time() - board['since_s']:.0f} s on {board['works_on']}"
            error = f"; last error: {board['last_error']}" if board["last_error"] else ""
            lines.append(
                f"  {board['kind']} {board['serial']}: {what}; {board['ended']} ended{error}"
            )
    return lines


def _quarantine_text(facts: Mapping[str, Any]) -> str:
    return f"in quarantine, {next_check(facts['until_s'])} ({facts['why'].rstrip('.')})"
