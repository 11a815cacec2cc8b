# SPDX-License-Identifier: Apache-2.0
"""Jobs of a batch and their results, the file that lists jobs, and the folder of results."""

from __future__ import annotations

import errno
import hashlib
import itertools
import json
import math
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final

from boardprof.base.connection import Connection
from boardprof.base.errors import BusyError, UsageError
from boardprof.base.files import check_owner, read_short_text, unwritable, write_bytes
from boardprof.base.processes import described, lock_holders, lock_within
from boardprof.base.toml_table import TomlTable, parsed
from boardprof.jobs.fleet.provider import UNKNOWN_HINT, JobLostError
from boardprof.jobs.run.benchmarks import Benchmarks
from boardprof.jobs.run.plan import Plan
from boardprof.results.report.join import Part, joined
from boardprof.results.report.report import Report
from boardprof.results.report.report_file import read_report
from boardprof.target.build.build_options import BuildOptions, settings_of
from boardprof.target.descriptions.board import default_board

DONE: Final = "done"
FAILED: Final = "failed"
UNKNOWN: Final = "unknown"
STARTED: Final = "started"
"""The states of a result. ``unknown`` is of a job marked ``once`` that may have run; ``started`` is
only in a folder, before a job marked ``once`` begins."""

_AXES = ("files", "functions", "arguments", "flags", "boards")


def _texts(name: str, given: Sequence[str]) -> tuple[str, ...]:
    if isinstance(given, str) or not all(isinstance(each, str) for each in given):
        raise UsageError(f"{name} must be a list of strings, not {given!r}.")
    return tuple(given)


@dataclass(frozen=True)
class Limits:
    """How a job measures, and how long it may take.

    Attributes:
        metrics: to measure, a tuple or list. Empty for the board's fixed counters.
        number: calls in each sample.
        repeat: samples. None for the default of ``boardprof run``.
        warmup: calls before the first sample. None for the default of ``boardprof run``.
        timeout_s: longest time of a call on the board's clock. None for the default.
        wall_timeout_s: longest wall time of a call. None for the board's default.
        job_s: longest wall time of a whole job. Then its process is ended.
        once: do not repeat the job if it may have run.
    """

    metrics: tuple[str, ...] = ()
    number: int = 1
    repeat: int | None = None
    warmup: int | None = None
    timeout_s: float | None = None
    wall_timeout_s: float | None = None
    job_s: float = 600.0
    once: bool = False

    def __post_init__(self) -> None:
        """Check the types."""
        object.__setattr__(self, "metrics", _texts("metrics", self.metrics))
        if not self.job_s > 0:
            raise UsageError(f"job_s must be above 0, not {self.job_s!r}.")


@dataclass(frozen=True)
class Job:
    """Measure one function, or all of a file, on one board.

    Attributes:
        file: a C file, a folder, or whatever ``boardprof run`` takes.
        board: a kind of board, such as ``qemu-rv32``, or the serial number of one.
        function: its name, or ``all``.
        arguments: a tuple or list of ``NAME=VALUE``, as for ``boardprof run``.
        flags: compiler flags.
        limits: how it measures.
        benchmark: its name, if the job is one of the project's benchmarks.
        tolerance: largest relative difference of floats when its outputs are compared.
    """

    file: str
    board: str
    function: str = "all"
    arguments: tuple[str, ...] = ()
    flags: str = "-O2"
    limits: Limits = field(default_factory=Limits)
    benchmark: str = ""
    tolerance: float = 0.0

    def __post_init__(self) -> None:
        """Check the arguments."""
        object.__setattr__(self, "arguments", _texts("arguments", self.arguments))

    @property
    def plan(self) -> Plan:
        """The job as ``boardprof run`` plans it, without its board."""
        limits = self.limits
        return Plan(
            target=f"{self.file}:{self.function}",
            values=self.arguments,
            connection=Connection(timeout_s=limits.timeout_s, wall_timeout_s=limits.wall_timeout_s),
            metrics=limits.metrics or None,
            warmup=limits.warmup,
            repeat=limits.repeat,
            number=limits.number,
            code=BuildOptions(optimize="", cflags=self.flags),
            benchmark=self.benchmark,
            tolerance=self.tolerance,
        )

    def __str__(self) -> str:
        """Return the job as a line for people."""
        words = (f"{self.file}:{self.function}", *self.arguments, self.flags, "on", self.board)
        return " ".join(word for word in words if word)


