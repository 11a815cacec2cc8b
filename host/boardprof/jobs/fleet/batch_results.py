# SPDX-License-Identifier: Apache-2.0
"""The results of a batch: the folder that keeps them, and their one Report."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from boardprof.base.errors import BusyError, UsageError
from boardprof.base.processes import described, lock_holders, lock_within
from boardprof.base.writing import unwritable, write_bytes
from boardprof.jobs.fleet.job import DONE, STARTED, UNKNOWN, Job, JobError, Result
from boardprof.jobs.fleet.provider import WHETHER_IT_RAN, JobLostError
from boardprof.results.report.join import Part, joined
from boardprof.results.report.report import Report

_INDEX, _REPORTS = "results.jsonl", "reports"


class ResultsFolder:
    """The last final result of each key that the folder has, and a place for new ones."""

    def __init__(self, path: str | Path) -> None:
        """Open the folder, made if it is not there; the last line may be cut short."""
        if not str(path):
            raise UsageError("The folder for the results has no name.", hint="--results FOLDER")
        self.path = Path(path)
        self._index = self.path / _INDEX
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            _check_owner(self.path)
            (self.path / _REPORTS).mkdir(exist_ok=True)
            self._handle = os.open(self._index, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise unwritable(path, error) from error
        try:
            if not lock_within(self._handle, 0.0):
                owner = described(lock_holders(self._index)) or "another program"
                raise BusyError(
                    f"{path} is in use: {owner} writes results to it.",
                    owner=owner,
                    hint="wait for the other batch, or name another folder",
                )
            self.known = self._read()
        except BaseException:
            os.close(self._handle)
            raise

    def __enter__(self) -> ResultsFolder:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the folder."""
        os.close(self._handle)

    def add(self, result: Result) -> Result:
        """Write a result, and return it with the file of its Report; it is in the folder then."""
        if result.report_text is not None:
            file = self.path / _REPORTS / f"{result.key[:32]}.json"
            write_bytes(result.report_text.encode() + b"\n", str(file))
            result = replace(result, report_text=None, report_file=str(file))
        left = memoryview((result.line(self.path) + "\n").encode())
        try:
            while left:
                left = left[os.write(self._handle, left) :]
        except OSError as error:
            raise unwritable(self._index, error) from error
        return result

    def _read(self) -> dict[str, Result]:
        """Return the results by key; remove a line that was cut short."""
        with open(self._handle, "rb", closefd=False) as file:
            content = file.read()
        whole = content.rfind(b"\n") + 1
        found: dict[str, Result] = {}
        for number, line in enumerate(content[:whole].splitlines(), start=1):
            try:
                result = Result.from_json(json.loads(line), self.path)
            except (ValueError, KeyError, TypeError, AttributeError):
                raise UsageError(
                    f"{self._index}:{number}: this line is not a result of a batch.",
                    hint="name another folder for the results",
                ) from None
            found.pop(result.key, None)
            if result.state == STARTED:
                lost = JobLostError("The batch ended while this job ran.", hint=WHETHER_IT_RAN)
                result = replace(result, state=UNKNOWN, errors=(JobError.of(lost),))
            if result.is_final and result.key:
                found[result.key] = result
        os.ftruncate(self._handle, whole)
        os.lseek(self._handle, whole, os.SEEK_SET)
        return found


def _check_owner(folder: Path) -> None:
    """Refuse a folder that another user made where everybody may make one, such as in /tmp.

    Its files could be links to ours. The kernel has the same rule for files (proc_sys_fs(5)).
    """
    own, around = folder.lstat(), folder.absolute().parent.stat()
    for_everybody = stat.S_ISVTX | stat.S_IWOTH
    is_shared = around.st_mode & for_everybody == for_everybody
    if is_shared and own.st_uid not in (os.geteuid(), around.st_uid):
        raise UsageError(
            f"The folder {folder} belongs to another user.",
            hint="name a folder of your own: --results FOLDER",
        )


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
