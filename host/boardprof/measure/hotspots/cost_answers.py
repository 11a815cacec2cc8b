# SPDX-License-Identifier: Apache-2.0
"""Modelled core cycles of a recorded call: answers to its recorder, and costs by instruction.

The recorder asks for the cost of each pass through a block, and of each way out of one, when it
first sees them. So it can add up costs by call, as it does with costs that an emulator knows.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from boardprof.base.errors import BoardprofError
from boardprof.measure.hotspots.core_cycles import NO_CYCLES, CycleModel, Cycles
from boardprof.results.report.profile import MODELLED

_REAL_BOARDS = "took 2 % less to 11 % more"
"""How boards compare with the model of a Cortex-M3 or M4: docs/cycles.md, rounded away from 0."""

_NAMES = {
    "cortex-m0": "Cortex-M0",
    "cortex-m0plus": "Cortex-M0+",
    "cortex-m3": "Cortex-M3",
    "cortex-m4": "Cortex-M4",
}
_HALF_WORD = 2
_UNKNOWN = "-"
_END = "end"
_END_S = 10.0
"""Wall time in which the thread ends, unless the machine is overloaded; seconds."""


class CostAnswers:
    """Answers a recorder's questions in a thread, until it is closed."""

    def __init__(self, folder: Path, model: CycleModel) -> None:
        """Create the pipes; their form is in ``device_runtime_c/recorder/bp_recorder.h``."""
        self.pipes = folder / "costs"
        self.unknown = ""  # the first instruction without a cost, "" if all have one
        self._model = model
        names = [self.pipes.with_suffix(ending) for ending in (".ask", ".told")]
        for name in names:
            os.mkfifo(name)
        # With both ends open, no side waits for the other to open its own.
        self._asked, self._told = (os.open(name, os.O_RDWR | os.O_CLOEXEC) for name in names)
        self._thread = threading.Thread(target=self._answer, name="costs", daemon=True)
        self._thread.start()

    @property
    def plan(self) -> str:
        """The lines of a recorder's plan."""
        return "".join(f"cost {name}\n" for name in MODELLED) + f"ask {self.pipes}\n"

    def close(self) -> None:
        """End the thread."""
        os.write(self._asked, f"{_END}\n".encode())
        self._thread.join(_END_S)
        os.close(self._asked)
        os.close(self._told)

    def _answer(self) -> None:
        with open(self._asked, encoding="ascii", closefd=False) as asked:
            for line in iter(asked.readline, f"{_END}\n"):
                found = self._cost(*line.split())
                os.write(self._told, f"{found.point} {found.low} {found.high}\n".encode())

    def _cost(self, kind: str, *words: str) -> Cycles:
        try:
            if kind == "pass":
                return sum(pass_costs(self._model, *words), NO_CYCLES)
            return exit_cost(self._model, *words)
        except BoardprofError as error:
            self.unknown = self.unknown or error.message.removesuffix(".")
            return NO_CYCLES


def model_text(core: str) -> str:
    """Say what the cycles of a core's model are, after the word ``modelled``."""
    told = f"for a {_NAMES[core]}: the core only, at zero wait states"
    return told + (f"; real boards {_REAL_BOARDS}" if core in ("cortex-m3", "cortex-m4") else "")


def pass_costs(model: CycleModel, came_from: str, first: str, lengths: str) -> list[Cycles]:
    """Return the cost of each instruction of a pass, in the words of a record."""
    return model.straight([*addresses(first, lengths)], _address(came_from))


def exit_cost(model: CycleModel, last: str, goes_to: str) -> Cycles:
    """Return what leaving a block costs, in the words of a record."""
    return model.leaving(int(last, 16), _address(goes_to))


def addresses(first: str, lengths: str) -> Iterator[int]:
    """Yield the addresses of a row of instructions, in the words of a record."""
    address = int(first, 16)
    for length in lengths:
        yield address
        address += _HALF_WORD * int(length, 16)


def columns_of(cycles: Cycles, times: int) -> Sequence[int]:
    """Return cycles as a profile has them, in the order of `MODELLED`."""
    found = cycles * times
    return found.point, found.low, found.high


def _address(text: str) -> int | None:
    return None if text == _UNKNOWN else int(text, 16)
