# SPDX-License-Identifier: Apache-2.0
"""Firmware as the builder makes it, to be opened as users open it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from boardprof.measure.connect import Firmware
from boardprof.target.build import builder
from boardprof.target.build.build_options import BuildOptions
from boardprof.target.descriptions.board import BoardSpec

__all__ = ["build"]

_DEFAULT = BuildOptions()


def build(
    spec: BoardSpec,
    sources: Sequence[str | Path] = (),
    options: BuildOptions = _DEFAULT,
    *,
    verbose: Callable[[str], None] | None = None,
) -> Firmware:
    return Firmware.of(builder.build(spec, sources, options, verbose=verbose))
