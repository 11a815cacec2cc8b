# SPDX-License-Identifier: Apache-2.0
"""Holding a board against known work.

Functions of known work (``device_runtime_c/proof``, and what the board brings for counters of its
own) run with one, two and three times the rounds. What counts work must grow evenly with them; what
is exact must not differ from run to run; what a register reads must fit its declared width; what
counts things must count as many as there are; clocks must agree with each other, and with the
host's where they are no simulator's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from boardprof.board.board import Board
from boardprof.boards.board_file import BoardSpec
from boardprof.boards.finding import board_spec, default_board
from boardprof.connection import connect
from boardprof.errors import DecodeError, DeviceTimeoutError, UsageError
from boardprof.firmware.builder import build
from boardprof.resources import runtime_dir
from boardprof.run.proof.clocks import host_clock
from boardprof.run.proof.counters import counts
from boardprof.run.proof.finding import FAILED, SKIPPED, UNSUPPORTED, Finding
from boardprof.run.proof.memory import arena, stack

__all__ = ["proof_sources", "prove", "proved"]

_ROUNDS, _DEPTH = "proof_rounds", "proof_depth"


def proved(
    board: str | None,
    port: str | None = None,
    *,
    key_file: str | None = None,
    on_finding: Callable[[Finding], None] | None = None,
    on_note: Callable[[str], None] | None = None,
) -> list[Finding]:
    """Start a board with functions of known work, or take the one at ``port``, and prove it.

    Args:
        board: as for `connect`.
        port: as for `connect`; None starts the board.
        key_file: as for `connect`.
        on_finding: called with each finding as it is made.
        on_note: as for `connect`.

    Raises:
        UsageError: there is no such board, or what runs at the port has not these functions.
        BoardError: nothing answers. BuildError: the functions do not build for it.
    """
    if port is not None:
        with connect(board, port, key_file=key_file, on_note=on_note) as at_port:
            return prove(at_port, on_finding)
    spec = board_spec(board) if board is not None else default_board()
    with connect(spec, image=build(spec, proof_sources(spec)).image, on_note=on_note) as started:
        return prove(started, on_finding)


def proof_sources(spec: BoardSpec) -> list[str]:
    """Return the sources of the functions that a board must have for `prove`."""
    own = [spec.folder / path for path in spec.doctor.sources]
    return [str(path) for path in (*sorted((runtime_dir() / "proof").glob("*.c")), *own)]


def prove(board: Board, on_finding: Callable[[Finding], None] | None = None) -> list[Finding]:
    """Hold a board against known work.

    That no counter works, or that the board ends a call at its limit, is a finding too.

    Args:
        board: with the functions of `proof_sources`.
        on_finding: called with each finding as it is made.

    Raises:
        UsageError: the board does not have these functions.
    """
    own = {work.function for work in board.spec.doctor.work.values()}
    missing = sorted({_ROUNDS, _DEPTH, *own} - set(board.functions))
    if missing:
        raise UsageError(
            f"The firmware of {board.spec.name} has no functions of known work: it lacks "
            f"{', '.join(missing)}.",
            hint=_how_to_get_them(board.spec),
        )
    findings: list[Finding] = []
    for finding in _findings(board):
        findings.append(finding)
        if on_finding is not None:
            on_finding(finding)
    return findings


def _how_to_get_them(spec: BoardSpec) -> str:
    sources = " ".join(proof_sources(spec))
    if spec.launch.listen == "board":
        return f"boardprof agent serve -b {spec.name} {sources}"
    if spec.flash is not None:
        return f"boardprof flash -b {spec.name} {sources}"
    return f"run an agent with them; boardprof build -b {spec.name} {sources}"


def _findings(board: Board) -> Iterator[Finding]:
    for name, reason in board.device.unsupported.items():
        yield Finding(name, UNSUPPORTED, reason, is_counter=True)
    try:
        board.offer.passes(None)
    except UsageError as error:
        yield Finding("counters", FAILED, str(error))
        yield from host_clock(board)
        yield arena(board)
        yield Finding("stack", SKIPPED, "nothing can be measured")
        return
    yield from _within_limit(counts(board, _ROUNDS))
    if board.session.is_closed:  # the emulator was ended at the limit
        return
    yield from host_clock(board)
    yield arena(board)
    yield from _within_limit(stack(board, _DEPTH))


def _within_limit(findings: Iterator[Finding]) -> Iterator[Finding]:
    """Yield findings, up to a call that the board ends, or whose counters cannot be decoded."""
    try:
        yield from findings
    except DeviceTimeoutError as error:
        yield Finding("time limit", FAILED, str(error))
    except DecodeError as error:
        yield Finding("stack", SKIPPED, f"nothing can be measured: {error.message}")
