# SPDX-License-Identifier: Apache-2.0
"""The one Report of a batch."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from boardprof.jobs.fleet.job import DONE, Job, Result
from boardprof.results.report.join import Part, joined
from boardprof.results.report.report import Report

_LINE = "\n"


def merged_report(results: Sequence[Result]) -> Report | None:
    """Return one Report of all jobs that measured something, in their order; None if none did.

    Rows of different jobs that would be alike have a label with what differs between the jobs, such
    as the file, the board's serial number or the arguments.

    Args:
        results: of the batch, in the order of its jobs.

    Raises:
        ReportFileError: the file of a Report is damaged or missing.
        UsageError: Reports cannot be joined, see `joined`.
    """
    files = _short_names([result.job for result in results])
    parts = [
        Part(report, _origin(result.job, files[result.job.file]))
        for result in results
        if (report := result.report) is not None
    ]
    missing = [
        f"{result.job}: {result.errors[0].message.partition(_LINE)[0]}"
        for result in results
        if result.state != DONE and result.report_file is None and result.report_text is None
    ]
    return joined(parts, missing) if parts else None


def _short_names(jobs: Sequence[Job]) -> dict[str, str]:
    """Return the path of each job's file from the folder that has them all."""
    whole = {job.file: os.path.abspath(job.file) for job in jobs}
    common = os.path.commonpath([Path(path).parent for path in whole.values()]) if whole else ""
    return {file: os.path.relpath(path, common) for file, path in whole.items()}


def _origin(job: Job, file: str) -> dict[str, str]:
    limits = {**asdict(job.limits), "metrics": ",".join(job.limits.metrics) or "fixed counters"}
    return {
        "file": file,
        "board": job.board,
        "arguments": " ".join(job.arguments),
        "function": job.function,
        **{name: f"{name}={value}" for name, value in limits.items()},
    }
