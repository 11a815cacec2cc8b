# SPDX-License-Identifier: Apache-2.0
"""One job on one board: its image, which is built where the batch is, and its measurement."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from boardprof.base.connection import Connection
from boardprof.base.errors import (
    BoardError,
    BoardprofError,
    BoardTimeoutError,
    BuildMismatchError,
    DeviceEndedError,
    DeviceResetError,
    LinkError,
    MissingToolError,
    RpcError,
)
from boardprof.jobs.fleet.boards import (
    LONGEST_QUARANTINE_S,
    FleetBoard,
    Quarantine,
    check_startable,
    end_quarantine,
    keep_quarantine,
    lease,
)
from boardprof.jobs.fleet.job import Job, JobError
from boardprof.jobs.fleet.policy import Check
from boardprof.jobs.run.execution import Listener, results
from boardprof.jobs.run.plan import Plan, PlanData
from boardprof.jobs.run.plan_build import build_plans
from boardprof.measure.connect import connect, open_firmware
from boardprof.measure.doctor.check_board import check_board, finding_text, proof_sources
from boardprof.measure.doctor.counters import FAILED as PROOF_FAILED
from boardprof.results.report.assemble import assemble
from boardprof.results.report.measurement import Measurement
from boardprof.results.report.report import Report
from boardprof.results.stats.groups import summaries
from boardprof.results.stats.warnings import warnings
from boardprof.target.build.builder import build
from boardprof.target.build.firmware import BuiltFirmware, flash
from boardprof.target.descriptions.board import BoardSpec
from boardprof.target.toolchain.cache import Cache, FileHashes

_OF_THE_BOARD = (
    BoardError,
    BoardTimeoutError,
    LinkError,
    DeviceResetError,
    DeviceEndedError,
    MissingToolError,
)
"""Errors that say nothing about the job; another board may do it."""


@dataclass(frozen=True)
class Image:
    """An image on its way to a worker."""

    firmware: BuiltFirmware  # as it was built; its path is the client's
    digest: str  # SHA-256 of the file, in hex
    content: bytes | None = None  # the file; None if the worker has it

    def here(self, spec: BoardSpec) -> BuiltFirmware:
        """Return the firmware with an image of this machine."""
        name = self.firmware.image.name
        cache = Cache()
        path = cache.root / "images" / "fleet" / self.digest / name
        if FileHashes().of(path) == self.digest:
            cache.use(path)
        elif self.content is not None:
            with cache.scratch() as scratch:
                (scratch / name).write_bytes(self.content)
                os.chmod(scratch / name, 0o700)
                path = cache.store(scratch / name, "images", "fleet")
        else:
            path = self.firmware.image  # this is the machine of the batch itself
        if FileHashes().of(path) != self.digest:
            raise ImageMissingError(f"The image {self.digest[:12]} is not on this machine.")
        return replace(self.firmware, image=path, board=spec)


class ImageMissingError(BoardError):
    """The worker does not have the image, although it was sent: it is sent again."""


@dataclass(frozen=True)
class Work:
    """What a job's process needs."""

    job: Job
    data: PlanData
    image: Image

    def __str__(self) -> str:
        """Return the job as a line for people."""
        return str(self.job)


@dataclass(frozen=True)
class AttemptResult:
    """How an attempt at a job ended."""

    report: str | None = None  # as JSON; None if nothing was measured
    medians: Mapping[str, Mapping[str, float]] = field(default_factory=dict)  # see `Result`
    errors: tuple[JobError, ...] = ()
    is_boards_fault: bool = False  # another board may do the job
    may_have_run: bool = True  # the function may have been called
    warnings: tuple[str, ...] = ()  # as `boardprof run` prints them
    value: Any = None  # what another function than `perform` returns


def built(jobs: Sequence[Job], kind: str) -> Image:
    """Build the image of jobs with the same file and flags; raises as `build`."""
    plans = [job.plan for job in jobs]
    spec = FleetBoard(kind, "").spec
    firmware = build_plans(spec, plans, lambda text: None, None, is_whole=True)
    return Image(firmware, hashlib.sha256(firmware.image.read_bytes()).hexdigest())


@lru_cache(maxsize=1024)
def data_of(values: tuple[str, ...]) -> PlanData:
    """Read the arguments of jobs, and the files that they name; raises as `Plan.read_data`."""
    return Plan(target="file:function", values=values).read_data()


