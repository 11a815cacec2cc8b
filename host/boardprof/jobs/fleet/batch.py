# SPDX-License-Identifier: Apache-2.0
"""One batch while it runs: what its jobs and boards do, until each job has a result."""

from __future__ import annotations

import itertools
import os
import queue
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from boardprof.base.errors import BoardError, BoardprofError, MissingToolError, ReportFileError
from boardprof.jobs.fleet.boards import FleetBoard, next_check
from boardprof.jobs.fleet.job import (
    DONE,
    FAILED,
    STARTED,
    UNKNOWN,
    Job,
    JobError,
    Result,
    ResultsFolder,
)
from boardprof.jobs.fleet.policy import AttemptEnd, Check, GiveUp, Policy, Rules, Start
from boardprof.jobs.fleet.provider import (
    UNKNOWN_HINT,
    Ended,
    Event,
    JobLostError,
    JobTimeoutError,
    Joined,
    Left,
    LocalProvider,
)
from boardprof.jobs.fleet.work import (
    AttemptResult,
    Image,
    ImageMissingError,
    Work,
    built,
    check,
    data_of,
    key_of,
    perform,
)

if TYPE_CHECKING:
    from boardprof.jobs.fleet.dask_provider import DaskProvider

Provider: TypeAlias = "LocalProvider | DaskProvider"

_CHECK_S = 300.0
_LONGEST_WAIT_S = 5.0
_LINE = "\n"
_SHORT_S = 2.0
"""Mean time of jobs below which boards get their next job in advance."""

Perform = Callable[[Any, FleetBoard], AttemptResult]


@dataclass(frozen=True)
class Progress:
    """How far a batch is.

    Attributes:
        total: number of jobs.
        states: number of results by state.
        boards: serial number -> state of the board, what it works on or why it is out of service,
            and how many jobs it has ended.
        waiting: need -> what its jobs wait for.
        left_s: estimated seconds to the end. None if unknown.
    """

    total: int
    states: Counter[str]
    boards: dict[str, tuple[str, str, int]]
    waiting: tuple[str, ...]
    left_s: float | None


def _lost_report(result: Result) -> ReportFileError | None:
    """Return why the Report of a known result cannot be read; None if it can, or has none."""
    try:
        result.report  # noqa: B018 - reads it
    except ReportFileError as error:
        return error
    return None


@dataclass
class _Call:
    """A call that was sent to a board."""

    board: str  # its serial number
    number: int | None  # of the job; None for a check of the board
    began_s: float  # Unix time
    image: str = ""  # digest of the image that it needs; "" if none


@dataclass
class _Entry:
    """A job of a batch, and what is known of its attempts."""

    job: Job
    key: str = ""  # of its result; "" until it is built
    image: Image | None = None
    board: str | None = None  # serial number, of the last attempt; None if there was none
    began_s: float = 0.0
    ended_s: float = 0.0
    errors: tuple[JobError, ...] = ()  # of all attempts, the last one first