@dataclass(frozen=True)
class JobError:
    """An error of a job.

    Attributes:
        kind: name of its class, such as ``BuildError``.
        message: what happened and what to try.
        exit_code: of a command that ends with it.
        board: serial number of the board that the job was tried on. None if none.
    """

    kind: str
    message: str
    exit_code: int
    board: str | None = None

    @classmethod
    def of(cls, error: BaseException) -> JobError:
        """Describe an exception."""
        return cls(type(error).__name__, str(error), getattr(error, "exit_code", 70))


@dataclass(frozen=True)
class Result:
    """What became of a job.

    Attributes:
        job: the job.
        state: ``done``, ``failed``, or ``unknown`` if it may have run only once and nobody knows
            whether it did.
        key: the digest of all that the result depends on. "" if there is no firmware.
        board: serial number of the board of the last attempt. None if there was none.
        medians: function -> metric -> median per call, in the unit of the metric's name.
        errors: what went wrong in all attempts, the last attempt first. Empty if ``done``.
        warnings: about unreliable numbers, as ``boardprof run`` prints them.
        began_s, ended_s: Unix time of the last attempt. ``began_s`` is 0 if there was none.
        is_final: a later start with the same folder does not run the job again.
        was_known: the result is from an earlier start.
        report_text: the Report as JSON, if there is no folder for results.
        report_file: file with the Report. None if absent.
        value: what another function than the usual one returned; not kept in a folder.
    """

    job: Job
    state: str
    key: str = ""
    board: str | None = None
    medians: Mapping[str, Mapping[str, float]] = field(default_factory=dict, hash=False)
    errors: tuple[JobError, ...] = ()
    warnings: tuple[str, ...] = ()
    began_s: float = 0.0
    ended_s: float = 0.0
    is_final: bool = True
    was_known: bool = False
    report_text: str | None = None
    report_file: str | None = None
    value: Any = field(default=None, compare=False, repr=False)

    @property
    def report(self) -> Report | None:
        """The Report, also of a failed job if something was measured. None if absent.

        Raises:
            ReportFileError: its file is damaged or missing.
        """
        if self.report_file is not None:
            return read_report(self.report_file)
        return None if self.report_text is None else Report.from_json(self.report_text)

    def line(self, folder: Path | None = None) -> str:
        """Return the result as a line of JSON; the Report's file relative to ``folder``."""
        facts = asdict(replace(self, value=None))
        del facts["report_text"], facts["value"]
        if folder is not None:
            del facts["was_known"]
            if self.report_file is not None:
                facts["report_file"] = str(Path(self.report_file).relative_to(folder))
        return json.dumps(facts, separators=(",", ":"))

    @classmethod
    def from_json(cls, facts: Mapping[str, Any], folder: Path) -> Result:
        """Return the result of a line.

        Raises:
            KeyError, TypeError: it is not one.
        """
        job = dict(facts["job"])
        limits = dict(job["limits"])
        limits["metrics"] = tuple(limits["metrics"])
        job |= {"arguments": tuple(job["arguments"]), "limits": Limits(**limits)}
        errors = tuple(JobError(**each) for each in facts["errors"])
        name = facts["report_file"]
        file = None if name is None else str(folder / name)
        known = {"job": Job(**job), "errors": errors, "was_known": True, "report_file": file}
        return cls(**{**facts, **known, "warnings": tuple(facts.get("warnings", ()))})


def read_jobs(file: str | Path) -> list[Job]:
    """Read JOBS.toml: each ``[[jobs]]`` is a matrix of files, functions, arguments, flags, boards.

    Relative files start at the folder of JOBS.toml.

    Raises:
        UsageError: it cannot be read, or a key or value is not valid.
    """
    path = Path(file)
    try:
        content = parsed(read_short_text(path), file)
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{file} is not valid TOML: {error}.") from error
    top = TomlTable(content, path)
    general = _limits(top.table("limits", required=False), Limits())
    matrices = top.take("jobs", list)
    top.end()
    jobs: dict[Job, None] = {}
    for number, matrix in enumerate(matrices):
        if not isinstance(matrix, dict):
            raise top.error("jobs", f"entry {number + 1} must be a table: write [[jobs]]")
        jobs |= dict.fromkeys(_expanded(TomlTable(matrix, path, "jobs", number), general))
    if not jobs:
        raise top.error("jobs", "the list is empty")
    return list(jobs)


