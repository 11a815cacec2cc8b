# SPDX-License-Identifier: Apache-2.0
"""Boards that are out of service because they failed a check.

Each host keeps the quarantines of its own boards, beside their leases, so that later batches and
other clients know them.
"""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from boardprof.base.writing import write_bytes
from boardprof.target.toolchain.cache import cache_root

_SUFFIX = ".quarantine"


@dataclass(frozen=True)
class Quarantine:
    """Why a board is out of service, and until when.

    Attributes:
        why: what is wrong.
        until_s: Unix time of its next check.
        count: how many checks it has failed in a row.
    """

    why: str
    until_s: float
    count: int


def lease_folder() -> Path:
    """Return the folder of this user's leases on this machine."""
    return cache_root() / "leases"


def quarantines() -> dict[str, Quarantine]:
    """Return the quarantines of this machine by the places of their boards."""
    folder = lease_folder()
    found: dict[str, Quarantine] = {}
    for file in sorted(folder.glob(f"*{_SUFFIX}")) if folder.is_dir() else ():
        found |= _read(file)
    return found


def quarantine_of(place: str) -> Quarantine | None:
    """Return the quarantine of a board of this machine by its place; None if it has none."""
    return _read(_file(place)).get(place)


def keep_quarantine(place: str, quarantine: Quarantine) -> None:
    """Keep the quarantine of a board until `end_quarantine`.

    Raises:
        UsageError, StorageError: it cannot be written.
    """
    file = _file(place)
    file.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(json.dumps({"place": place, **asdict(quarantine)}).encode(), str(file))


def end_quarantine(place: str) -> None:
    """Forget that a board was in quarantine."""
    _file(place).unlink(missing_ok=True)


def _file(place: str) -> Path:
    return lease_folder() / f"{hashlib.sha256(place.encode()).hexdigest()[:16]}{_SUFFIX}"


def _read(file: Path) -> dict[str, Quarantine]:
    try:
        facts = json.loads(file.read_bytes())
        return {facts.pop("place"): Quarantine(**facts)}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}  # it has just ended; a damaged one only means that the board gets a job


def next_check(until_s: float) -> str:
    """Return when a board in quarantine is checked, for people."""
    if until_s <= time.time():
        return "checked before its next job"
    return f"checked again at {time.strftime('%H:%M:%S', time.localtime(until_s))}"
