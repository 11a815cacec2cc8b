# SPDX-License-Identifier: Apache-2.0
"""The fault matrix: every fault at every position of every kind of frame, on every board.

Run from the repository: ``python -m tests.faults [BOARD ...]``. Prints a table of boards and
faults, and ends with 1 when a fault was not survived. Survived means: the right answer or the
right typed error, nothing executed twice or with other arguments, and the next calls work.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable, Iterator, Sequence

from boardprof.target.descriptions.board import BoardSpec, board_spec, find_boards
from tests.faults.boards import OVER_RTT, Rig, Target, target_of
from tests.faults.cases import FAMILIES, STEPS, Family, damage
from tests.faults.events import EVENT_FAMILIES, EVENTS, event_outcomes
from tests.faults.sessions import HOST_KILLED, RESET, SESSION_ROWS, TWO_HOSTS, side_faults
from tests.faults.step import Outcome, Step

__all__ = ["applies", "board_outcomes", "frame_outcomes", "main", "side_outcomes", "table"]
__all__ += ["why_left_out"]

_HURRY = 60.0
_EVENT_POSITIONS = 200
"""Of each family, at random: frames with events are too long for every one."""

_NOT_APPLICABLE = "n/a"
_FOOT = """\
Positions that gave the right answer + positions that gave the right typed error. n/a: a board
within its host's process lives and dies with it, and nobody else can reach it."""


def applies(target: Target, row: str) -> bool:
    """Whether that fault can happen to that board."""
    return not (target.in_process and row in (HOST_KILLED, TWO_HOSTS))


def frame_outcomes(target: Target, tried: Iterable[tuple[Step, Sequence[Family]]]) -> list[Outcome]:
    """Try families on kinds of frames, with one start of the board.

    Ends at the first that was not survived: from there on the witness counts otherwise, and what
    is found would be its consequence.
    """
    rig = Rig(target, _HURRY)
    try:
        outcomes = []
        for step, families in tried:
            for outcome in (found for family in families for found in damage(rig, family, step)):
                outcomes.append(outcome)
                if outcome.wrong:
                    return outcomes
        return outcomes
    finally:
        rig.close()


def why_left_out(spec: BoardSpec) -> str:
    """Return why the matrix cannot be tried on a board; "" if it can."""
    if spec.launch.kind == "serial":
        return "it is a real board"
    if spec.launch.simulator is not None or spec.launch.node_package is not None:
        return "its simulator cannot reset it while it runs"
    return ""


def side_outcomes(target: Target, row: str) -> list[Outcome]:
    """Try every position of a fault of a whole side; in real time if another process takes part."""
    rig = Rig(target, 1.0 if row in (RESET, HOST_KILLED) else _HURRY)
    try:
        return list(side_faults(rig, row))
    finally:
        rig.close()


def board_outcomes(name: str) -> Iterator[Outcome]:
    """Try all that applies to one board."""
    target = target_of(name)
    try:
        for step in STEPS:
            if step.applies(target):
                yield from frame_outcomes(target, [(step, FAMILIES)])
        for row in SESSION_ROWS:
            if applies(target, row):
                yield from side_outcomes(target, row)
    finally:
        target.close()
    if target.spec.build.config.get("trace"):
        recorded = target_of(name, EVENTS)
        try:
            yield from event_outcomes(recorded, _EVENT_POSITIONS)
        finally:
            recorded.close()


def table(outcomes: dict[str, list[Outcome]]) -> str:
    """Return faults as rows and boards as columns."""
    rows = [family.name for family in EVENT_FAMILIES] + list(SESSION_ROWS)
    cells = [[row, *(_cell(row, outcomes[board]) for board in outcomes)] for row in rows]
    lines = [["fault", *outcomes], *cells]
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    shown = ["  ".join(_padded(line, widths)) for line in lines]
    shown.insert(1, "-" * len(shown[0]))
    return "\n".join([*shown, "", _FOOT])


def _padded(line: list[str], widths: list[int]) -> list[str]:
    return [line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])]


def _cell(row: str, outcomes: list[Outcome]) -> str:
    own = [outcome for outcome in outcomes if outcome.fault == row]
    if not own:
        return _NOT_APPLICABLE
    wrong = sum(bool(outcome.wrong) for outcome in own)
    errors = sum(bool(outcome.error) and not outcome.wrong for outcome in own)
    text = f"{len(own) - errors - wrong} + {errors}"
    return f"{text}, {wrong} WRONG" if wrong else text


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the matrix; return the exit status."""
    parser = argparse.ArgumentParser(description="Every fault at every position, on every board.")
    which = "default: all that can be tried; rtt:BOARD is a board through a debug probe"
    parser.add_argument("boards", nargs="*", metavar="BOARD", help=which)
    parser.add_argument("--json", action="store_true", help="print all outcomes as JSON")
    options = parser.parse_args(arguments)
    begin = time.monotonic()
    outcomes = {}
    for name in options.boards or (*sorted(find_boards()), *OVER_RTT):
        tried = options.boards or OVER_RTT
        if name not in tried and (why := why_left_out(board_spec(name))):
            print(f"{name}: left out: {why}", file=sys.stderr, flush=True)
            continue
        outcomes[name] = list(board_outcomes(name))
        print(f"{name}: {len(outcomes[name])} positions", file=sys.stderr, flush=True)
    every = [outcome for own in outcomes.values() for outcome in own]
    if options.json:
        boards = {name: [dict(vars(outcome)) for outcome in own] for name, own in outcomes.items()}
        print(json.dumps({"schema_version": 1, "boards": boards}, indent=1))
    else:
        print(table(outcomes))
        print(f"\n{len(every)} positions in {time.monotonic() - begin:.0f} s.")
        for name, outcome in ((name, each) for name, own in outcomes.items() for each in own):
            place = f"{name}: {outcome.fault}, {outcome.kind}, {outcome.position}"
            if outcome.wrong:
                print(f"{place}: {outcome.wrong}")
            elif outcome.late:
                print(f"{place}: {outcome.late}, and was in time when it was tried again")
    return any(outcome.wrong for outcome in every)