@dataclass(eq=False)
class Batch:
    """The jobs of a batch and the boards that they run on."""

    jobs: Sequence[Job]
    provider: Provider
    rules: Rules
    perform: Perform
    folder: ResultsFolder | None
    faults: Mapping[str, BoardprofError]  # why boards that jobs name are not there
    on_progress: Callable[[Progress], None] | None
    on_sources: Callable[[Sequence[Path]], None] | None

    def __post_init__(self) -> None:
        """Begin."""
        self._entries = [_Entry(job) for job in self.jobs]
        self._policy = Policy(self.rules)
        self._events: queue.SimpleQueue[Event | Future[Image]] = queue.SimpleQueue()
        self._boards: dict[str, FleetBoard] = {}
        self._calls: dict[int, _Call] = {}
        self._call_numbers = itertools.count()
        self._ended: Counter[str] = Counter()
        self._states: Counter[str] = Counter()
        self._waiting: Counter[str] = Counter()
        self._builders = ThreadPoolExecutor(os.cpu_count() or 1, "boardprof build")
        self._builds: dict[Future[Image], list[int]] = {}
        self._sent: set[tuple[str, str]] = set()
        self._began_s = time.monotonic()
        self._measured = 0
        self._left_why = ""

    def run(self) -> Iterator[Result]:
        """Run the jobs, and yield each result as soon as it is there."""
        for board in self.provider.open(self._events.put):
            self._join(board)
        results = deque(self._submitted())
        left = len(self._entries)
        while True:
            results.extend(self._decided())
            while results:
                result = results.popleft()
                left -= 1
                self._states[result.state] += 1
                yield result
            self._tell()
            if not left:
                return
            results.extend(self._handled(self._next_events()))

    def close(self) -> None:
        """End what runs."""
        self._builders.shutdown(wait=False, cancel_futures=True)
        self.provider.close()

    # -- jobs --------------------------------------------------------------------------------

    def _submitted(self) -> Iterator[Result]:
        """Start the builds; yield the results of jobs that no board can serve."""
        alike: dict[tuple[str, str, str], list[int]] = {}  # these share an image
        for number, entry in enumerate(self._entries):
            job = entry.job
            if lack := self._policy.lack(job.board):
                fault = self.faults.get(job.board)
                yield self._failed(entry, fault or BoardError(lack, hint="boardprof fleet status"))
                continue
            kind = next(b.kind for b in self._boards.values() if job.board in (b.kind, b.serial))
            alike.setdefault((kind, job.file, job.flags), []).append(number)
        for (kind, *_), numbers in alike.items():
            if self.perform is perform:
                jobs = [self._entries[number].job for number in numbers]
                future = self._builders.submit(built, jobs, kind)
                self._builds[future] = numbers
                future.add_done_callback(self._events.put)
            else:  # its jobs need no image
                for number in numbers:
                    yield from self._added(number, None)

    def _built(self, future: Future[Image]) -> Iterator[Result]:
        numbers = self._builds.pop(future)
        try:
            image = future.result()
        except BoardprofError as error:
            for number in numbers:
                yield self._failed(self._entries[number], error)
            return
        if self.on_sources is not None:
            self.on_sources(image.firmware.sources)
        for number in numbers:
            yield from self._added(number, image)

    def _added(self, number: int, image: Image | None) -> Iterator[Result]:
        """Hand a job to the policy, unless its result is known."""
        entry = self._entries[number]
        job, entry.image = entry.job, image
        try:
            entry.key = f"{job}" if image is None else key_of(job, image)
        except BoardprofError as error:
            yield self._failed(entry, error)
            return
        known = None if self.folder is None else self.folder.known(entry.key, job)
        if known is not None:
            lost = _lost_report(known)
            if lost is not None and job.limits.once:  # it has run, and must not run again
                errors = (JobError.of(lost), *known.errors)
                known = replace(known, state=FAILED, errors=errors, report_file=None)
            if lost is None or job.limits.once:
                yield known
                return
        self._waiting[job.board] += 1
        self._policy.add_job(number, job.board, time.monotonic(), once=job.limits.once)

    # -- what happens ------------------------------------------------------------------------

    def _decided(self) -> Iterator[Result]:
        """Carry out what the policy decides; yield the results of jobs that it gives up."""
        for decision in self._policy.decisions(time.monotonic()):
            match decision:
                case Start(number, board):
                    self._start(number, board)
                case Check(board):
                    call, there = self._called(_Call(board, None, time.time())), self._boards[board]
                    self.provider.start(call, there, check, decision, timeout_s=_CHECK_S)
                case GiveUp(number, is_unknown, why):
                    entry = self._entries[number]
                    self._waiting[entry.job.board] -= 1
                    yield self._given_up(entry, why, is_unknown=is_unknown)

    def _start(self, number: int, board: str) -> None:
        entry = self._entries[number]
        job, image = entry.job, entry.image
        call = _Call(board, number, time.time())
        if job.limits.once and self.folder is not None:
            self.folder.add(Result(job, STARTED, entry.key, board, began_s=call.began_s))
        if image is not None:
            host = self._boards[board].host
            call.image = image.digest
            if host and (host, image.digest) not in self._sent:
                image = replace(image, content=image.firmware.image.read_bytes())
        work = Work(job, data_of(job.arguments), image) if image is not None else job
        there, limit_s = self._boards[board], job.limits.job_s
        self.provider.start(self._called(call), there, self.perform, work, timeout_s=limit_s)

    def _called(self, call: _Call) -> int:
        number = next(self._call_numbers)
        self._calls[number] = call
        return number

    def _next_events(self) -> Iterator[Event | Future[Image]]:
        """Wait for an event or the policy's next decision; yield all events that are there."""
        due_s = self._policy.next_s
        wait_s = _LONGEST_WAIT_S if due_s is None else max(0.0, due_s - time.monotonic())
        try:
            yield self._events.get(timeout=min(wait_s, _LONGEST_WAIT_S))
            while True:
                yield self._events.get_nowait()
        except queue.Empty:
            return

    def _handled(self, events: Iterator[Event | Future[Image]]) -> Iterator[Result]:
        for event in events:
            match event:
                case Joined(board):
                    self._join(board)
                case Left(board, why):
                    if self._boards.get(board.serial) == board:
                        self._left_why = why
                        serial = board.serial
                        del self._boards[serial]
                        lost = [call for call in self._calls.values() if call.board == serial]
                        if lost and lost[0].number is not None:  # later ones were sent ahead
                            left = JobLostError(
                                why, hint="`boardprof fleet status` shows the others"
                            )
                            self._note_attempt(lost[0], (JobError.of(left),))
                        self._calls = {n: c for n, c in self._calls.items() if c.board != serial}
                        self._policy.lose_board(serial, why, time.monotonic())
                case Ended(number, value, error):
                    if number in self._calls:
                        yield from self._attempted(self._calls.pop(number), value, error)
                case Future() as future:
                    if not future.cancelled():
                        yield from self._built(future)

    def _join(self, board: FleetBoard) -> None:
        if board.serial not in self._boards:
            self._boards[board.serial] = board
            self._policy.add_board(board.serial, (board.kind, board.serial))
            if (kept := board.quarantine) is not None:
                now_s = time.monotonic()
                until_s = now_s + kept.until_s - time.time()
                self._policy.quarantine(board.serial, kept.why, until_s, kept.count, now_s)

    def _attempted(self, call: _Call, value: Any, error: BaseException | None) -> Iterator[Result]:
        """Take the end of an attempt, or of a check."""
        board, number, now_s = call.board, call.number, time.monotonic()
        if number is None:
            self._policy.checked(board, value if error is None else str(error), now_s)
            return
        entry = self._entries[number]
        job = entry.job
        if isinstance(error, JobLostError):
            self._note_attempt(call, (JobError.of(error),))
            self._policy.ended(board, number, AttemptEnd.LOST, now_s, str(error))
            return
        answer = value if error is None else AttemptResult(errors=(JobError.of(error),))
        self._note_attempt(call, answer.errors)
        if any(each.kind == ImageMissingError.__name__ for each in answer.errors):
            self._sent.discard((self._boards[board].host, call.image))
        elif call.image:
            self._sent.add((self._boards[board].host, call.image))
        if answer.is_boards_fault:
            why = answer.errors[0].message
            outcome = (
                AttemptEnd.BOARD_FAILED_LATE if answer.may_have_run else AttemptEnd.BOARD_FAILED
            )
            if not answer.may_have_run:
                if any(each.kind == MissingToolError.__name__ for each in answer.errors):
                    outcome = AttemptEnd.BOARD_UNFIT
                if job.limits.once:  # a batch that ends now has not run it
                    self._over(entry, FAILED, is_final=False)
            self._policy.ended(board, number, outcome, now_s, why)
            return
        self._policy.ended(board, number, AttemptEnd.OVER, now_s)
        self._ended[board] += 1
        self._measured += 1
        spent_s = now_s - self._began_s
        self._policy.sends_ahead = spent_s * len(self._boards) < _SHORT_S * self._measured
        self._waiting[job.board] -= 1
        is_once, is_over_time = job.limits.once, isinstance(error, JobTimeoutError)
        state = FAILED if answer.errors else DONE
        yield self._over(
            entry,
            UNKNOWN if is_over_time and is_once else state,
            report_text=answer.report,
            medians=answer.medians,
            warnings=answer.warnings,
            value=answer.value,
            is_final=is_once or not is_over_time,
        )

    def _given_up(self, entry: _Entry, why: str, *, is_unknown: bool) -> Result:
        """Return the result of a job that no board has finished."""
        if is_unknown:
            told = "The board or its process failed when the job may have begun; nobody knows "
            told += f"whether it ran: {why.partition(_LINE)[0]}"
            first = JobError.of(JobLostError(told, hint=UNKNOWN_HINT))
            return self._over(entry, UNKNOWN, errors=(first, *entry.errors))
        known = {each.message.partition(_LINE)[0] for each in entry.errors}
        if why.partition(_LINE)[0] not in known:
            entry.errors = (JobError("BoardError", why, 3), *entry.errors)
        return self._over(entry, FAILED, is_final=False)

    def _note_attempt(self, call: _Call, errors: tuple[JobError, ...]) -> None:
        assert call.number is not None
        entry = self._entries[call.number]
        entry.board, entry.began_s, entry.ended_s = call.board, call.began_s, time.time()
        entry.errors = (*(replace(each, board=call.board) for each in errors), *entry.errors)

    # -- results -----------------------------------------------------------------------------

    def _over(self, entry: _Entry, state: str, **facts: Any) -> Result:
        """Save a result, with what is known of the job's last attempt, and return it."""
        if state != DONE:
            facts.setdefault("errors", entry.errors)
        facts |= {"began_s": entry.began_s, "ended_s": entry.ended_s or time.time()}
        result = Result(entry.job, state, entry.key, entry.board, **facts)
        return result if self.folder is None else self.folder.add(result)

    def _failed(self, entry: _Entry, error: BoardprofError) -> Result:
        return self._over(entry, FAILED, errors=(JobError.of(error),), is_final=False)

    def _tell(self) -> None:
        if self.on_progress is None:
            return
        works_on = {
            call.board: str(self._entries[call.number].job)
            for call in reversed(self._calls.values())
            if call.number is not None
        }
        boards = {}
        for serial in self._boards:
            state, why, until_s = self._policy.state(serial)
            if until_s is not None:
                why = f"{next_check(time.time() + until_s - time.monotonic())}: {why}"
            boards[serial] = (state.value, why or works_on.get(serial, ""), self._ended[serial])
        gone = f" ({self._left_why})" if self._left_why and not self._boards else ""
        waiting = tuple(
            f"{self._policy.waits_for(need)}{gone}"
            for need, count in self._waiting.items()
            if count > 0
        )
        left = sum(self._waiting.values())
        spent_s = time.monotonic() - self._began_s
        left_s = spent_s / self._measured * left if self._measured else None
        self.on_progress(Progress(len(self._entries), self._states, boards, waiting, left_s))
