# SPDX-License-Identifier: Apache-2.0
"""Checks of counters with functions of known work: loads, branches, the products of a job.

What a round of the agent's functions has (``device_runtime_c/proof/work.c``) is in one table, by
the counters' generic names; a board's own counters have theirs in board.toml, ``[doctor.work]``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from boardprof.board.board import Board
from boardprof.boards.events_and_formulas import KnownWork
from boardprof.doctor.finding import FAILED, OK, SKIPPED, UNSUPPORTED, Finding, listed
from boardprof.doctor.growth import Steps, amount, stepped

_WORK: Mapping[str, KnownWork] = {
    "loads": KnownWork("proof_loads", 1),
    "stores": KnownWork("proof_stores", 1),
    "branches": KnownWork("proof_branches", 2),
    "branches-taken": KnownWork("proof_branches", 1),
    "jumps": KnownWork("proof_jumps", 2),
    "multiplications": KnownWork("proof_multiplications", 1),
    "divisions": KnownWork("proof_divisions", 1),
    "compressed-instructions": KnownWork("proof_compressed", 2),
}

_EXACT_ROUNDS = 50
"""Where nothing else is counted, a few are as good as many."""

_NOISE = (4, 0.1)
"""Counts, and the share, by which a board on a desk may be off, for its interrupts."""


def known_counts(board: Board, names: Sequence[str], rounds: int) -> Iterator[Finding]:
    """Compare counters with the known amount of the events that they count.

    Args:
        board: with the functions of known work.
        names: of counters or events; the board must offer all of them.
        rounds: enough that events outside the work do not matter.
    """
    works = {name: _work_for(board, name) for name in names}
    for name in (name for name, work in works.items() if work is None):
        yield Finding(name, SKIPPED, "no known work for it", is_counter=True)
    known = {name: work for name, work in works.items() if work is not None}
    rounds = _EXACT_ROUNDS if board.device.emulated else rounds
    for function in dict.fromkeys(work.function for work in known.values()):
        group = [name for name, work in known.items() if work.function == function]
        steps = stepped(board, function, rounds, group)
        for name in group:
            yield Finding(name, *_judged(board, name, known[name], steps), is_counter=True)


def plain_name(board: Board, name: str) -> str:
    """Return a counter's name without its collector's, which is there if another one has it."""
    for collector in board.device.collectors:
        name = name.removeprefix(f"{collector.name}.")
    return name


def _work_for(board: Board, name: str) -> KnownWork | None:
    plain = plain_name(board, name)
    own = board.spec.doctor.work
    work = own.get(name) or own.get(plain) or _WORK.get(plain)
    return work if work is not None and work.function in board.functions else None


def _judged(board: Board, name: str, work: KnownWork, steps: Steps) -> tuple[str, str]:
    if name not in steps.first.counters:
        why = steps.first.device.unsupported.get(name, "it was not counted")
        return UNSUPPORTED, why
    unit = steps.unit(name)
    right = work.per_round * steps.rounds
    nets = steps.nets(name)
    least = [min(values) for values in nets]
    each = f"{amount(work.per_round, unit)} in each round of {work.function}"
    if board.device.emulated:
        found = {later - before for before, later in zip(nets[0], nets[1], strict=True)}
        found |= {later - before for before, later in zip(nets[1], nets[2], strict=True)}
        if found == {right}:
            return OK, f"{each}, exactly"
    else:
        counts, share = _NOISE
        allowed = max(counts, share * right)
        grown = (least[1] - least[0], least[2] - least[1])
        if all(abs(step - right) <= allowed for step in grown):
            return OK, f"{each}, within {100 * share:.0f} %"
    seen = listed(least, unit)
    times = ", ".join(f"{steps.rounds * n:,}" for n in (1, 2, 3))
    return FAILED, f"{seen} in {times} rounds of {work.function}; it should be {each}"
