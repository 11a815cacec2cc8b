# SPDX-License-Identifier: Apache-2.0
"""Model the cycles that a Cortex-M core needs for code, at zero wait states.

How often each block and each edge between blocks ran is counted; their cost is added up from a
table of each core in ``cycle_tables/``, which names the manual's section for every line. What the
model cannot know is in the interval of each cost. docs/cycles.md has the reasons and the errors.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from boardprof.base.errors import BoardprofError
from boardprof.measure.hotspots.thumb_instruction import BRANCHES, ThumbInstruction, instructions

CORES = ("cortex-m0", "cortex-m0plus", "cortex-m3", "cortex-m4")
"""The cores that have a table."""

_LOOK_BACK = 8
_FLOAT_RESULT_LATE = frozenset({"float", "float_multiply_add", "float_divide"})


class UnknownCostError(BoardprofError):
    """An instruction has no cost in the table of its core."""


@dataclass(frozen=True)
class Cycles:
    """A number of core cycles, modelled: the estimate, and what it may be."""

    point: int
    low: int
    high: int

    def __add__(self, other: Cycles) -> Cycles:
        """Return the cycles of both."""
        return Cycles(self.point + other.point, self.low + other.low, self.high + other.high)

    def __mul__(self, times: int) -> Cycles:
        """Return the cycles of several times the same."""
        return Cycles(self.point * times, self.low * times, self.high * times)


NO_CYCLES = Cycles(0, 0, 0)


@dataclass(frozen=True)
class _Cost:
    cycles: Cycles
    each: int

    def of(self, count: int) -> Cycles:
        more = self.each * count
        return self.cycles + Cycles(more, more, more)


_Costs = Mapping[str, _Cost]


@cache
def _table(core: str) -> Mapping[str, _Costs]:
    if core not in CORES:
        raise UnknownCostError(f"No table of cycles for {core!r}; there are {', '.join(CORES)}.")
    text = (files(__package__) / "cycle_tables" / f"{core}.toml").read_text("utf-8")
    return {
        part: {name: _cost(line) for name, line in lines.items()}
        for part, lines in tomllib.loads(text).items()
    }


def _cost(line: Mapping[str, Any]) -> _Cost:
    point = line["cycles"]
    return _Cost(
        Cycles(point, line.get("low", point), line.get("high", point)), line.get("each", 0)
    )


class CycleModel:
    """The cost of each instruction of an image on a core."""

    def __init__(self, core: str, texts: Mapping[int, str]) -> None:
        """Take one of ``CORES``, and the text of each instruction by address.

        The texts are those of ``boardprof.target.elf.addresses.disassembly``.
        """
        table = _table(core)
        self._core = core
        self._straight = table["straight"]
        self._leaving = table["leaving"]
        self._neighbours = table.get("neighbours", {})
        self._code = instructions(texts)
        addresses = sorted(self._code)
        self._before = dict(zip(addresses[1:], addresses, strict=False))

    def straight(self, addresses: Sequence[int], came_from: int | None) -> list[Cycles]:
        """Return the cost of each instruction in one pass through a block.

        A branch costs here what it costs when it is not taken; `leaving` has the rest.

        Args:
            addresses: Those of the instructions, in the order in which they run.
            came_from: The address of the instruction before them; None if it is not known.

        Raises:
            UnknownCostError: The core's table has no cost for an instruction.
        """
        run = self._run_up_to(addresses[0], came_from) if addresses else []
        costs = []
        for address in addresses:
            instruction = self._at(address)
            costs.append(self._cost(instruction, run))
            run.append(instruction)
        return costs

    def leaving(self, last: int, goes_to: int | None) -> Cycles:
        """Return what the last instruction of a block costs in addition to `straight`.

        Args:
            last: The address of the instruction.
            goes_to: The address of the next one that runs; None if it is not known.

        Raises:
            UnknownCostError: It is not a branch, but the next instruction is elsewhere.
        """
        instruction = self._at(last)
        if goes_to == last + instruction.size and instruction.can_go_on:
            return NO_CYCLES
        kind = instruction.kind
        if kind not in BRANCHES:
            if goes_to is None:
                return NO_CYCLES
            raise self._unknown(instruction, f"goes to {goes_to:#x}: an exception?")
        cost = self._leaving.get(kind)
        if cost is None:
            raise self._unknown(instruction, "has no cost")
        cycles = cost.cycles
        if instruction.is_conditional and kind != "branch":  # `straight` has it as not taken
            cycles += self._plain(instruction) + Cycles(-1, -1, -1)
        target = self._code.get(goes_to) if goes_to is not None else None
        if target is not None and target.is_odd:
            cycles += self._beside("odd_target")
        return cycles

    def _at(self, address: int) -> ThumbInstruction:
        found = self._code.get(address)
        if found is None:
            raise UnknownCostError(f"There is no instruction at {address:#x} of the image.")
        return found

    def _unknown(self, instruction: ThumbInstruction, why: str) -> UnknownCostError:
        text = instruction.text.replace("\t", " ")
        return UnknownCostError(f"{text!r} at {instruction.address:#x} {why} on {self._core}.")

    def _run_up_to(self, address: int, came_from: int | None) -> list[ThumbInstruction]:
        """Return the instructions that ran in a straight line right before an address."""
        run: list[ThumbInstruction] = []
        before = self._code.get(came_from) if came_from is not None else None
        while before is not None and before.can_go_on and len(run) < _LOOK_BACK:
            if before.address + before.size != address:
                break
            run.insert(0, before)
            address = before.address
            before = self._code.get(self._before.get(address, -1))
        return run

    def _plain(self, instruction: ThumbInstruction) -> Cycles:
        """Return the cost without neighbours, of an instruction that runs."""
        kind = instruction.kind
        if kind in ("float_load", "float_store") and instruction.is_double:
            kind += "_double"
        elif kind == "float_move" and instruction.is_pair_move:
            kind += "_pair"
        elif kind == "store" and instruction.has_offset_register:
            kind = "store_by_register" if "store_by_register" in self._straight else kind
        cost = self._straight.get(kind)
        if cost is None:
            raise self._unknown(instruction, "has no cost")
        return cost.of(instruction.count if cost.each else 0)

    def _beside(self, rule: str) -> Cycles:
        cost = self._neighbours.get(rule)
        return NO_CYCLES if cost is None else cost.cycles

    def _cost(self, instruction: ThumbInstruction, run: Sequence[ThumbInstruction]) -> Cycles:
        if instruction.is_conditional and instruction.kind in BRANCHES:
            return Cycles(1, 1, 1)
        cycles = self._plain(instruction)
        if self._neighbours and run:
            cycles += self._beside_others(instruction, run)
        if instruction.is_conditional:  # the condition may be false
            cycles = Cycles(cycles.point, min(cycles.low, 1), max(cycles.high, 1))
        return cycles

    def _beside_others(
        self, instruction: ThumbInstruction, run: Sequence[ThumbInstruction]
    ) -> Cycles:
        kind, before = instruction.kind, run[-1]
        if kind == "it":
            return self._beside("it_folded") if before.size == 2 else NO_CYCLES
        if before.kind == "it" and len(run) > 1:
            before = run[-2]
        cycles = NO_CYCLES
        if kind == "hint" and (
            before.kind == "load" or (before.kind == "store" and before.has_offset_register)
        ):
            cycles += self._beside("hint_after_load")
        is_pipelined = before.kind == "load" and not before.writes & instruction.address_registers
        if kind == "load":
            if is_pipelined and before.is_literal == instruction.is_literal:
                cycles += self._beside("load_after_load")
            elif before.kind == "store":
                cycles += self._beside("load_after_store")
        elif kind == "store" and is_pipelined:
            cycles += self._beside("store_after_load")
        elif kind == "load_multiple" and before.kind == "store":
            cycles += self._beside("multiple_after_store")
        if instruction.address_registers & before.writes and before.kind != "load":
            cycles += self._beside("address_just_written")
        if before.kind in _FLOAT_RESULT_LATE and instruction.reads & before.writes:
            cycles += self._beside("float_just_written")
        return cycles
