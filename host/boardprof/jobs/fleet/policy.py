# SPDX-License-Identifier: Apache-2.0
"""Which job goes to which board, what is tried again, and which board is taken out of service.

The policy decides and does nothing itself: it has no clock and no input or output. It gets
events, with the time in seconds, and `Policy.decisions` returns what to do. So the same policy
runs batches on real boards and simulations in virtual time. Each event takes constant time, except
that a list of boards is walked if a job must not go back to the board where it failed.
"""

from __future__ import annotations

import heapq
import itertools
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum


class AttemptEnd(Enum):
    """How an attempt at a job ended."""

    OVER = "over"
    """The job has its result, good or bad, and the board did its part."""

    BOARD_UNFIT = "board unfit"
    """The board's host cannot start it, because a program is missing. The job did not run."""

    BOARD_FAILED = "board failed"
    """The board could not be reached. The job did not run."""

    BOARD_FAILED_LATE = "board failed late"
    """The board failed when the job may have begun."""

    LOST = "lost"
    """The process that carried out the job died, and nobody knows how far it had come."""


class State(Enum):
    """What a board does."""

    IDLE = "idle"
    BUSY = "busy"
    PROVING = "being checked"
    QUARANTINED = "quarantined"


@dataclass(frozen=True)
class Rules:
    """The limits of a policy.

    Attributes:
        retries: how often a job is tried again after a board failed or a process died.
        suspect_after: failures of a board, without a success in between, until it is checked.
        quarantine_s: how long a board that fails its check is out of service. Doubles each time.
        longest_quarantine_s: limit of that. For later batches, it is an hour at most.
        wait_s: how long jobs wait while no board that could serve them is in service.
        check_now: boards that an earlier batch put in quarantine are checked at once.
    """

    retries: int = 2
    suspect_after: int = 2
    quarantine_s: float = 60.0
    longest_quarantine_s: float = 3600.0
    wait_s: float = 600.0
    check_now: bool = False


@dataclass(frozen=True, slots=True)
class Start:
    """Start a job on a board."""

    job: int
    board: str


@dataclass(frozen=True, slots=True)
class Check:
    """Check a board with known work, and report the result to `Policy.checked`."""

    board: str
    pause_s: float  # of its quarantine, if it fails
    count: int  # checks that it will have failed in a row then

    def __str__(self) -> str:
        """Return the check as a line for people."""
        return "its check"


@dataclass(frozen=True, slots=True)
class GiveUp:
    """End a job without a result."""

    job: int
    is_unknown: bool  # it may have run, and must not be repeated
    why: str


Decision = Start | Check | GiveUp


@dataclass(slots=True)
class _Job:
    number: int
    need: str
    once: bool
    attempts: int = 0
    failed_on: str | None = None
    unfit: set[str] = field(default_factory=set)


@dataclass(slots=True)
class _Board:
    name: str
    labels: tuple[str, ...]
    state: State = State.IDLE
    jobs: dict[int, _Job] = field(default_factory=dict)
    failures: int = 0
    quarantines: int = 0
    why: str = ""
    until_s: float = 0.0


class _Label:
    """The jobs and boards of one label: a kind of board, or the serial number of one."""

    def __init__(self) -> None:
        self.fresh: deque[_Job] = deque()
        self.again: deque[_Job] = deque()
        self.boards: dict[str, None] = {}
        self.idle: dict[str, None] = {}
        self.spare: dict[str, None] = {}  # boards with one job, which may get the next one
        self.in_service = 0
        self.unserved_since_s: float | None = None

    def take(self, board: str, *, is_ahead: bool) -> _Job | None:
        """Remove and return the next job for a board: repeated ones first. None if absent."""
        # A job that must not be repeated is not sent ahead: it would be unknown whether it began.
        for number, job in enumerate(self.again):
            if job.failed_on != board or self.in_service < 2:
                del self.again[number]
                return job
        if not self.fresh or (is_ahead and self.fresh[0].once):
            return None
        return self.fresh.popleft()

    def first(self) -> int | None:
        """Return the lowest number of the next jobs. None if nothing waits."""
        heads = [queue[0].number for queue in (self.again, self.fresh) if queue]
        return min(heads, default=None)


