# SPDX-License-Identifier: Apache-2.0
"""Sample where a board spends the time of a call: bp.sample of its agent (SPEC.md 5.11)."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgpack
import numpy as np

from boardprof.base.errors import DeviceError, FrameError, RpcError, UsageError, agent_option
from boardprof.measure.hotspots.record import CALL, ELSEWHERE, OTHER, Record, RecordedPath
from boardprof.measure.hotspots.symbolizer import profile_of
from boardprof.results.report.profile import Profile, SampledCalls
from boardprof.target.descriptions.board_lookup import board_spec, find_boards
from boardprof.target.elf.binutils import disassembly, objdump_of
from boardprof.target.elf.symbol_table import CodeRange, SymbolTable, symbol_table
from boardprof.wire.decode.dictionary import Dictionary, FunctionInfo
from boardprof_protocol.codes import ErrorCode
from boardprof_protocol.sampling import sample_layout

if TYPE_CHECKING:
    from boardprof.measure.sampling.counted_pass import PackedCall
    from boardprof.measure.sampling.placement import Placement
    from boardprof.measure.session.memory import Memory
    from boardprof.target.arguments.passing import Block
    from boardprof.wire.link.session import Session

SAMPLES = 1000
"""Samples that are wanted unless a number is given: shares to 3 percentage points."""

_SAMPLE, _SAMPLING = "bp.sample", "bp.sampling"

_FEWEST = 16
"""Samples that the free part of the arena must hold. Half of them is room for the last call's."""

_MOST_CALLS = 200_000
LONGEST_S = 30.0
"""Calls, and wall time in seconds, after which a short function has been tried long enough."""

_CALLS_AT_ONCE = 10_000

_AGENT = ("bp_thunk", "bp_sampled", "bp_port_sample_")
"""Beginnings of the names of the agent's functions that may be hit while the timer runs."""

_UNNAMED = CodeRange(ELSEWHERE, ELSEWHERE + 1, "(code without a name)")
"""Stands for shared libraries, ROM, and assembly code without a symbol."""

OnSamples = Callable[[int, int], None]
"""Called with (samples so far, samples wanted)."""


@dataclass(frozen=True)
class SampledBoard:
    """A board whose agent takes samples.

    Attributes:
        name: of the board.
        session: with it.
        memory: its arena.
        sampler: its bp.sample.
        timer: that interrupts the function.
        usual: about a third of the time between samples, in ticks of the timer.
        pointer_size: bytes of a pointer.
    """

    name: str
    session: Session
    memory: Memory
    sampler: FunctionInfo
    timer: str
    usual: int
    pointer_size: int


@dataclass(frozen=True)
class SampledImage:
    """What a sampled board runs.

    Attributes:
        file: the image.
        table: its functions.
        compiler: that made it, whose objdump reads it.
        sources: files that it was made of.
    """

    file: Path
    table: SymbolTable
    compiler: str
    sources: tuple[Path, ...]


def sampled_image(
    file: Path, function: str, compiler: str, sources: Iterable[Path]
) -> SampledImage:
    """Read the functions of an image.

    Raises:
        UsageError: it has no symbols.
    """
    table = symbol_table(file)
    if function not in table.entries:
        raise UsageError(
            f"{file} has no symbols, so there is no way to tell what samples hit.",
            hint="use the image as the linker wrote it, before strip",
        )
    return SampledImage(file, table, compiler, tuple(sources))


@dataclass
class Samples:
    """What samples have hit.

    Attributes:
        hits: program counter -> samples.
        timer: that has interrupted the function, or what else has taken the samples.
        calls: of the function.
        outside: samples that hit the agent, or another task's stack.
        unreadable: reads of a debug probe that have found no program counter.
    """

    hits: Counter[int]
    timer: str
    calls: int = 0
    outside: int = 0
    unreadable: int = 0

    @property
    def count(self) -> int:
        """Number of samples in the call."""
        return self.hits.total()


def sampled_board(
    name: str, session: Session, memory: Memory, dictionary: Dictionary, pointer_size: int
) -> SampledBoard:
    """Ask a board how it takes samples.

    Raises:
        UsageError: it takes none.
    """
    found = {each.name: each for each in dictionary.functions}
    if _SAMPLE not in found or _SAMPLING not in found:
        able = [each for each in find_boards() if board_spec(each).build.config.get("sampling")]
        raise UsageError(
            f"{name} cannot sample its calls: its agent has no {_SAMPLE}.",
            hint=f"take one of {', '.join(able)}; firmware of your own needs BP_CFG_SAMPLING=1, an "
            "arena and the guard",
        )
    value: Any = session.invoke(found[_SAMPLING].id, _SAMPLING)
    match value:
        case [str(timer), int(), int(usual), *_] if usual > 0:
            return SampledBoard(name, session, memory, found[_SAMPLE], timer, usual, pointer_size)
    raise FrameError(f"{_SAMPLING} returned {value!r:.60}, not [timer, least, usual].")


