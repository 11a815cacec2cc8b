# SPDX-License-Identifier: Apache-2.0
"""A runner for tuners: measure candidates on a board, each once, and never rank a wrong one."""

from __future__ import annotations

import hashlib
import math
import operator
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from boardprof import __version__
from boardprof.base.connection import Connection
from boardprof.base.errors import (
    BoardError,
    BoardprofError,
    BoardTimeoutError,
    DeviceEndedError,
    DeviceError,
    DeviceResetError,
    LinkError,
    UnknownNameError,
    UsageError,
    option,
)
from boardprof.jobs.run.expectation import outputs_of
from boardprof.jobs.tune.candidate import (
    SHORT_NAMES,
    Batch,
    Build,
    Candidate,
    ImageFactory,
    MeasureError,
    MeasureResult,
    as_candidates,
)
from boardprof.jobs.tune.measuring import (
    FORMAT,
    ArgumentValues,
    Measuring,
    Settings,
    error_number,
    measured_result,
    result_from_text,
    result_to_text,
)
from boardprof.measure.board.board import Board
from boardprof.measure.connect import connect_by, open_firmware
from boardprof.results.history.report_lookup import history_place, user_history
from boardprof.target.build.build_options import BuildOptions
from boardprof.target.build.builder import link_objects
from boardprof.target.build.firmware import BuiltFirmware, after_flash, check_flashable, flash
from boardprof.target.build.versions import VersionBuilder
from boardprof.target.descriptions.board import BoardSpec, board_spec
from boardprof.target.toolchain.cache import digest

OnResult = Callable[[int, MeasureResult], None]
"""Called with a candidate's number and its result, as soon as there is one."""

DEFAULT_WALL_S = 10.0
"""Longest wall time of a call: a candidate that hangs must not hold up the others for long."""

_LOSING = (BoardTimeoutError, LinkError, BoardError, DeviceResetError, DeviceEndedError)
"""Errors after which a board must be started again, besides those that end the session."""

_NOT_STARTED = (BoardTimeoutError, LinkError, BoardError, DeviceEndedError)
"""Errors of a board that does not start."""


class AnyRunner(Protocol):
    """What a search needs of a `Runner`, or of a `FleetRunner`."""

    constraints: dict[str, float]

    def measure(
        self, candidates: Sequence[Candidate | str | Path], *, on_result: OnResult | None = None
    ) -> list[MeasureResult]:
        """Measure candidates; see `Runner.measure`."""


