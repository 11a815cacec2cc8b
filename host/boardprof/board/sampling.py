# SPDX-License-Identifier: Apache-2.0
"""A measurement's samples: the board sends as many at a time as its buffer holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgpack

from boardprof.board.selection import Selection
from boardprof.decode.dictionary import FunctionInfo
from boardprof.decode.samples import Sample, decode_samples
from boardprof.errors import DeviceTimeoutError, FrameError
from boardprof.link.session import Session
from boardprof_protocol.codes import BuiltIn, MeasureFlag
from boardprof_protocol.layout import Layout

__all__ = ["Progress", "Sampling"]

Progress = Callable[[int, int], None]
"""Called with (rounds done, rounds in all) while a measurement runs."""


class Sampling:
    """Calls of ``bp.measure`` for one function, until all samples are there.

    Attributes:
        returns: whether the agent has returned a result, as `MeasureFlag.RESULT` asks it to; None:
            it was not asked yet.
        result: what it was.
        rounds: of warm-up and samples, in all passes, for who is told of the progress.
        elapsed_s: wall time of the last request, which is one call after `first`.
    """

    def __init__(
        self,
        session: Session,
        function: FunctionInfo,
        packed: tuple[bytes, int],
        selection: Selection,
        number: int,
        layouts: Mapping[int, Layout],
        *,
        real_time: bool,
        rounds: int,
        done: int = 0,
        on_progress: Progress | None,
        prepare: Callable[[], None] | None = None,
    ) -> None:
        """Prepare; nothing is called yet.

        Args:
            session: with the board.
            function: what is measured.
            packed: its arguments for the wire, and how many.
            selection: the collectors that run.
            number: calls in each sample.
            layouts: of the collectors' blobs.
            real_time: whether the board's clock runs by the host's: no sample is longer than its
                call then.
            rounds: in all, of warm-up and samples, for ``on_progress``.
            done: of those, in earlier passes.
            on_progress: see `Progress`.
            prepare: called before each round, of the empty function as well; each is a call of
                ``bp.measure`` of its own then, so that all begin behind the same work of the link.
        """
        self._done, self.rounds = done, rounds
        self.elapsed_s = 0.0
        self._session = session
        self._function = function
        self._packed = packed
        self._selection = selection
        self._number = number
        self._layouts = layouts
        self._real_time = real_time
        self._on_progress = on_progress
        self._prepare = prepare
        self.returns: bool | None = None
        self.result: object = None

    def samples(
        self, flags: MeasureFlag, warmup: int, repeat: int
    ) -> tuple[tuple[Sample, ...], tuple[Sample, ...]]:
        """Return the samples and the totals, one total for each reply of the board.

        A board sends as many samples as its buffer holds; the rest takes more calls, each with one
        warm-up call, since the link's work in between has cooled the caches.
        """
        if self._prepare is not None:
            return self._one_by_one(self._prepare, flags, warmup, repeat)
        samples: list[Sample] = []
        totals: list[Sample] = []
        while len(samples) < repeat:
            taken, total = self._batch(flags, warmup, repeat - len(samples), self._number)
            samples += taken
            totals.append(total)
            self._done += len(taken) + (warmup if len(samples) == len(taken) else 0)
            warmup = min(warmup, 1)
            self._show(0, 0)
        return tuple(samples), tuple(totals)

    def first(self, flags: MeasureFlag) -> Sample:
        """Return a window around one call, without any before it."""
        if self._prepare is not None:
            self._prepare()
        (sample,), _ = self._batch(flags, 0, 1, 1)
        self._done += 1
        return sample

    def empty(
        self, repeat: int, number: int = 1, flags: MeasureFlag = MeasureFlag.EMPTY
    ) -> tuple[Sample, ...]:
        """Return windows around calls of the empty function, behind one call to warm up."""
        found: list[Sample] = []
        while len(found) < repeat:
            taken, _ = self._batch(MeasureFlag.EMPTY | flags, 1, repeat - len(found), number)
            found += taken
        return tuple(found)

    def _one_by_one(
        self, prepare: Callable[[], None], flags: MeasureFlag, warmup: int, repeat: int
    ) -> tuple[tuple[Sample, ...], tuple[Sample, ...]]:
        rounds: list[tuple[Sample, Sample]] = []
        for index in range(warmup + repeat):
            prepare()
            is_sample = index >= warmup
            (sample,), total = self._batch(flags, 0, 1, self._number if is_sample else 1)
            if is_sample:
                rounds.append((sample, total))
            self._done += 1
            self._show(0, 0)
        samples, totals = zip(*rounds, strict=True)
        return samples, totals

    def _show(self, done: int, _: int) -> None:
        """Pass a batch's progress on as that of the whole, which knows no batches."""
        if self._on_progress is not None:
            self._on_progress(min(self._done + done, self.rounds), self.rounds)

    def _batch(
        self, flags: MeasureFlag, warmup: int, repeat: int, number: int
    ) -> tuple[list[Sample], Sample]:
        arguments, count = self._packed
        head = (self._function.id, int(flags), warmup, repeat, number, self._selection.mask)
        try:
            result = self._session.call(
                BuiltIn.MEASURE,
                b"".join(msgpack.packb(value) for value in head) + arguments,
                len(head) + count,
                name=self._function.name,
                on_progress=self._show,
            )
        except DeviceTimeoutError as error:
            if number > 1:
                option = "--wall-timeout" if self._session.is_closed else "--timeout"
                error.hint = (
                    f"the {number:,} calls of a sample have one limit: give {option} more "
                    "seconds, or --number fewer calls"
                )
            raise
        self.elapsed_s = result.elapsed_s
        value = result.value
        if not (isinstance(value, list) and len(value) in (2, 3) and isinstance(value[1], bytes)):
            raise FrameError(f"bp.measure returned {value!r}, not [samples, blobs].")
        self.returns = len(value) == 3
        self.result = value[2] if self.returns else None
        *samples, total = (
            self._selection.keep(sample)
            for sample in decode_samples(
                value[1],
                self._selection.collectors,
                self._layouts,
                longest_s=result.elapsed_s if self._real_time else None,
            )
        )
        if len(samples) != value[0] or not samples:
            raise FrameError(f"bp.measure announced {value[0]} samples and sent {len(samples)}.")
        if not flags & MeasureFlag.EMPTY:
            self._session.calls += warmup + number * len(samples)
        return samples, total