class Policy:
    """Decides about the jobs of one batch."""

    # ``sends_ahead``: a busy board gets its next job while it works, so that it need not wait for
    # the news of its end to travel. That pays off for short jobs only.

    def __init__(self, rules: Rules | None = None) -> None:
        """Begin without boards and jobs."""
        self.sends_ahead = False
        self._rules = rules or Rules()
        self._boards: dict[str, _Board] = {}
        self._labels: defaultdict[str, _Label] = defaultdict(_Label)
        self._touched: dict[str, None] = {}
        self._decided: deque[Decision] = deque()
        self._due: list[tuple[float, int, str, bool]] = []  # the last: a label, not a board
        self._order = itertools.count()

    # -- events ------------------------------------------------------------------------------

    def add_board(self, name: str, labels: Iterable[str]) -> None:
        """Put a board into service; jobs need one of its labels, its kind or serial number."""
        assert name not in self._boards, name
        board = self._boards[name] = _Board(name, tuple(dict.fromkeys(labels)))
        for label in self._labels_of(board):
            label.boards[name] = None
        self._serve(board, +1, 0.0)
        self._place(board)

    def quarantine(self, name: str, why: str, until_s: float, count: int, now_s: float) -> None:
        """Take a board out of service that has failed ``count`` checks in an earlier batch."""
        board = self._boards[name]
        board.quarantines = count
        self._leave(board, State.QUARANTINED, now_s)
        self._await_check(board, why, now_s if self._rules.check_now else until_s)

    def lose_board(self, name: str, why: str, now_s: float) -> None:
        """Forget a board: its host does not answer any more. Its job is lost."""
        board = self._boards[name]
        if board.state in (State.IDLE, State.BUSY):
            self._leave(board, State.QUARANTINED, now_s)
        for label in self._labels_of(board):
            del label.boards[name]
        del self._boards[name]
        for place, job in enumerate(board.jobs.values()):
            if place:  # it was sent ahead and has not begun
                job.attempts -= 1
            self._again(job, board, why, is_unknown=job.once)

    def add_job(self, number: int, need: str, now_s: float, *, once: bool = False) -> None:
        """Accept a job for a board with the label ``need``; lower numbers go first."""
        if lack := self.lack(need):
            self._decided.append(GiveUp(number, False, lack))
            return
        label = self._labels[need]
        label.fresh.append(_Job(number, need, once))
        self._touched[need] = None
        if not label.in_service:
            self._await(need, now_s)

    def ended(
        self, name: str, number: int, outcome: AttemptEnd, now_s: float, why: str = ""
    ) -> None:
        """Take note that an attempt at a job has ended."""
        board = self._boards[name]
        job = board.jobs.pop(number)
        if outcome is AttemptEnd.OVER:
            board.failures = board.quarantines = 0
        elif outcome is AttemptEnd.LOST:
            self._again(job, board, why, is_unknown=job.once)
        else:
            is_unfit = outcome is AttemptEnd.BOARD_UNFIT
            board.failures += self._rules.suspect_after if is_unfit else 1
            board.why = why
            if is_unfit and name not in job.unfit:  # costs the job no attempt, once for each board
                job.unfit.add(name)
                job.attempts -= 1
            is_late = outcome is AttemptEnd.BOARD_FAILED_LATE
            self._again(job, board, why, is_unknown=is_late and job.once)
        if board.state not in (State.IDLE, State.BUSY):
            return  # the job was sent ahead before the board became suspect
        if board.failures >= self._rules.suspect_after:
            self._leave(board, State.PROVING, now_s)
            self._check(board)
        else:
            self._place(board)

    def checked(self, name: str, fault: str | None, now_s: float) -> None:
        """Take note of the result of a check; None if the board is in order."""
        board = self._boards[name]
        assert board.state is State.PROVING, name
        if fault is None:
            board.failures = 0
            self._serve(board, +1, now_s)
            self._place(board)
            return
        pause_s = self._pause_s(board)
        board.quarantines += 1
        self._await_check(board, fault, now_s + pause_s)

    # -- answers -----------------------------------------------------------------------------

    def decisions(self, now_s: float) -> Iterator[Decision]:
        """Yield what is to be done now. A job that is started counts as running at once."""
        while self._due and self._due[0][0] <= now_s:
            at_s, _, name, is_label = heapq.heappop(self._due)
            if is_label:
                self._end_waiting(name, at_s)
            elif (board := self._boards.get(name)) and board.state is State.QUARANTINED:
                board.state = State.PROVING
                self._check(board)
        while self._touched:
            need = next(iter(self._touched))
            del self._touched[need]
            self._match(self._labels[need])
        while self._decided:
            yield self._decided.popleft()

    @property
    def next_s(self) -> float | None:
        """When there will be a decision although nothing happens. None if never."""
        return self._due[0][0] if self._due else None

    def lack(self, need: str) -> str:
        """Return why no board can serve a job: the list of what there is. "" if one can."""
        label = self._labels.get(need)
        if label is not None and label.boards:
            return ""
        there = Counter(board.labels[0] for board in self._boards.values())
        listed = ", ".join(f"{count} {kind}" for kind, count in sorted(there.items())) or "none"
        return f"No board can serve a job for {need}. Boards: {listed}."

    def waits_for(self, need: str) -> str:
        """Return what jobs with this need wait for: ``qemu-rv32: 2 busy, 1 quarantined (...)``."""
        boards = [self._boards[name] for name in self._labels[need].boards]
        counts = Counter(board.state.value for board in boards)
        parts = [f"{count} {state}" for state, count in counts.items()] or ["no board"]
        parts += [f"{b.name}: {b.why}" for b in boards if b.state is State.QUARANTINED]
        return f"{need}: {', '.join(parts)}"

    def state(self, name: str) -> tuple[State, str, float | None]:
        """Return what a board does, why it is out of service, and when its quarantine ends."""
        board = self._boards[name]
        is_out = board.state in (State.PROVING, State.QUARANTINED)
        until_s = board.until_s if board.state is State.QUARANTINED else None
        return board.state, board.why if is_out else "", until_s

    # -- inside ------------------------------------------------------------------------------

    def _labels_of(self, board: _Board) -> list[_Label]:
        return [self._labels[name] for name in board.labels]

    def _check(self, board: _Board) -> None:
        self._decided.append(Check(board.name, self._pause_s(board), board.quarantines + 1))

    def _pause_s(self, board: _Board) -> float:
        """Return how long a board is in quarantine if it fails its next check."""
        pause_s = self._rules.quarantine_s * 2.0 ** min(board.quarantines, 30)
        return min(pause_s, self._rules.longest_quarantine_s)

    def _await_check(self, board: _Board, why: str, until_s: float) -> None:
        board.state, board.why, board.until_s = State.QUARANTINED, why, until_s
        heapq.heappush(self._due, (until_s, next(self._order), board.name, False))

    def _serve(self, board: _Board, change: int, now_s: float) -> None:
        """Count a board as in service or not; repeated jobs may have to go elsewhere then."""
        for name in board.labels:
            label = self._labels[name]
            label.in_service += change
            if label.in_service:
                label.unserved_since_s = None
            elif change < 0:
                label.unserved_since_s = now_s
                if label.first() is not None:
                    self._await(name, now_s)
            if label.again:
                self._touched[name] = None

    def _await(self, need: str, now_s: float) -> None:
        label = self._labels[need]
        if label.unserved_since_s is None:
            label.unserved_since_s = now_s
        heapq.heappush(self._due, (now_s + self._rules.wait_s, next(self._order), need, True))

    def _end_waiting(self, need: str, at_s: float) -> None:
        label = self._labels[need]
        since_s = label.unserved_since_s
        if since_s is None or since_s > at_s - self._rules.wait_s:
            return
        why = f"No board has been in service for {self._rules.wait_s:g} s. {self.waits_for(need)}"
        for queue in (label.again, label.fresh):
            self._decided.extend(GiveUp(job.number, False, why) for job in queue)
            queue.clear()

    def _place(self, board: _Board) -> None:
        """Let a board in service have as many jobs as it may."""
        board.state = State.BUSY if board.jobs else State.IDLE
        count = len(board.jobs)
        for name in board.labels:
            label = self._labels[name]
            label.idle.pop(board.name, None)
            label.spare.pop(board.name, None)
            if count < 2:
                (label.spare if count else label.idle)[board.name] = None
                if label.again or label.fresh:
                    self._touched[name] = None

    def _leave(self, board: _Board, state: State, now_s: float) -> None:
        board.state = state
        for name in board.labels:
            self._labels[name].idle.pop(board.name, None)
            self._labels[name].spare.pop(board.name, None)
        self._serve(board, -1, now_s)

    def _again(self, job: _Job, board: _Board, why: str, *, is_unknown: bool) -> None:
        job.attempts += 1
        if is_unknown or job.attempts > self._rules.retries:
            self._decided.append(GiveUp(job.number, is_unknown, why))
            return
        job.failed_on = board.name
        self._labels[job.need].again.append(job)
        self._touched[job.need] = None
        label = self._labels[job.need]
        if not label.in_service:
            self._await(job.need, label.unserved_since_s or 0.0)

    def _match(self, label: _Label) -> None:
        """Start waiting jobs of a label on its idle boards, and send jobs ahead to busy ones."""
        while label.first() is not None:
            if self._give(label.idle, is_ahead=False):
                continue
            if not (self.sends_ahead and self._give(label.spare, is_ahead=True)):
                return

    def _give(self, boards: Mapping[str, None], *, is_ahead: bool) -> bool:
        """Give a job to the first of the boards that can take one."""
        for name in boards:
            board = self._boards[name]
            job = self._job_for(board, is_ahead=is_ahead)
            if job is not None:
                board.jobs[job.number] = job
                self._place(board)
                self._decided.append(Start(job.number, name))
                return True
        return False

    def _job_for(self, board: _Board, *, is_ahead: bool) -> _Job | None:
        """Return the next job for a board: the one that came first."""
        waiting = [(label.first(), label) for label in self._labels_of(board)]
        order = sorted((at, place) for place, (at, _) in enumerate(waiting) if at is not None)
        for _, place in order:
            job = waiting[place][1].take(board.name, is_ahead=is_ahead)
            if job is not None:
                return job
        return None
