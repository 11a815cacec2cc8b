# SPDX-License-Identifier: Apache-2.0
"""Sample where a board spends the time of a call: by its agent (SPEC.md 5.11), or a debug probe."""

from __future__ import annotations

import contextlib
import random
import socket
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

import msgpack
import numpy as np

from boardprof.base.connection import BRACKETS, host_and_port
from boardprof.base.errors import (
    BoardError,
    DeviceError,
    FrameError,
    RpcError,
    UsageError,
    agent_option,
    option,
)
from boardprof.measure.board.memory import Memory
from boardprof.measure.hotspots.call_tree import (
    LONGEST_S,
    UNNAMED,
    Samples,
    profile_of,
    sampled_tree,
)
from boardprof.measure.sampling.board_link import BoardLink
from boardprof.measure.sampling.counted_pass import PackedCall
from boardprof.measure.sampling.measure_function import Progress, Rounds
from boardprof.measure.sampling.placement import Placement
from boardprof.results.report.profile import Profile, SampledCalls
from boardprof.target.arguments.binding import Arguments
from boardprof.target.arguments.passing import Block
from boardprof.target.descriptions.board import board_spec, find_boards
from boardprof.target.elf.addresses import SymbolTable, disassembly, objdump_of, symbol_table
from boardprof.target.elf.machine_code import MASKS
from boardprof.target.elf.object_file import OBJECT, read_if_possible, symbols
from boardprof.wire.decode.dictionary import FunctionInfo
from boardprof.wire.link.session import Session
from boardprof.wire.transport.sockets import SCHEME, connect_socket
from boardprof_protocol.codes import BuiltIn, ErrorCode
from boardprof_protocol.sampling import sample_layout

if TYPE_CHECKING:
    from elftools.elf.elffile import ELFFile

_SAMPLE, _SAMPLING = "bp.sample", "bp.sampling"

_FEWEST = 16
"""Samples that the free part of the arena must hold. Half of them is room for the last call's."""

_MOST_CALLS = 200_000  # calls after which a short function has been tried long enough
_CALLS_AT_ONCE = 10_000

_AGENT = ("bp_thunk", "bp_sampled", "bp_port_sample_")
"""Beginnings of the names of the agent's functions that may be hit while the timer runs."""


def sampled_profile(
    link: BoardLink,
    function: FunctionInfo,
    arguments: Arguments,
    rounds: Rounds,
    seed: int,
    probe: str | None,
    *,
    compiler: str,
    sources: Sequence[Path],
    on_samples: Progress | None,
) -> Profile:
    """Repeat a call while a timer, or the probe ``probe``, takes ``rounds.repeat`` samples."""
    board, file = link.device.name, link.image.file
    if file is None:
        raise UsageError(
            f"boardprof does not know what {board} at {link.device.port} runs, so samples "
            "cannot be given names.",
            hint=f"name the firmware's ELF file with {option('--image')}",
        )
    with contextlib.ExitStack() as stack:
        if probe is None:
            take = partial(_take_samples, link, _timer_of(link), seed=seed)
        else:
            reader = stack.enter_context(contextlib.closing(DebugProbe(probe, seed)))
            check_probed_board(reader, file, board, link.device.boot_id)
            take = partial(take_probe_samples, reader, link.session)
        table, symbol = symbol_table(file), link.image.symbol_of(function.name)
        if symbol not in table.entries:
            raise UsageError(
                f"{file} has no symbols, so there is no way to tell what samples hit.",
                hint="use the image as the linker wrote it, before strip",
            )
        link.stack_check.require(function.name)
        stack.enter_context(link.session.exclusive(function.name))
        placement = stack.enter_context(Placement(link.memory, arguments, put_back=True))
        for _ in range(rounds.warmup):
            placement.send_again()
            placement.call(function).execute(link.session.value)
        found = take(placement, function, table, rounds.repeat, on_samples=on_samples)
    if not found.count:
        raise DeviceError(
            f"No sample hit {function.name} on {board} in {found.calls:,} calls: a call is too "
            "short.",
            hint="sample a function that calls it in a loop",
        )
    named = SymbolTable([*table.functions, UNNAMED], table.entries)
    return profile_of(
        sampled_tree(found.hits, named, table.entries[symbol]),
        named,
        file,
        function.name,
        board,
        {},
        disassembly(file, objdump_of(compiler)),
        sources,
        SampledCalls(
            *(found.calls, found.timer, rounds.repeat, seed, found.outside, found.unreadable),
            masked=probe is None and MASKS in link.stack_check.hazards(function.name),
        ),
    )