_UNTAKEN: Final = ("sources", "keep", "ldflags", "libc", "compile_commands")


def benchmark_jobs(benchmarks: Benchmarks, base: Plan) -> list[Job]:
    """Return a job for each benchmark on each of its boards; raises a UsageError."""
    jobs = []
    for benchmark in benchmarks.all:
        plan = benchmark.plan(base)
        assert plan is not None, "no board was given"
        code = plan.code
        has_more = any(getattr(code, name) != getattr(BuildOptions(), name) for name in _UNTAKEN)
        if has_more or plan.cold or plan.mask_interrupts:
            raise UsageError(
                f"{benchmark.place}: {benchmark.name}: jobs of a fleet take no further sources, "
                "libraries, no-inline, compile-commands, cold and mask-interrupts.",
                hint="boardprof run measures it here",
            )
        if plan.expect:
            raise UsageError(
                f"{benchmark.place}: {benchmark.name}: jobs of a fleet take no expected outputs.",
                hint="compare with a baseline, which has the outputs",
            )
        words = [code.optimize, code.cflags, *(shlex.quote(f"-D{each}") for each in code.defines)]
        folders = (os.path.abspath(benchmarks.folder / each) for each in code.includes)
        words += [shlex.quote(f"-I{folder}") for folder in folders]
        times = plan.connection.timeout_s, plan.connection.wall_timeout_s
        limits = Limits(plan.metrics or (), plan.number or 1, plan.repeat, plan.warmup, *times)
        file, flags = str(benchmarks.folder / str(plan.path)), " ".join(filter(None, words))
        names = plan.boards or (default_board().name,)
        what = plan.function, plan.values, flags, limits, benchmark.name, plan.tolerance
        jobs += [Job(file, board, *what) for board in names]
    return jobs


def _expanded(table: TomlTable, general: Limits) -> Iterator[Job]:
    folder = table.file.parent
    files = [str(folder / Path(name).expanduser()) for name in table.texts("files", None)]
    functions = table.texts("functions", ("all",)) or ("all",)
    try:
        settings = [
            flags
            for text in table.texts("flags", ("-O2",)) or ("",)
            for flags in settings_of(text or "-O2", "-O2" if text else "")
        ]
    except UsageError as error:
        if error.message.startswith(str(table.file)):
            raise
        told = table.error("flags", error.message.rstrip("."))
        told.hint = error.hint
        raise told from error
    boards = table.texts("boards", None)
    arguments = [_argument_list(table, each) for each in table.take("arguments", list, [[]])]
    limits = _limits(table, general, _AXES)
    for file, function, values, flags, board in itertools.product(
        files, functions, arguments or [()], settings, boards
    ):
        yield Job(file, board, function, values, flags, limits)


def _argument_list(table: TomlTable, given: object) -> tuple[str, ...]:
    if not isinstance(given, list) or not all(isinstance(each, str) for each in given):
        raise table.error("arguments", 'must be lists of strings, such as [["n=64"], ["n=256"]]')
    return tuple(given)


def _limits(table: TomlTable, default: Limits, axes: tuple[str, ...] = ()) -> Limits:
    """Read the limits in a table that may also have the axes of a matrix."""
    found: dict[str, Any] = {"metrics": table.texts("metrics", default.metrics)}
    for name, least in (("number", 1), ("repeat", 1), ("warmup", 0)):
        value = table.take(name, int, getattr(default, name))
        if value is not None and value < least:
            raise table.error(name, f"must be at least {least}, not {value}")
        found[name] = value
    for name in ("timeout_s", "wall_timeout_s", "job_s"):
        found[name] = given = getattr(default, name)
        if table.has(name):
            found[name] = table.positive(name, math.inf if given is None else given)
    found["once"] = table.take("once", bool, default.once)
    assert set(found) == {each.name for each in fields(Limits)}
    for name in axes:
        table.has(name)
    table.end()
    return Limits(**found)


_INDEX, _REPORTS = "results.jsonl", "reports"
_FORKED_S = 1.0


