# SPDX-License-Identifier: Apache-2.0
"""What a run was asked for, before anything is built: on which boards, with which settings."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from boardprof.boards.board_file import BoardSpec
from boardprof.boards.finding import board_spec, default_board, unnamed_board
from boardprof.errors import UsageError
from boardprof.firmware.build_options import BuildOptions
from boardprof.firmware.sources import find_sources
from boardprof.firmware.sweep import settings_of
from boardprof.run.plan_data import PlanData
from boardprof.run.wanted_metrics import WantedMetrics

__all__ = ["ALL", "Plan", "boards_of", "with_each_setting"]

ALL = "all"
"""In place of a function's name: each that the arguments fit."""

_TARGET = "PATH:FUNCTION or PATH:all"


@dataclass(frozen=True)
class Plan:
    """What ``boardprof run`` was asked for; the command's help says what each option means.

    Without ``warmup`` and ``repeat``, a function that takes long is called less often.
    ``data`` is what `run_plan` has read of ``values``, ``expect`` and the files that they name, and
    ``wanted`` what it finds of ``metrics``.
    """

    target: str
    values: tuple[str, ...] = ()
    boards: tuple[str, ...] = ()
    port: str | None = None
    baud: int | None = None
    timeout_s: float | None = None
    wall_timeout_s: float | None = None
    takeover: bool = False
    clock: str | None = None
    key_file: str | None = None
    image: str | None = None
    metrics: tuple[str, ...] | None = None
    warmup: int | None = None
    repeat: int | None = None
    number: int = 1
    code: BuildOptions = field(default_factory=BuildOptions)
    cold: bool = False
    mask_interrupts: bool = False
    sweep: str | None = None
    flash: bool = False
    expect: tuple[str, ...] = ()
    tolerance: float = 0.0
    save_output: str | None = None
    data: PlanData = field(default_factory=PlanData)
    wanted: WantedMetrics | None = None

    @property
    def path(self) -> Path | None:
        """The part of the target before the last colon; None when there is none."""
        path, colon, _ = self.target.rpartition(":")
        return Path(path) if colon and path else None

    @property
    def files(self) -> tuple[str | Path, ...]:
        """Files and folders that are measured; none where the board has its firmware already."""
        if self.path is not None:
            return (self.path, *self.code.sources)
        return () if self.image is None else (self.image,)

    @property
    def function(self) -> str:
        """The part of the target after the last colon."""
        return self.target.rpartition(":")[2]

    @property
    def arguments(self) -> dict[str, str]:
        """The values by parameter name.

        Raises:
            UsageError: one has no ``=``, or a name is given twice.
        """
        arguments: dict[str, str] = {}
        for text in self.values:
            name, equals, value = text.partition("=")
            if not equals or not name:
                raise UsageError(f"{text!r} is not an argument.", hint="NAME=VALUE, e.g. n=256")
            if name in arguments:
                raise UsageError(f"The argument {name} is given twice.")
            arguments[name] = value
        return arguments

    def output_folders(self, board: str, function: str) -> list[str]:
        """Return the folders for one function's outputs, so that no two write the same files."""
        return [
            *([board] if len(set(self.boards)) > 1 else []),
            *([self.code.cflags.replace(os.sep, "_")] if self.sweep is not None else []),
            *([function] if self.function == ALL else []),
        ]


def boards_of(plan: Plan) -> list[BoardSpec]:
    """Return the boards that a plan is for.

    Raises:
        UsageError: the plan itself makes no sense.
        UnknownNameError: there is no such board.
    """
    if not plan.target.strip():
        raise UsageError("The target is empty: it names no function.", hint=_TARGET)
    if plan.path is None and not plan.target.isidentifier() and Path(plan.target).exists():
        raise UsageError(
            f"{plan.target!r} names no function.",
            hint=f"{plan.target}:FUNCTION or {plan.target}:all",
        )
    if not plan.function:
        raise UsageError(f"{plan.target!r} names no function.", hint=_TARGET)
    specs = [board_spec(name) for name in dict.fromkeys(plan.boards)] or [_board_for(plan)]
    if plan.port is not None and len(specs) > 1:
        raise UsageError("A port leads to one board; several were named.", hint="one -b with -p")
    if plan.image is not None:
        _check_image(plan, specs)
    if plan.flash:
        _check_flash(plan, specs)
    return specs


def _board_for(plan: Plan) -> BoardSpec:
    """Return the board when none is named: what is at a port says itself what it is."""
    builds = plan.path is not None or plan.flash
    return default_board() if builds or plan.port is None else unnamed_board()


def _check_image(plan: Plan, specs: Sequence[BoardSpec]) -> None:
    if plan.path is not None:
        raise UsageError(
            f"{plan.image} has its functions already; {plan.path} is not built into it.",
            hint=f"leave --image out, or measure {plan.function!r} without the PATH",
        )
    if len(specs) > 1:
        raise UsageError("An image is of one board; several were named.", hint="one -b")


def _check_flash(plan: Plan, specs: Sequence[BoardSpec]) -> None:
    from boardprof.firmware.flash import check_flashable

    for spec in specs:
        check_flashable(spec, plan.port)
    if plan.path is None and plan.image is None:
        raise UsageError("There is nothing to flash.", hint=f"{_TARGET}, or --image ELF")
    if plan.port is None:
        raise UsageError("A board that was flashed is measured through a port.", hint="-p PORT")


def with_each_setting(plan: Plan) -> list[Plan]:
    """Return the plan once for each setting of the compiler's flags, which are in ``cflags``.

    Raises:
        UsageError: there is nothing that could be compiled with them.
    """
    if plan.sweep is None:
        return [plan]
    if plan.path is None:
        raise UsageError("A sweep builds the functions, and there is no PATH.", hint=_TARGET)
    if not find_sources([plan.path, *plan.code.sources]).files:
        raise UsageError(
            f"A sweep compiles the functions, and {plan.target} has only compiled code: its rows "
            "would be of the same code.",
            hint="give the sources, or leave --sweep out",
        )
    if plan.port is not None and not plan.flash:
        raise UsageError(
            "Each setting of a sweep is firmware of its own; what runs at a port stays the same.",
            hint="add --flash, or leave --sweep or --port out",
        )
    # As --cflags, of which relative paths begin at the current folder.
    code = plan.code
    settings = settings_of(plan.sweep, f"{code.optimize} {code.cflags}")
    return [replace(plan, code=replace(code, optimize="", cflags=flags)) for flags in settings]
