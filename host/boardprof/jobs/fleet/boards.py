# SPDX-License-Identifier: Apache-2.0
"""A board of a fleet: how its host reaches it, and its quarantine."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from boardprof.base.errors import MissingToolError, UsageError
from boardprof.base.writing import write_bytes
from boardprof.target.descriptions.board_file import BoardSpec
from boardprof.target.descriptions.board_lookup import board_spec
from boardprof.target.toolchain.cache import cache_root

_SUFFIX = ".quarantine"


@dataclass(frozen=True)
class Quarantine:
    """Why a board is out of service, and until when."""

    why: str
    until_s: float  # Unix time of its next check
    count: int  # checks that it has failed in a row


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
    """Keep the quarantine of a board until `end_quarantine`."""
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


LABGRID = "labgrid:"
"""Prefix of a port that is the name of a place in labgrid."""

_FORM = "KIND, KIND=PORT, KIND=PORT#SERIAL, KIND=labgrid:PLACE"


@dataclass(frozen=True)
class FleetBoard:
    """A board of a fleet."""

    kind: str  # name of its folder, such as qemu-rv32
    serial: str  # no other board of the fleet has it
    port: str | None = None  # of its agent, or labgrid:PLACE; None if its host starts it
    host: str = ""  # address of the worker that has it; "" for this machine
    # in which it was when it joined the batch; None if it was in service
    quarantine: Quarantine | None = field(default=None, compare=False)

    @property
    def place(self) -> str:
        """What it is on its host: its kind, with its port or else its serial number."""
        return f"{self.kind} {self.port or self.serial}"

    @property
    def spec(self) -> BoardSpec:
        """The board's description; raises as `board_spec`."""
        spec = board_spec(self.kind)
        return spec if self.port is None else spec.at_port()


def check_startable(kind: str) -> None:
    """Check that a board which its host starts can be started here."""
    launch = board_spec(kind).launch
    program, package = launch.command[0] if launch.command else "", launch.package
    if launch.simulator is not None:
        program, package = launch.simulator.program, launch.simulator.package
    is_program = program and "{" not in program  # else the image itself
    if is_program and shutil.which(program) is None:
        raise MissingToolError(program, package or program)


def boards_of_host(texts: Sequence[str], host: str) -> list[FleetBoard]:
    """Return the boards that a host offers.

    A board that is simulated by an emulator is offered once for each core. Boards that are this
    machine itself are offered once, because their calls would disturb each other.

    A board that is simulated by an emulator is offered once for each core. Boards that are this
    machine itself are offered once, because their calls would disturb each other.
    """
    found: list[FleetBoard] = []
    for text in dict.fromkeys(texts):
        kind, _, rest = text.partition("=")
        port, _, serial = rest.partition("#")
        if not kind or (rest and not port):
            raise UsageError(f"{text!r} is not a board.", hint=_FORM)
        spec = board_spec(kind)
        if port:
            found.append(FleetBoard(kind, serial or f"{host}:{port}", port))
        elif spec.launch.kind == "serial":
            raise UsageError(f"{kind} is a real board and needs a port.", hint=f"{kind}=PORT")
        else:
            count = (os.cpu_count() or 1) if spec.clock.kind == "simulated" else 1
            found += [FleetBoard(kind, f"{host}:{kind}.{n}") for n in range(count)]
    serials = [board.serial for board in found]
    if twice := sorted({each for each in serials if serials.count(each) > 1}):
        raise UsageError(f"Two boards have the serial number {twice[0]}.", hint=_FORM)
    return found
