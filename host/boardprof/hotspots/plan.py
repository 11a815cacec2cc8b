# SPDX-License-Identifier: Apache-2.0
"""The plan that a recorder gets: which calls of an image to record, and which code is the agent's.

The form is described in ``device_runtime_c/recorder/bp_recorder.h``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from boardprof.elf.symbol_table import SymbolTable
from boardprof.errors import UsageError

_WINDOW = ("bp_window",)
_THUNK = "bp_thunk"
_OUTSIDE = (
    *("bp_round", "bp_measure_loop", "bp_measure", "bp_guarded", "bp_single", "bp_call_target"),
    *("bp_call_painted", "bp_call_user", "bp_agent_poll", "bp_handle", "main"),
)
"""Code of the agent that no measured function calls: a fault or a time limit leads there."""


def plan_text(table: SymbolTable, functions: Iterable[str], record: Path, image: Path) -> str:
    """Return the plan to record calls of functions.

    Args:
        table: the functions of the image.
        functions: those to record; which the image does not have are left out.
        record: where the record goes.
        image: for the error.

    Raises:
        UsageError: the image has no symbols.
    """
    lines = ["boardprof-plan 1", f"record {record}"]
    lines += [f"enter {table.entries[name]:x}" for name in functions if name in table.entries]
    lines += _ranges(table)
    if not any(line.startswith("window ") for line in lines):
        raise UsageError(
            f"{image} has no symbols, so there is no way to tell where a call begins.",
            hint="use the image as the linker wrote it, before strip",
        )
    return "".join(f"{line}\n" for line in lines)


def _ranges(table: SymbolTable) -> Iterator[str]:
    for code in table.functions:
        span = f"{code.low:x} {code.high:x}"
        yield f"function {span}"
        name = code.name.partition(".")[0]  # GCC's clones: name.constprop.0
        if name in _WINDOW:
            yield f"window {span}"
        elif name.startswith(_THUNK):
            yield f"thunk {span}"
        elif name in _OUTSIDE:
            yield f"outside {span}"