class ResultsFolder:
    """The last final results that the folder has, and a place for new ones."""

    # ``results.jsonl`` has one JSON object a line for each result, and ``reports/`` a Report for
    # each job that measured something. The last line of a key and a file counts. A job marked
    # ``once`` gets a line ``started`` before it begins. If that is its last line, the batch ended
    # while the job ran. So its lines have to be on the disk: the power may fail.

    def __init__(self, path: str | Path) -> None:
        """Open the folder, made if it is not there; the last line may be cut short."""
        if not str(path):
            raise UsageError("The folder for the results has no name.", hint="--results FOLDER")
        self.path = Path(path)
        self._index = self.path / _INDEX
        made = [each for each in (self.path, *self.path.parents) if not each.exists()]
        self._unsynced = {self.path, *(each.parent for each in made)}
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            check_owner(self.path, "name a folder of your own: --results FOLDER")
            (self.path / _REPORTS).mkdir(exist_ok=True)
            self._handle = os.open(self._index, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise unwritable(path, error) from error
        try:
            # What a killed batch has just forked keeps the lock until it executes a program.
            if not lock_within(self._handle, _FORKED_S):
                owner = described(lock_holders(self._index)) or "another program"
                raise BusyError(
                    f"{path} is in use: {owner} writes results to it.",
                    owner=owner,
                    hint="wait for the other batch, or name another folder",
                )
            self._known = self._read()
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
        is_once = result.job.limits.once
        if result.report_text is not None:
            # Equal files in two folders have the same key.
            own = f"{result.key}\n{result.job.file}".encode(errors="surrogateescape")
            file = self.path / _REPORTS / f"{hashlib.sha256(own).hexdigest()[:32]}.json"
            write_bytes(result.report_text.encode() + b"\n", str(file))
            result = replace(result, report_text=None, report_file=str(file))
            if is_once:
                self._unsynced |= {file, file.parent}
        left = memoryview((result.line(self.path) + "\n").encode())
        try:
            while left:
                left = left[os.write(self._handle, left) :]
            if is_once:
                os.fsync(self._handle)
                while self._unsynced:
                    _sync(self._unsynced.pop())
        except OSError as error:
            raise unwritable(self._index, error) from error
        return result

    def known(self, key: str, job: Job) -> Result | None:
        """Return the result of a job, or that of a job with the same key; None if there is none."""
        # Jobs with the same key differ in nothing that a result depends on: in the path of an equal
        # file, or in ``job_s``.
        alike = self._known.get(key)
        if not alike:
            return None
        return replace(alike.get(job.file) or [*alike.values()][-1], job=job)

    def _read(self) -> dict[str, dict[str, Result]]:
        """Return the results by key and file; remove a line that was cut short."""
        with open(self._handle, "rb", closefd=False) as file:
            content = file.read()
        whole = content.rfind(b"\n") + 1
        found: dict[str, dict[str, Result]] = {}
        for number, line in enumerate(content[:whole].splitlines(), start=1):
            try:
                result = Result.from_json(json.loads(line), self.path)
            except (ValueError, KeyError, TypeError, AttributeError):
                raise UsageError(
                    f"{self._index}:{number}: this line is not a result of a batch.",
                    hint="name another folder for the results",
                ) from None
            alike = found.setdefault(result.key, {})
            alike.pop(result.job.file, None)
            if result.state == STARTED:
                lost = JobLostError("The batch ended while this job ran.", hint=UNKNOWN_HINT)
                result = replace(result, state=UNKNOWN, errors=(JobError.of(lost),))
            if result.is_final and result.key:
                alike[result.job.file] = result
        os.ftruncate(self._handle, whole)
        os.lseek(self._handle, whole, os.SEEK_SET)
        return found


def _sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno != errno.EINVAL:  # this file system cannot do it for folders
            raise
    finally:
        os.close(handle)


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
    whole = {result.job.file: os.path.abspath(result.job.file) for result in results}
    common = os.path.commonpath([Path(path).parent for path in whole.values()]) if whole else ""
    files = {file: os.path.relpath(path, common) for file, path in whole.items()}
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
    # The flags of a benchmark are its own: its name tells its rows apart.
    names_flags = not all(result.job.benchmark for result in results)
    return joined(parts, missing, names_flags=names_flags) if parts else None


def _origin(job: Job, file: str) -> dict[str, str]:
    limits = {**asdict(job.limits), "metrics": ",".join(job.limits.metrics) or "fixed counters"}
    return {
        "file": file,
        "board": job.board,
        "arguments": " ".join(job.arguments),
        "function": job.function,
        **{name: f"{name}={value}" for name, value in limits.items()},
    }
