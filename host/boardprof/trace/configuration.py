# SPDX-License-Identifier: Apache-2.0
"""The checked arguments of a profile."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from boardprof.errors import UnknownNameError, UsageError
from boardprof.measure.selection import metric_names
from boardprof.trace.recorder import Wanted
from boardprof.trace.schedule import ProfilerActivity
from boardprof.trace.unsupported import require_board_events

_ON_BOARD = ("device_ranges",)
_SETTINGS = ("metrics",)


class Configuration:
    """The settings of a profile.

    Attributes:
        activities: see `profile`.
        record_shapes: likewise.
        with_flops: likewise.
        with_modules: likewise.
        flags: the enabled flags, as written to the trace.
        wanted: what has to be recorded for this.
    """

    def __init__(
        self,
        activities: Iterable[ProfilerActivity] | None,
        *,
        record_shapes: bool,
        profile_memory: bool,
        with_stack: bool,
        with_flops: bool,
        with_modules: bool,
        experimental_config: Mapping[str, object] | None,
        metrics: str | Iterable[str] | None,
        mask_interrupts: bool,
    ) -> None:
        """Check the arguments; they are those of `profile`.

        Raises:
            UsageError: no activity, an unknown setting, metrics without boards, or masked
                interrupts without metrics.
            NotSupportedByAgentError: a setting needs events recorded on the board.
        """
        if profile_memory:
            require_board_events("profile_memory")
        self.activities = _activities(activities)
        self.record_shapes = record_shapes
        self.with_flops = with_flops
        self.with_modules = with_modules
        flags = {
            "record_shapes": record_shapes,
            "with_stack": with_stack,
            "with_flops": with_flops,
            "with_modules": with_modules,
        }
        self.flags = {name: "1" for name, is_on in flags.items() if is_on}
        names = _metrics(experimental_config, metrics)
        if names and ProfilerActivity.BOARD not in self.activities:
            raise UsageError(
                f"metrics={names} are counted on boards, but ProfilerActivity.BOARD is not among "
                "the activities."
            )
        if mask_interrupts and not names:
            raise UsageError(
                "mask_interrupts masks interrupts while a call is counted, but no metric is named.",
                hint='metrics=["instructions"], or leave mask_interrupts out',
            )
        keeps_arguments = record_shapes or with_flops
        self.wanted = Wanted(
            self.activities, keeps_arguments, tuple(names), mask_interrupts, with_stack
        )


def _activities(given: Iterable[ProfilerActivity] | None) -> frozenset[ProfilerActivity]:
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


def _metrics(config: Mapping[str, object] | None, metrics: str | Iterable[str] | None) -> list[str]:
    if config is not None and not isinstance(config, Mapping):
        raise UsageError(f"experimental_config={config!r:.60} is not a dict.")
    for name, value in (config or {}).items():
        if name not in (*_SETTINGS, *_ON_BOARD):
            raise UnknownNameError("setting of experimental_config", name, _SETTINGS)
        if name in _ON_BOARD and value:
            require_board_events(name)
    configured = (config or {}).get("metrics")
    if configured is not None and metrics is not None:
        raise UsageError("metrics is given twice: as an argument and in experimental_config.")
    names = metric_names(metrics if configured is None else configured)
    if names == []:
        raise UsageError("No metric is named.", hint='metrics=["instructions"], or None')
    return names or []