class Runner:
    """Measures candidates of one function on one board.

    Candidates share images, which are built on all cores while the board measures. A candidate that
    fails is measured again in an image of its own, so that it is not blamed for the RAM that others
    take, or for what they have destroyed. A candidate whose code was measured before under the same
    conditions is not measured again: the results are kept in the history.

    A real board is flashed with each image, so its board.toml must say how.
    """

    def __init__(
        self,
        board: str | BoardSpec,
        arguments: ArgumentValues,
        metric: str = "cycles",
        *,
        function: str | None = None,
        sources: Sequence[str | Path] = (),
        constraints: Mapping[str, float] | None = None,
        metrics: Sequence[str] = (),
        expect: Mapping[str, Any] | npt.NDArray[Any] | None = None,
        tolerance: float = 0.0,
        number: int = 1,
        repeat: int | None = None,
        warmup: int | None = None,
        timeout_s: float | None = None,
        wall_timeout_s: float | None = DEFAULT_WALL_S,
        options: BuildOptions | None = None,
        port: str | None = None,
        baud: int | None = None,
        remember: bool = True,
        verbose: Callable[[str], None] | None = None,
    ) -> None:
        """Check the settings; nothing is built yet.

        Args:
            board: its name or description.
            arguments: of each call, by position or by name. Arrays are not changed.
            metric: the cost: a metric of the board, or ``flash``, ``ram``, ``stack``, ``time``.
            function: its name. None if each candidate has only one function.
            sources: files of candidates that have none of their own.
            constraints: metric -> its largest allowed value.
            metrics: further ones that results must have, such as ``stack``.
            expect: the expected outputs by parameter, ``return`` for the result; or the only one.
                None checks nothing.
            tolerance: largest relative difference of floats; with 0 every bit must be the same.
            number: calls in each sample, >= 1.
            repeat: samples of each candidate. None for one on an emulated board, five on others.
            warmup: calls before the first sample. None for none on an emulated board, one on
                others.
            timeout_s: longest time of a call, on the board's clock.
            wall_timeout_s: the same in wall time; None for the board's default.
            options: of the build, as for ``boardprof build``. None for ``-O2``.
            port: of a real board, which is flashed.
            baud: of a serial port.
            remember: use the history's results, and keep new ones there.
            verbose: gets each command before it runs.

        Raises:
            UnknownNameError: the board does not exist.
            UsageError: a setting is not valid, or the board cannot be flashed.
        """
        self.spec = board_spec(board) if isinstance(board, str) else board
        self.metric = metric_name(metric)
        self.constraints = {metric_name(k): _limit(k, v) for k, v in (constraints or {}).items()}
        self._function = function
        files = [sources] if isinstance(sources, str | Path) else sources
        self._sources = [Path(each) for each in files]
        if not tolerance >= 0:
            raise UsageError(f"tolerance={tolerance} is out of range: it must be at least 0.")
        self._settings = Settings(
            arguments,
            tuple(dict.fromkeys([self.metric, *self.constraints, *map(metric_name, metrics)])),
            operator.index(number),
            warmup,
            repeat,
            _expected(expect),
            tolerance,
        )
        self._options = options or BuildOptions()
        self._connection = Connection(
            port, baud, timeout_s=timeout_s, wall_timeout_s=wall_timeout_s
        )
        self._verbose = verbose
        if port is not None:
            check_flashable(self.spec, port)
        elif self.spec.launch.kind == "serial":
            raise UsageError(
                f"{self.spec.name} is a real board and needs a port, to be flashed through it.",
                hint=f"{option('--port')} PORT",
            )
        is_kept = remember and history_place() is not None
        self._history = user_history() if is_kept else None
        self._known: dict[str, MeasureResult] = {}
        self._starts = False  # whether the board is known to start

    def measure(
        self, candidates: Sequence[Candidate | str | Path], *, on_result: OnResult | None = None
    ) -> list[MeasureResult]:
        """Measure candidates.

        Args:
            candidates: any number. A text is C source, a Path is a file or an image.
            on_result: called with each candidate's number and result as soon as it is there.

        Returns:
            A result for each, in the same order. What is wrong with a candidate is in its result.

        Raises:
            UsageError: the board does not count the metric.
            MissingToolError: the board's tools are not installed.
            BoardError, BoardTimeoutError: the board does not start, whatever it runs.
            HistoryError: the history cannot be read or written.
        """
        todo = as_candidates(candidates)
        results: dict[int, MeasureResult] = {}
        aliases: list[Build] = []

        def take(build: Build, result: MeasureResult) -> None:
            results[build.index] = result
            if on_result is not None:
                on_result(build.index, result)

        builder = VersionBuilder(self.spec, self._function, self._options, self._verbose)
        conditions = digest(self._conditions(builder))
        factory = ImageFactory(
            builder,
            todo,
            self._options,
            self._sources,
            lambda code: digest(conditions, code),
            self._recall,
        )
        with factory:
            for batch in factory.batches():
                aliases += batch.repeated
                fresh = {}
                try:
                    for build, result in self._measured(batch, factory):
                        take(build, result)
                        if build.key:
                            self._known[build.key] = result
                        if result.error is None or isinstance(result.error, DeviceError):
                            fresh[build.key] = result
                finally:  # also after Ctrl-C
                    self._keep(fresh)
        for build in aliases:
            known = replace(self._known[build.key], is_known=True, all_cost=build.build_s)
            take(build, replace(known, build_s=build.build_s, run_s=0.0))
        return [results[index] for index in range(len(todo))]

    # -- what is known ------------------------------------------------------------------------

    def _conditions(self, builder: VersionBuilder) -> list[object]:
        """Return what the results of all candidates depend on."""
        settings = self._settings
        return [
            [__version__, FORMAT],
            builder.environment,
            repr(self.spec),
            [settings.number, settings.warmup, settings.repeat, settings.tolerance],
            [self.metric, sorted(self.constraints.items()), settings.metrics],
            _content(settings.arguments),
            _content(settings.expected),
        ]

    def _recall(self, keys: Sequence[str]) -> set[str]:
        """Return the keys whose results are known, here or in the history."""
        new = [key for key in keys if key not in self._known]
        if self._history is not None and new:
            for key, text in self._history.results(new).items():
                result = result_from_text(text)
                if self._is_valid(result):
                    self._known[key] = result
        return {key for key in keys if key in self._known}

    def _is_valid(self, result: MeasureResult) -> bool:
        """Tell whether a kept result still holds: more time may let a candidate end."""
        if result.error_no is not MeasureError.RUN_TIMEOUT:
            return True
        limit_s = getattr(result.error, "limit_s", None)
        allowed = (self._connection.timeout_s, self._connection.wall_timeout_s)
        return limit_s is not None and limit_s in allowed

    def _keep(self, results: Mapping[str, MeasureResult]) -> None:
        if self._history is not None:
            texts = {key: result_to_text(each) for key, each in results.items()}
            self._history.keep_results(texts)

    # -- on the board -------------------------------------------------------------------------

    def _measured(
        self, batch: Batch, factory: ImageFactory
    ) -> Iterator[tuple[Build, MeasureResult]]:
        """Measure the candidates of an image."""
        # A failure in an image of several candidates does not count. The candidate is measured
        # again in an image of its own: the others may have taken its RAM, or written to it.
        for build in batch.failed:
            assert build.error is not None
            yield build, _failure(build, build.error)
        left, suspects = list(batch.builds), list[Build]()
        while batch.image is not None and left:
            board = None
            try:
                board = self._open(batch.image)
                measuring = Measuring(board, self._settings)
            except UsageError as error:
                if board is not None or batch.builds[0].version is not None:
                    raise  # the settings do not fit the board
                yield batch.builds[0], _failure(batch.builds[0], error)
                return
            except _NOT_STARTED as error:
                self._check_starts(error)
                if not batch.is_shared:
                    yield batch.builds[0], _failure(batch.builds[0], error)
                    return
                for half in factory.halves(left):
                    yield from self._measured(half, factory)
                break
            with measuring:
                while left:
                    build = left.pop(0)
                    began_s = time.monotonic()
                    try:
                        result = self._measure(measuring, build)
                    except BoardprofError as error:
                        run_s = time.monotonic() - began_s
                        if not batch.is_shared or isinstance(error, UsageError):
                            yield build, _failure(build, _named(error, build), run_s)
                        else:
                            suspects.append(build)
                        is_over = isinstance(error, _LOSING) or measuring.board.session.is_closed
                        if is_over or not self._renewed(measuring):
                            break
                    else:
                        yield build, result
        for build in suspects:
            for own in factory.halves([build]):
                yield from self._measured(own, factory)

    def _measure(self, measuring: Measuring, build: Build) -> MeasureResult:
        began_s = time.monotonic()
        offered = list(measuring.board.functions)
        name = self._function if build.version is None else None
        if name is not None and name not in offered:
            raise UnknownNameError("function", name, offered)
        name = name or build.name(offered)
        measurement = measuring.measure(name, build.function or name)
        return measured_result(
            measurement,
            self._settings.metrics,
            sizes=build.sizes,
            limits=self.constraints,
            build_s=build.build_s,
            run_s=time.monotonic() - began_s,
            key=build.key,
            outputs=outputs_of(measurement),
        )

    def _check_starts(self, error: BoardprofError) -> None:
        """Raise the error of a start unless the board starts without any candidate."""
        if not self._starts:
            try:
                self._open(link_objects(self.spec, (), (), self._options)).close()
            except BoardprofError:
                raise error from None
            self._starts = True

    def _open(self, image: BuiltFirmware | Path) -> Board:
        path = image.image if isinstance(image, BuiltFirmware) else image
        if self._connection.port is not None:
            flash(self.spec, path, self._connection.port, on_command=self._verbose)
        with after_flash():
            if isinstance(image, BuiltFirmware):
                return open_firmware(image, self._connection)
            return connect_by(self._connection, self.spec, path)

    @staticmethod
    def _renewed(measuring: Measuring) -> bool:
        """Send the arrays again after a failure; False if the board does not take them."""
        try:
            measuring.renew()
        except BoardprofError:
            return False
        return True


