# SPDX-License-Identifier: Apache-2.0
"""The settings of a profile: activities, the schedule of steps, and what is recorded."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeVar

from boardprof.base.errors import UnknownNameError, UsageError
from boardprof.measure.board.board import check_boards
from boardprof.measure.sampling.available_metrics import metric_names

_SETTINGS = ("metrics", "device_ranges")
_OTHERS = ""

_T = TypeVar("_T")


class ProfilerActivity(Enum):
    """What a profile records."""

    CPU = "cpu"
    """The host: its calls of boards, ranges and marks."""

    BOARD = "board"
    """Boards: counters, and the times of calls by the board's own clock."""


class ProfilerAction(Enum):
    """What a profile does in one step."""

    NONE = 0
    """Nothing."""

    WARMUP = 1
    """Do the same as `RECORD`, but discard the events."""

    RECORD = 2
    """Record."""

    RECORD_AND_SAVE = 3
    """Record, and deliver the trace after the step."""


Schedule = Callable[[int], ProfilerAction]
"""Function from a step's number, >= 0, to its action."""


def schedule(
    *,
    wait: int,
    warmup: int,
    active: int,
    repeat: int = 0,
    skip_first: int = 0,
    skip_first_wait: int = 0,
) -> Schedule:
    """Return a schedule of cycles: wait, warm up, record; and again.

    Args:
        wait: idle steps at the start of a cycle, >= 0.
        warmup: steps after these, whose events are discarded, >= 0.
        active: steps after these, which are recorded, >= 1.
        repeat: number of cycles; 0 for no end.
        skip_first: steps before the first cycle, >= 0.
        skip_first_wait: if not 0, the first cycle does not wait.

    Raises:
        UsageError: a number is out of range.
    """
    for name, value, least in (
        ("wait", wait, 0),
        ("warmup", warmup, 0),
        ("active", active, 1),
        ("repeat", repeat, 0),
        ("skip_first", skip_first, 0),
    ):
        _check(name, value, least)
    if not isinstance(skip_first_wait, bool):
        _check("skip_first_wait", skip_first_wait, 0)
    if warmup == 0:
        warnings.warn(
            "warmup=0: the first recorded step also pays for starting the profile, which can skew "
            "its times.",
            stacklevel=2,
        )
    cycle = wait + warmup + active

    def action(step: int) -> ProfilerAction:
        _check("step", step, 0)
        if step < skip_first:
            return ProfilerAction.NONE
        step = step - skip_first + (wait if skip_first_wait else 0)
        done, place = divmod(step, cycle)
        if (repeat and done >= repeat) or place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        is_last = place == cycle - 1
        return ProfilerAction.RECORD_AND_SAVE if is_last else ProfilerAction.RECORD

    return action


def always(step: int) -> ProfilerAction:
    """Record each step: the schedule of a profile without one."""
    return ProfilerAction.RECORD