@lru_cache(maxsize=1024)
def _data_digest(values: tuple[str, ...]) -> str:
    return hashlib.sha256(pickle.dumps(data_of(values))).hexdigest()


def key_of(job: Job, image: Image) -> str:
    """Return the digest of all that a job's result depends on."""
    facts = [
        job.board,
        job.function,
        job.arguments,
        _data_digest(job.arguments),
        image.firmware.build_id.hex(),
        job.flags,
        # The key of a job does not depend on job_s, and is that of earlier versions.
        repr(replace(job.limits, job_s=1.0)).replace("job_s=1.0", "job_s=0.0"),
    ]
    facts += [job.benchmark] if job.benchmark else []
    facts += [f"{job.tolerance}"] if job.tolerance else []
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def perform(work: Work, board: FleetBoard) -> AttemptResult:
    """Carry out a job; runs in the process of its board."""
    measured: list[Measurement] = []
    errors: list[BoardprofError] = []
    connections: list[None] = []
    try:
        spec = board.spec
        with lease(board) as port:
            firmware = work.image.here(spec)
            if port is not None and spec.flash is not None:
                _flash_unless_there(firmware, port)
            plan = work.job.plan
            plan = replace(
                plan,
                connection=replace(plan.connection, port=port),
                data=work.data,
                boards=(board.kind,),
            )
            listener = Listener(
                on_note=lambda text: None, on_connected=lambda: connections.append(None)
            )
            for found in results(spec, [plan], listener, firmware=firmware):
                if isinstance(found, Measurement):
                    measured.append(found)
                else:
                    errors.append(found)
    except BoardprofError as error:
        errors.append(error)
    missing = [error.message.partition("\n")[0] for error in errors]
    report = assemble(measured, missing=missing) if measured else None
    return AttemptResult(
        None if report is None else report.json(),
        {} if report is None else _medians(report),
        tuple(map(JobError.of, errors)),
        any(is_boards_fault(error) for error in errors),
        may_have_run=bool(connections),
        warnings=() if report is None else tuple(map(str, warnings(report))),
    )


def _medians(report: Report) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for each in summaries(report):
        if each.key.device == each.board:  # not of a part of the board
            found.setdefault(each.key.title, {})[each.metric] = each.summary.median
    return found


def is_boards_fault(error: BoardprofError) -> bool:
    """Tell whether an error says nothing about the job."""
    return isinstance(error, _OF_THE_BOARD) and not isinstance(error, RpcError)


def _flash_unless_there(firmware: BuiltFirmware, port: str) -> None:
    """Flash a board that runs other firmware, or none that answers."""
    try:
        open_firmware(firmware, Connection(port)).close()
    except (BuildMismatchError, BoardTimeoutError, LinkError):
        flash(firmware.board, firmware.image, port)


def check(asked: Check, board: FleetBoard) -> str | None:
    """Check a board with known work; return what is wrong, or None."""
    # If something is, the board's quarantine is kept on this machine. It is also kept if this
    # process dies.
    until_s = time.time() + min(asked.pause_s, LONGEST_QUARANTINE_S)
    unfinished = Quarantine("Its check did not end.", until_s, asked.count)
    keep_quarantine(board.place, unfinished)
    fault = fault_of(board)
    if fault is None:
        end_quarantine(board.place)
    else:
        keep_quarantine(board.place, replace(unfinished, why=fault))
    return fault


def fault_of(board: FleetBoard) -> str | None:
    """Call known work on a board, as ``boardprof doctor`` does; return what is wrong, or None."""
    # At a port, functions of known work can only be called if the board can be flashed.
    try:
        spec = board.spec
        if board.port is None:
            check_startable(board.kind)
    except BoardprofError as error:
        return error.message.partition("\n")[0]
    try:
        with lease(board) as port:
            if port is None or spec.flash is not None:
                firmware = build(spec, proof_sources(spec))
                if port is not None:
                    flash(spec, firmware.image, port)
                with open_firmware(firmware, Connection(port)) as opened:
                    found = [f for f in check_board(opened) if f.verdict == PROOF_FAILED]
                return finding_text(found[0]) if found else None
            connect(spec, port).close()
    except MissingToolError:
        return None  # this machine cannot build the functions; the board may be in order
    except BoardprofError as error:
        return error.message.partition("\n")[0]
    return None
