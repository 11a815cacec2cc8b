# SPDX-License-Identifier: Apache-2.0
"""Sample the calls of a board with a debug probe: the agent needs neither timer nor interrupt."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

import msgpack

from boardprof.base.errors import BoardError, UsageError
from boardprof.measure.hotspots.debug_probe import NO_PC, DebugProbe
from boardprof.measure.hotspots.sampling import LONGEST_S, OnSamples, Samples
from boardprof.target.elf.object_file import OBJECT, read_if_possible, symbols
from boardprof_protocol.codes import BuiltIn

if TYPE_CHECKING:
    from elftools.elf.elffile import ELFFile

    from boardprof.measure.sampling.placement import Placement
    from boardprof.target.elf.symbol_table import SymbolTable
    from boardprof.wire.decode.dictionary import FunctionInfo
    from boardprof.wire.link.session import Session

_SOURCE = "DWT PCSR"

_REQUEST_S = 1.0
"""Wall time that the board's request of many calls shall take, seconds. So few samples hit the
link's work between two requests."""

_MOST_ROUNDS = 1 << 20
_ENOUGH = 16
"""Reads after which they are judged if all are the same. Some hit the agent, after a request."""

_AGENT, _STATE = "bp_", "bp_agent"
_WORDS = 16
"""The boot id is among the first words of the agent's state."""

_COLLECTOR = 1  # mask of bp.measure: it must not be 0


def check_board(probe: DebugProbe, image: Path, board: str, boot_id: int) -> None:
    """Check that a debug probe reads the board that runs the session, and switch its DWT on.

    Args:
        probe: to check.
        image: what the board runs.
        board: its name.
        boot_id: its number for this boot, from the session's beginning.

    Raises:
        BoardError: it is another board, or its core cannot be read.
        UsageError: its core has no DWT_PCSR.
    """
    machine, state = read_if_possible(image, _machine_and_state) or ("", None)
    if machine != "EM_ARM":
        raise UsageError(
            f"{board} has no DWT_PCSR that a debug probe could read: it is not an Arm Cortex-M.",
            hint="leave out --probe",
        )
    probe.enable()
    if state is not None and boot_id not in probe.words(state, _WORDS):
        raise _another_board(probe, f"the memory of {board}")
    if not any(probe.program_counters()):
        raise _no_register(probe, 0)


def _machine_and_state(elf: ELFFile) -> tuple[str, int | None]:
    """Return an image's machine, and the address of the agent's state, None if not known."""
    found = (each.value for each in symbols(elf) if (each.name, each.kind) == (_STATE, OBJECT))
    return str(elf["e_machine"]), next(found, None)


def take_probe_samples(
    probe: DebugProbe,
    session: Session,
    placement: Placement,
    function: FunctionInfo,
    table: SymbolTable,
    wanted: int,
    on_samples: OnSamples | None = None,
) -> Samples:
    """Call a function while a debug probe reads the core's program counter.

    Args:
        probe: reads it; see `check_board`.
        session: with the board.
        placement: of the arguments; they are put back before each call.
        function: to call.
        table: the functions of the image, to tell the agent's.
        wanted: number of samples, 1 or more. Requests are not broken off, so there may be more.
        on_samples: called now and then.

    Returns:
        The samples. They are fewer than wanted if the function is too short to be hit.

    Raises:
        BoardError: the probe fails, its core is halted, or it has another image.
        UsageError: its core has no DWT_PCSR.
        BoardprofError: as a call of the function.
    """
    found, values = Samples(Counter(), _SOURCE), Counter[int]()

    def call(rounds: int) -> float:
        """Call the function as often; return how long that took, in seconds."""
        placement.send_again()
        packed, began_s = placement.call(function), time.monotonic()
        head = (function.id, 0, rounds - 1, 1, 1, _COLLECTOR)
        content = b"".join(map(msgpack.packb, head)) + packed.content
        session.call(BuiltIn.MEASURE, content, len(head) + packed.count, name=function.name)
        session.calls += rounds
        return time.monotonic() - began_s

    rounds = 1 if placement.sends_again else _rounds_of_a_request(call)
    deadline_s = time.monotonic() + LONGEST_S
    with ThreadPoolExecutor(1) as pool:
        while found.count < wanted and (
            time.monotonic() < deadline_s or 10 * found.count > values.total()
        ):
            done = Event()
            reads = pool.submit(_read_until, probe, done)
            try:
                call(rounds)
            finally:
                done.set()
            values.update(reads.result())
            found.calls += rounds
            _sort_out(values, table, function.name, found)
            if on_samples is not None:
                on_samples(min(found.count, wanted), wanted)
            _check_values(probe, values)
    if found.hits and not any(table.at(pc) for pc in values):
        raise _another_board(probe, "a program counter in the image")
    placement.check()
    return found


def _rounds_of_a_request(call: Callable[[int], float]) -> int:
    """Return how many calls take about `_REQUEST_S`."""
    rounds = 1
    while (took_s := call(rounds)) < _REQUEST_S / 2 and rounds < _MOST_ROUNDS:
        rounds = min(int(rounds * min(10, _REQUEST_S / took_s)), _MOST_ROUNDS)
    return rounds


def _read_until(probe: DebugProbe, done: Event) -> list[int]:
    """Read program counters beyond the end of a request, so that none of its calls is cut off."""
    found: list[int] = []
    while True:
        found += probe.program_counters()
        if done.is_set():
            return found


def _sort_out(values: Counter[int], table: SymbolTable, function: str, found: Samples) -> None:
    """Separate the call's program counters from those of the agent, and count what is none."""
    around = ("main", f"{function}_setup", f"{function}_check")
    found.hits.clear()
    found.outside, found.unreadable = 0, values[NO_PC]
    for pc, count in values.items():
        code = table.at(pc)
        name = "" if code is None else code.name
        if name in around or (name.startswith(_AGENT) and name != function):
            found.outside += count
        elif pc != NO_PC:
            found.hits[pc] = count


def _check_values(probe: DebugProbe, values: Counter[int]) -> None:
    if values.total() < _ENOUGH:
        return
    if values[NO_PC] == values.total():
        raise BoardError(
            f"The core at {probe.address} is halted, or what it executes must not be debugged: "
            f"DWT_PCSR read {NO_PC:#x} each time.",
            hint="`resume` on OpenOCD's telnet port; with several cores, `targets NAME`",
        )
    if len(values) == 1:
        raise _no_register(probe, next(iter(values)))


def _no_register(probe: DebugProbe, value: int) -> UsageError:
    return UsageError(
        f"The core at {probe.address} has no DWT_PCSR, or it does not change: it read {value:#x} "
        "each time.",
        hint="with several cores, choose one in OpenOCD (`targets NAME`); else use the agent's own "
        "timer",
    )


def _another_board(probe: DebugProbe, lacking: str) -> BoardError:
    return BoardError(
        f"The debug probe at {probe.address} is at another board or core: it does not find "
        f"{lacking}.",
        hint="check where it is connected; with several cores, choose one in OpenOCD "
        "(`targets NAME`)",
    )
