# SPDX-License-Identifier: Apache-2.0
"""Sample where a board spends the time of a call: bp.sample of its agent (SPEC.md 5.11)."""

from __future__ import annotations

import contextlib
import random
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgpack
import numpy as np

from boardprof.base.errors import (
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
from boardprof.wire.decode.dictionary import FunctionInfo
from boardprof_protocol.codes import ErrorCode
from boardprof_protocol.sampling import sample_layout

_SAMPLE, _SAMPLING = "bp.sample", "bp.sampling"

_FEWEST = 16
"""Samples that the free part of the arena must hold. Half of them is room for the last call's."""

_MOST_CALLS = 200_000
"""Calls after which a short function has been tried long enough."""

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
            from boardprof.measure.hotspots import debug_probe  # later: few boards have one

            reader = stack.enter_context(contextlib.closing(debug_probe.DebugProbe(probe, seed)))
            debug_probe.check_probed_board(reader, file, board, link.device.boot_id)
            take = partial(debug_probe.take_probe_samples, reader, link.session)
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
            found.calls, found.timer, rounds.repeat, seed, found.outside, found.unreadable
        ),
    )


@dataclass(frozen=True)
class _Timer:
    """How a board's agent takes samples."""

    sampler: FunctionInfo  # its bp.sample
    name: str
    usual: int  # about a third of the time between samples, in ticks of the timer


def _timer_of(link: BoardLink) -> _Timer:
    """Ask a board how it takes samples."""
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