def _check(name: str, value: object, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise UsageError(f"{name}={value!r:.60} is not a whole number of {least} or more.")


# -- other settings ----------------------------------------------------------------------------


class NotSupportedByAgentError(UsageError):
    """The board's agent does not support a feature; ``what`` names it."""

    def __init__(self, what: str, why: str, *, hint: str | None = None) -> None:
        """Compose the message."""
        super().__init__(f"{what} is not supported by this agent: {why}.", hint=hint)
        self.what = what


@dataclass(frozen=True)
class Settings:
    """The settings of a profile; see `profile`."""

    activities: frozenset[ProfilerActivity]
    record_shapes: bool = False
    profile_memory: bool = False
    with_stack: bool = False
    with_flops: bool = False
    with_modules: bool = False
    # of each call, by the name of the board; "" is for all other boards
    metrics: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    mask_interrupts: bool = False
    device_ranges: Mapping[str, bool] = field(default_factory=dict)  # likewise

    def __post_init__(self) -> None:
        """Check that they do not contradict each other."""
        records_boards = self.profile_memory or any(self.device_ranges.values())
        if records_boards and ProfilerActivity.BOARD not in self.activities:
            raise UsageError(
                "profile_memory and device_ranges record boards, but ProfilerActivity.BOARD is not "
                "among the activities."
            )
        if self.mask_interrupts and not self.metrics:
            raise UsageError(
                "mask_interrupts masks interrupts while a call is counted, but no metric is named.",
                hint='metrics=["instructions"], or leave mask_interrupts out',
            )

    def metrics_of(self, board: str) -> tuple[str, ...]:
        """Return the counters of each call of a board; () for none."""
        return self.metrics.get(board, self.metrics.get(_OTHERS, ()))

    def device_ranges_of(self, board: str) -> bool:
        """Return whether the ranges on a board become events."""
        return self.device_ranges.get(board, self.device_ranges.get(_OTHERS, False))

    def records_probes_of(self, board: str) -> bool:
        """Return whether the probes of a board are recorded during each call."""
        return self.profile_memory or self.device_ranges_of(board)

    @property
    def named_boards(self) -> tuple[str, ...]:
        """The boards for which something is asked for by their names."""
        ranged = [board for board, wanted in self.device_ranges.items() if wanted]
        return tuple(name for name in dict.fromkeys([*self.metrics, *ranged]) if name != _OTHERS)

    @property
    def keeps_arguments(self) -> bool:
        """Whether shapes of arrays and values of scalars are recorded."""
        return self.record_shapes or self.with_flops

    @property
    def flags(self) -> dict[str, str]:
        """The enabled flags, as written to the trace."""
        names = ("record_shapes", "profile_memory", "with_stack", "with_flops", "with_modules")
        return {name: "1" for name in names if getattr(self, name)}


def chosen_activities(given: Iterable[ProfilerActivity] | None) -> frozenset[ProfilerActivity]:
    """Return the activities to record, None for all."""
    if given is None:
        return frozenset(ProfilerActivity)
    listed = list(given) if isinstance(given, Iterable) else [given]
    strange = [each for each in listed if not isinstance(each, ProfilerActivity)]
    if strange or not listed:
        raise UsageError(
            f"{strange[0]!r:.60} is not an activity."
            if strange
            else "There is no activity to record.",
            hint="activities=[ProfilerActivity.CPU, ProfilerActivity.BOARD], or None for all",
        )
    return frozenset(listed)


def chosen_metrics(
    config: Mapping[str, object] | None,
    metrics: str | Iterable[str] | Mapping[str, Iterable[str]] | None,
    activities: Collection[ProfilerActivity],
) -> dict[str, tuple[str, ...]]:
    """Return the counters of each call, by the name of the board; "" is for all other boards."""
    if config is not None and not isinstance(config, Mapping):
        raise UsageError(f"experimental_config={config!r:.60} is not a dict.")
    for name in config or {}:
        if name not in _SETTINGS:
            raise UnknownNameError("setting of experimental_config", name, _SETTINGS)
    configured = (config or {}).get("metrics")
    if configured is not None and metrics is not None:
        raise UsageError("metrics is given twice: as an argument and in experimental_config.")
    given = metrics if configured is None else configured
    by_board = _by_board("metrics", given)
    names = {board: metric_names(each) for board, each in by_board.items() if each is not None}
    if names and not any(names.values()):
        raise UsageError("No metric is named.", hint='metrics=["instructions"], or None')
    found = {board: tuple(each or ()) for board, each in names.items()}
    if found and ProfilerActivity.BOARD not in activities:
        raise UsageError(
            f"metrics={metrics or found} are counted on boards, but ProfilerActivity.BOARD is not "
            "among the activities."
        )
    return found


def chosen_ranges(config: Mapping[str, object] | None) -> dict[str, bool]:
    """Return whether ranges on boards become events, by the name of the board; "" is for others."""
    given = (config or {}).get("device_ranges")
    found = {}
    for board, wanted in _by_board("device_ranges", given).items():
        if wanted is not None and not isinstance(wanted, bool):
            raise UsageError(
                f"device_ranges={given!r:.60} is neither True nor False, nor a dict of these by "
                "board.",
                hint='{"device_ranges": True}, or {"device_ranges": {BOARD: True}}',
            )
        found[board] = bool(wanted)
    return found


def _by_board(setting: str, given: _T | Mapping[str, _T]) -> Mapping[str, _T]:
    """Return a setting by the names of boards, which are known; "" is for all other boards."""
    if not isinstance(given, Mapping):
        return {_OTHERS: given}
    for name in given:
        if not isinstance(name, str):
            raise UsageError(f"{setting}: {name!r:.60} is not the name of a board.")
    check_boards(set(given) - {_OTHERS})
    return given