@dataclass(frozen=True)
class _Timer:
    """How a board's agent takes samples."""

    sampler: FunctionInfo  # its bp.sample
    name: str
    usual: int  # about a third of the time between samples, in ticks of the timer


def _timer_of(link: BoardLink) -> _Timer:
    found = {each.name: each for each in link.dictionary.functions}
    if _SAMPLE not in found or _SAMPLING not in found:
        able = [each for each in find_boards() if board_spec(each).build.config.get("sampling")]
        raise UsageError(
            f"{link.device.name} cannot sample its calls: its agent has no {_SAMPLE}.",
            hint=f"take one of {', '.join(able)}; firmware of your own needs BP_CFG_SAMPLING=1, an "
            "arena and the guard",
        )
    value: Any = link.session.invoke(found[_SAMPLING].id, _SAMPLING)
    match value:
        case [str(timer), int(), int(usual), *_] if usual > 0:
            return _Timer(found[_SAMPLE], timer, usual)
    raise FrameError(f"{_SAMPLING} returned {value!r:.60}, not [timer, least, usual].")


def _take_samples(
    link: BoardLink,
    timer: _Timer,
    placement: Placement,
    function: FunctionInfo,
    table: SymbolTable,
    wanted: int,
    seed: int,
    on_samples: Progress | None = None,
) -> Samples:
    """Call a function until there are enough samples of it."""
    # The last call is not broken off, so there may be more samples than ``wanted``. There are fewer
    # if the function is too short to be hit.
    memory = link.memory
    record = np.dtype(sample_layout(memory.pointer_size).dtype)
    size = record.itemsize
    seeds = random.Random(seed)
    found = Samples(Counter(), timer.name)
    half = timer.usual
    taken_so_far = 0
    block, capacity = _reserve(memory, link.device.name, wanted, size)
    try:
        deadline_s = time.monotonic() + LONGEST_S
        while found.count < wanted and found.calls < _MOST_CALLS:
            if found.calls >= _CALLS_AT_ONCE and time.monotonic() > deadline_s:
                break
            placement.send_again()
            rounds = 1 if placement.sends_again else _CALLS_AT_ONCE
            want = min(wanted - found.count, capacity // 2)
            asked = (function.id, block.handle, half, seeds.getrandbits(32), rounds, want)
            done, count, half, top = _request(link, timer.sampler, placement.call(function), asked)
            content = memory.read(block, count * size) if count else b""
            taken = np.frombuffer(content, record)
            on_stack = taken["sp"].ravel() <= top
            places = taken["pc"].ravel()[on_stack].tolist()
            codes = {pc: table.at(pc) for pc in {*places}}
            agents = {pc for pc, code in codes.items() if code and code.name.startswith(_AGENT)}
            found.hits.update(pc for pc in places if pc not in agents)
            taken_so_far += count
            found.outside = taken_so_far - found.count
            found.calls += done
            if on_samples is not None:
                on_samples(min(found.count, wanted), wanted)
    finally:
        memory.release([block], now=False)
    placement.check()
    return found


def _reserve(memory: Memory, board: str, wanted: int, size: int) -> tuple[Block, int]:
    """Return a block of the arena for samples, and how many it holds."""
    free = memory.size - memory.held_bytes
    count = min(max(2 * wanted, _FEWEST), free // size)
    while count >= _FEWEST:
        try:
            return memory.alloc(count * size), count
        except RpcError as error:
            if error.code != ErrorCode.NO_MEMORY:
                raise
            count //= 2  # the free part has holes
    raise UsageError(
        f"There is no room for samples in the arena of {board}: {free:,} of "
        f"{memory.size:,} bytes are free, and {_FEWEST * size} are needed.",
        hint="pass smaller arrays, or compile the agent with a larger " + agent_option("arena"),
    )


def _request(
    link: BoardLink, sampler: FunctionInfo, call: PackedCall, asked: tuple[int, ...]
) -> tuple[int, int, int, int]:
    """Make one request; return calls, samples, the last half delay, and the stack pointer."""
    content = b"".join(map(msgpack.packb, asked)) + call.content
    count = call.count + len(asked)
    value: Any = link.session.value(sampler.id, content, count, call.function.name)
    match value:
        case [int(done), int(samples), int(half), int(top), *_] if half > 0:
            return done, samples, half, top
    raise FrameError(f"{_SAMPLE} returned {value!r:.60}, not [calls, samples, delay, stack].")


# -- by a debug probe, on an Arm Cortex-M --------------------------------------------------------
#
# OpenOCD drives ST-Link, J-Link and CMSIS-DAP. Its Tcl server takes a script that ends with the
# byte 0x1a, and sends the result back in the same form (OpenOCD User's Guide, "Tcl RPC server").
#
# A read of DWT_PCSR returns the address of an instruction that the core has just executed. The
# core goes on. 0xFFFFFFFF means that there is none: the core is halted, or nobody may debug what
# it executes. (Arm v7-M ARM, DDI 0403, C1.8; Armv8-M ARM, DDI 0553, DWT_PCSR. Optional in Armv6-M,
# DDI 0419C, C1.7.2: Cortex-M0 and M0+ have it if they have a watchpoint unit, DDI 0432C, 6.1.3 and
# DDI 0484C, 7.1.3.)

NO_PC = 0xFFFFFFFF
"""The value of DWT_PCSR while it has no program counter."""

_DWT_PCSR = 0xE000101C
_DEMCR, _TRCENA = 0xE000EDFC, 1 << 24
"""Without TRCENA the DWT is off (Arm v7-M ARM, C1.6.5)."""

_END = b"\x1a"
_MOST_BYTES = 1 << 16
_CONNECT_S = 5.0
_ANSWER_S = 5.0

_REQUEST_S = 0.02
"""Wall time of one request for samples, seconds; OpenOCD serves nobody else meanwhile."""

_LEAST_MEAN_S = 1e-3  # shortest mean of the waits between reads, seconds
_MOST_MEAN_S = 0.5
_MOST_WAIT_S = 4.0  # however long the server says that a read takes
_READ = """apply {{waits} {
    set found {}
    set spent 0
    foreach wait $waits {
        set until [expr {[clock microseconds] + $wait}]
        while {[set now [clock microseconds]] < $until} {}
        lappend found [read_memory %#x 32 1]
        incr spent [expr {[clock microseconds] - $now}]
    }
    return "$spent $found"
}} {%s}"""


class DebugProbe:
    """A connection to OpenOCD's Tcl server; `close` it."""

    def __init__(self, address: str, seed: int = 1) -> None:
        """Connect to ``HOST:PORT``; ``seed`` is that of the random times between two reads."""
        if host_and_port(address) is None:
            raise UsageError(
                f"{address!r} is not the address of a debug probe.",
                hint=f"HOST:PORT of OpenOCD's Tcl server, such as localhost:6666; {BRACKETS}",
            )
        self.address = address
        self._random = random.Random(seed)
        self._read_s = 0.0
        hint = "start it: openocd -f interface/stlink.cfg -f target/YOURS.cfg"
        self._socket = connect_socket(SCHEME + address, _CONNECT_S, address, hint, "OpenOCD")
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def run(self, script: str, extra_s: float = 0.0) -> str:
        """Run a Tcl script that takes ``extra_s`` on purpose; return its result."""
        request = f"list [catch {{{script}}} boardprof_result] $boardprof_result"
        deadline_s = time.monotonic() + _ANSWER_S + extra_s
        answer = b""
        try:
            self._socket.settimeout(_ANSWER_S)
            self._socket.sendall(request.encode() + _END)
            while not answer.endswith(_END):
                self._socket.settimeout(max(deadline_s - time.monotonic(), 1e-3))
                part = self._socket.recv(_MOST_BYTES)
                answer += part
                if not part or len(answer) > _MOST_BYTES:
                    raise BoardError(
                        f"{self.address} closed the connection, or is not OpenOCD's Tcl server.",
                        hint="look at what OpenOCD prints; its Tcl port is 6666 unless set",
                    )
        except OSError as error:
            reason = "no answer in time" if isinstance(error, TimeoutError) else error.strerror
            raise BoardError(
                f"OpenOCD at {self.address} does not answer: {reason}.",
                hint="look at what OpenOCD prints; the port is that of its Tcl server, 6666 "
                "unless set, not of telnet or gdb",
            ) from error
        text = answer[:-1].decode(errors="replace")
        failed, _, result = text.partition(" ")
        if result.startswith("{") and result.endswith("}"):
            result = result[1:-1]
        if failed != "0":
            raise BoardError(
                f"OpenOCD at {self.address} reports: {result.strip() or text[:80]}.",
                hint="OpenOCD 0.12 or later, `init` in its configuration, and the board's power",
            )
        return result

    def words(self, address: int, count: int) -> list[int]:
        """Read words of 32 bits from the core's memory."""
        return self._numbers(self.run(f"read_memory {address:#x} 32 {count}"), count)

    def enable(self) -> None:
        """Switch the core's DWT on; it stays on."""
        self.run(
            f"write_memory {_DEMCR:#x} 32 [expr {{[read_memory {_DEMCR:#x} 32 1] | {_TRCENA:#x}}}]"
        )

    def program_counters(self) -> list[int]:
        """Read DWT_PCSR for about 0.02 s, at random times."""
        # Before each read is a random wait, exponentially distributed: on average twice as long as
        # a read, at least 1 ms. So no loop of the core keeps pace with the reads
        # (docs/decisions.md).
        mean_s = min(max(2 * self._read_s, _LEAST_MEAN_S), _MOST_MEAN_S)
        count = max(1, int(_REQUEST_S / (mean_s + self._read_s)))
        waits_s = (min(self._random.expovariate(1 / mean_s), _MOST_WAIT_S) for _ in range(count))
        waits = [round(each * 1e6) for each in waits_s]
        script = _READ % (_DWT_PCSR, " ".join(map(str, waits)))
        began_s = time.monotonic()
        answer = self.run(script, sum(waits) * 1e-6)
        took_us = round((time.monotonic() - began_s) * 1e6)
        spent, _, read = answer.partition(" ")
        found = self._numbers(read, count)
        # The clock of OpenOCD's host may have been set meanwhile.
        spent_us = min(max(self._integers(spent, answer, 1)[0], 0), took_us)
        self._read_s = spent_us * 1e-6 / count
        return [word if word == NO_PC else word & ~1 for word in found]

    def _numbers(self, text: str, count: int) -> list[int]:
        found = self._integers(text, text, count)
        if not all(0 <= each <= 0xFFFFFFFF for each in found):
            raise self._other_answer(text, count)
        return found

    def _integers(self, text: str, answer: str, count: int) -> list[int]:
        with contextlib.suppress(ValueError):
            found = [int(word, 0) for word in text.split()]
            if len(found) == count:
                return found
        raise self._other_answer(answer, count)

    def _other_answer(self, answer: str, count: int) -> BoardError:
        return BoardError(
            f"OpenOCD at {self.address} answered {answer[:60]!r}, not {count} numbers.",
            hint="OpenOCD 0.12 or later",
        )

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()


# -- samples -------------------------------------------------------------------------------------


_SOURCE = "DWT PCSR"

_CALLS_S = 1.0
"""Wall time of a request of many calls, seconds; between requests, samples hit the link's work."""

_MOST_ROUNDS = 1 << 20
_ENOUGH = 16
"""Reads after which they are judged if all are the same. Some hit the agent, after a request."""

_OF_AGENT, _STATE = "bp_", "bp_agent"
_WORDS = 16  # the boot id is among the first words of the agent's state
_COLLECTOR = 1  # mask of bp.measure: it must not be 0


def check_probed_board(probe: DebugProbe, image: Path, board: str, boot_id: int) -> None:
    """Check that a debug probe reads the board that runs the session, and switch its DWT on."""
    machine, state = read_if_possible(image, _machine_and_state) or ("", None)
    if machine != "EM_ARM":
        raise UsageError(
            f"{board} has no DWT_PCSR that a debug probe could read: it is not an Arm Cortex-M.",
            hint=f"leave out {option('--debug-probe')}",
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
    on_samples: Progress | None = None,
) -> Samples:
    """Call a function while a debug probe reads the core's program counter."""
    # Requests are not broken off, so there may be more samples than ``wanted``. There are fewer if
    # the function is too short to be hit.
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
    """Return how many calls take about `_CALLS_S`."""
    rounds = 1
    while (took_s := call(rounds)) < _CALLS_S / 2 and rounds < _MOST_ROUNDS:
        rounds = min(int(rounds * min(10, _CALLS_S / took_s)), _MOST_ROUNDS)
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
        if name in around or (name.startswith(_OF_AGENT) and name != function):
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
