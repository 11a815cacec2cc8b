# SPDX-License-Identifier: Apache-2.0
"""1 MiB from a board's memory, and the same through eRPC's Python stack and through rpyc."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.rpc_processes import BENCH, HOST_CORE, BenchmarkError, pinned, serving
from boardprof.measure.board.board import Board
from boardprof.measure.connect import connect

__all__ = ["SYSTEMS", "Bulk", "measure_bulk", "other_python"]

SYSTEMS = {"erpc": "erpc==1.14.0", "rpyc": "rpyc==6.0.2"}
"""What stands beside boardprof, and what of it is installed."""

_SIZE = 1 << 20
_ROUNDS = 9
_OTHERS = Path(__file__).with_name("rpc_others.py")
_INSTALL_S = 300.0


@dataclass(frozen=True)
class Bulk:
    """Seconds for 1 MiB, of each round.

    Attributes:
        random_s: boardprof, random bytes.
        zeros_s: boardprof, zeros.
        others_s: random bytes by the other systems.
    """

    random_s: tuple[float, ...]
    zeros_s: tuple[float, ...]
    others_s: dict[str, tuple[float, ...]]

    @property
    def random_mb_s(self) -> float:
        """Millions of bytes in a second, the rounds' median."""
        return _SIZE / 1e6 / median(self.random_s)

    @property
    def zeros_mb_s(self) -> float:
        """Likewise, of zeros."""
        return _SIZE / 1e6 / median(self.zeros_s)

    def ratios(self, system: str) -> list[float]:
        """How many times as long ``system`` took, of each round."""
        pairs = zip(self.others_s[system], self.random_s, strict=True)
        return [theirs / ours for theirs, ours in pairs]


def other_python() -> Path:
    """Return the Python that has the other systems; makes its environment first, once.

    Raises:
        BenchmarkError: they cannot be installed.
    """
    folder = BENCH.with_name("bench-venv")
    python = folder / "bin" / "python"
    installed = folder / "installed"
    wanted = " ".join(sorted(SYSTEMS.values()))
    if installed.is_file() and installed.read_text(encoding="ascii") == wanted:
        return python
    print(f"Installing {wanted} into {folder.name} ...", file=sys.stderr)
    for command in (
        [sys.executable, "-m", "venv", str(folder)],
        [str(python), "-m", "pip", "install", "-q", *SYSTEMS.values()],
    ):
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=_INSTALL_S, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise BenchmarkError(f"{wanted} were not installed in {_INSTALL_S:.0f} s") from error
        if done.returncode != 0:
            raise BenchmarkError(
                f"{wanted} cannot be installed: can PyPI be reached?\n{done.stderr.strip()}"
            )
    installed.write_text(wanted, encoding="ascii")
    return python


def measure_bulk(image: Path) -> Bulk:
    """Measure with the agent ``image``.

    Raises:
        BenchmarkError: a system cannot be run, or gave back other bytes than it should.
    """
    python = other_python()
    with contextlib.ExitStack() as stack:
        where = stack.enter_context(serving([image, "--listen", "127.0.0.1:0"]))
        others = {name: stack.enter_context(_other(python, name)) for name in SYSTEMS}
        stack.enter_context(pinned(HOST_CORE))
        board = stack.enter_context(connect("linux", f"socket://{where}"))
        ours = {name: _reader(board, content) for name, content in _contents().items()}
        everyone = {**ours, **others}
        for one in everyone.values():
            one()
        taken: dict[str, list[float]] = {name: [] for name in everyone}
        for _ in range(_ROUNDS):
            for name, one in everyone.items():
                taken[name].append(one())
    return Bulk(
        tuple(taken["random"]),
        tuple(taken["zeros"]),
        {name: tuple(taken[name]) for name in SYSTEMS},
    )


def _contents() -> dict[str, bytes]:
    return {"random": os.urandom(_SIZE), "zeros": bytes(_SIZE)}


def _reader(board: Board, content: bytes) -> Callable[[], float]:
    """Put ``content`` on the board; return what reads it once and tells the seconds."""
    block = board.memory.alloc(len(content))
    board.memory.write(block, content)

    def read() -> float:
        begin = time.perf_counter()
        found = board.memory.read(block)
        elapsed_s = time.perf_counter() - begin
        if found != content:
            raise BenchmarkError("the board gave back other bytes than were written")
        return elapsed_s

    return read


@contextlib.contextmanager
def _other(python: Path, system: str) -> Iterator[Callable[[], float]]:
    """Yield what fetches 1 MiB by ``system`` once, both its ends pinned, and tells the seconds."""
    with serving([python, _OTHERS, "serve", system]) as where:
        with pinned(HOST_CORE):
            client = subprocess.Popen(
                [str(python), str(_OTHERS), "fetch", system, where, str(_SIZE)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        with client:
            try:
                yield lambda: _ask(client, system)
            finally:
                client.terminate()


def _ask(client: subprocess.Popen[str], system: str) -> float:
    assert client.stdin is not None
    assert client.stdout is not None
    client.stdin.write("\n")
    client.stdin.flush()
    answer = client.stdout.readline().split()
    if len(answer) != 2:
        raise BenchmarkError(f"{system}'s client has ended")
    return float(answer[0])