def take_samples(
    board: SampledBoard,
    placement: Placement,
    function: FunctionInfo,
    table: SymbolTable,
    wanted: int,
    seed: int,
    on_samples: OnSamples | None = None,
) -> Samples:
    """Call a function until there are enough samples of it.

    Args:
        board: takes them.
        placement: of the arguments; they are put back before each call.
        function: to call.
        table: the functions of the image, to tell the agent's.
        wanted: number of samples, 1 or more. The last call is not broken off, so there may be more.
        seed: of the random times between samples.
        on_samples: called now and then.

    Returns:
        The samples. They are fewer than wanted if the function is too short to be hit.

    Raises:
        UsageError: the arena is full.
        CheckFailedError: the function's own check says that its result is wrong.
        BoardprofError: as a call of the function.
    """
    layout = sample_layout(board.pointer_size)
    record = np.dtype(layout.dtype)
    size = record.itemsize
    seeds = random.Random(seed)
    found = Samples(Counter(), board.timer)
    half = board.usual
    taken_so_far = 0
    block, capacity = _reserve(board, wanted, size)
    try:
        deadline_s = time.monotonic() + LONGEST_S
        while found.count < wanted and found.calls < _MOST_CALLS:
            if found.calls >= _CALLS_AT_ONCE and time.monotonic() > deadline_s:
                break
            placement.send_again()
            rounds = 1 if placement.sends_again else _CALLS_AT_ONCE
            want = min(wanted - found.count, capacity // 2)
            asked = (function.id, block.handle, half, seeds.getrandbits(32), rounds, want)
            done, count, half, top = _request(board, placement.call(function), asked)
            content = board.memory.read(block, count * size) if count else b""
            taken = np.frombuffer(content, record)
            on_stack = taken["sp"].ravel() <= top
            places = taken["pc"].ravel()[on_stack].tolist()
            found.hits.update(pc for pc in places if not _is_agents(table, pc))
            taken_so_far += count
            found.outside = taken_so_far - found.count
            found.calls += done
            if on_samples is not None:
                on_samples(min(found.count, wanted), wanted)
    finally:
        board.memory.release([block], now=False)
    placement.check()
    return found


def _reserve(board: SampledBoard, wanted: int, size: int) -> tuple[Block, int]:
    """Return a block of the arena for samples, and how many it holds."""
    free = board.memory.size - board.memory.held_bytes
    count = min(max(2 * wanted, _FEWEST), free // size)
    while count >= _FEWEST:
        try:
            return board.memory.alloc(count * size), count
        except RpcError as error:
            if error.code != ErrorCode.NO_MEMORY:
                raise
            count //= 2  # the free part has holes
    raise UsageError(
        f"There is no room for samples in the arena of {board.name}: {free:,} of "
        f"{board.memory.size:,} bytes are free, and {_FEWEST * size} are needed.",
        hint="pass smaller arrays, or compile the agent with a larger " + agent_option("arena"),
    )


def _request(
    board: SampledBoard, call: PackedCall, asked: tuple[int, ...]
) -> tuple[int, int, int, int]:
    """Make one request; return calls, samples, the last half delay, and the stack pointer."""
    content = b"".join(map(msgpack.packb, asked)) + call.content
    count = call.count + len(asked)
    value: Any = board.session.value(board.sampler.id, content, count, call.function.name)
    match value:
        case [int(done), int(samples), int(half), int(top), *_] if half > 0:
            return done, samples, half, top
    raise FrameError(f"{_SAMPLE} returned {value!r:.60}, not [calls, samples, delay, stack].")


def sampled_profile(
    samples: Samples,
    board: str,
    function: str,
    image: SampledImage,
    wanted: int,
    seed: int,
) -> Profile:
    """Return the profile that samples make.

    Args:
        samples: of a function.
        board: where, by name.
        function: its name.
        image: what the board runs.
        wanted: as for `take_samples`.
        seed: likewise.

    Raises:
        DeviceError: no sample hit the call.
        BuildError: the lines of the image cannot be looked up.
    """
    if not samples.count:
        raise DeviceError(
            f"No sample hit {function} on {board} in {samples.calls:,} calls: a call is too short.",
            hint="sample a function that calls it in a loop",
        )
    table = SymbolTable([*image.table.functions, _UNNAMED], image.table.entries)
    return profile_of(
        _record(samples.hits, table, image.table.entries[function]),
        table,
        image.file,
        function,
        board,
        {},
        disassembly(image.file, objdump_of(image.compiler)),
        image.sources,
        SampledCalls(
            samples.calls,
            samples.timer,
            wanted,
            seed,
            samples.outside,
            samples.unreadable,
        ),
    )


def _is_agents(table: SymbolTable, pc: int) -> bool:
    code = table.at(pc)
    return code is not None and code.name.startswith(_AGENT)


def _record(hits: Mapping[int, int], table: SymbolTable, entry: int) -> Record:
    """Return samples as a record: all functions are below the called one."""
    record = Record(("samples",), "complete", (sum(hits.values()),))
    record.paths = [RecordedPath(-1, 0, 0) for _ in range(OTHER + 1)]
    record.paths[CALL] = RecordedPath(-1, entry, 0)
    record.totals[entry] = record.total
    paths = {entry: CALL}
    for pc, count in sorted(hits.items()):
        code = table.at(pc)
        low, place = (_UNNAMED.low, _UNNAMED.low) if code is None else (code.low, pc)
        if low not in paths:
            paths[low] = len(record.paths)
            record.paths.append(RecordedPath(CALL, low, 0))
        record.counts.setdefault((paths[low], place), [0])[0] += count
    return record