def _failure(build: Build, error: BoardprofError, run_s: float = 0.0) -> MeasureResult:
    return MeasureResult(
        (),
        error_number(error),
        build.build_s + run_s,
        time.time(),
        build.sizes or {},
        error,
        build.build_s,
        run_s,
        build.key,
    )


def _named(error: BoardprofError, build: Build) -> BoardprofError:
    """Return an error with the function's own name instead of that in the image."""
    if build.version is not None:
        own, name = build.version.function.name, build.version.name
        error.message = error.message.replace(name, own)
        error.hint = error.hint and error.hint.replace(name, own)
    return error


def _limit(name: str, value: float) -> float:
    try:
        limit = float(value)
    except (TypeError, ValueError):
        limit = math.nan
    if not 0 <= limit < math.inf:
        raise UsageError(
            f"The constraint {name}={value!r} is not a number from 0 on.",
            hint='constraints={"Stack (bytes)": 2048}',
        )
    return limit


def metric_name(name: str) -> str:
    """Return a metric's own name for a short one."""
    return SHORT_NAMES.get(name, name)


def _expected(
    expect: Mapping[str, Any] | npt.NDArray[Any] | None,
) -> dict[str | None, npt.NDArray[Any]]:
    """Return the expected outputs by parameter; None is the only one."""
    if expect is None:
        return {}
    if isinstance(expect, Mapping):
        return {name: np.asarray(value) for name, value in expect.items()}
    return {None: np.asarray(expect)}


def _content(value: object) -> object:
    """Return plain data that is the same for the same arguments."""
    if isinstance(value, np.ndarray):
        content = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
        return [str(value.dtype), list(value.shape), content]
    if isinstance(value, Mapping):
        return [[str(name), _content(each)] for name, each in sorted(value.items(), key=str)]
    if isinstance(value, list | tuple):
        return [_content(each) for each in value]
    if isinstance(value, bytes | bytearray | memoryview):
        return hashlib.sha256(value).hexdigest()
    if hasattr(value, "__dict__"):
        return [type(value).__name__, _content(vars(value))]
    return repr(value)
