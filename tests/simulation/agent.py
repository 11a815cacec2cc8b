# SPDX-License-Identifier: Apache-2.0
"""The real agent on the board of ``board.c``, compiled and loaded."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cffi import FFI

from tests.support import AGENT, WARNINGS, agent_sources, defines, requires_tool, run

__all__ = ["CONFIG", "FUNCTIONS", "NEVER", "Agent", "Patch", "Ran", "build_agent"]

CONFIG = {
    "BP_CFG_MTU": 128,
    "BP_CFG_ARENA": 4096,
    "BP_CFG_HANDLES": 4,
    "BP_CFG_BULK": 128,
    "BP_CFG_CRC_TABLE": 1,
}

FUNCTIONS = ("note", "pop", "echo", "slow", "work")
"""Those of board.c, in the order of its table."""

NEVER = (1 << 64) - 1
"""When a board that waits for bytes goes on by itself."""

_CDEF = """
typedef struct { uint32_t function; uint32_t token; uint32_t digest; } sim_run_t;
extern sim_run_t sim_runs[4096];
extern uint32_t sim_ran, sim_popped, sim_boots, sim_overrun;
void sim_begin(uint32_t entropy);
void sim_reset(uint32_t entropy);
uint64_t sim_step(uint64_t clock, const uint8_t *bytes, size_t length);
size_t sim_take(uint8_t *out);
uint32_t sim_session(void);
uint32_t sim_boot_id(void);
"""


@dataclass(frozen=True)
class Patch:
    """A change of the agent's sources.

    Attributes:
        file: its name in ``src``.
        old: text that must stand there, once.
        new: what takes its place.
    """

    file: str
    old: str
    new: str


@dataclass(frozen=True)
class Ran:
    """What the board wrote down of one run of a function.

    Attributes:
        function: index in `FUNCTIONS`.
        token: its first argument.
        digest: of its other arguments.
    """

    function: int
    token: int
    digest: int


def build_agent(
    folder: Path, patches: Sequence[Patch] = (), config: Mapping[str, int] = CONFIG
) -> Path:
    """Compile agent and board as a shared library in ``folder``; return its path.

    Raises:
        AssertionError: the text that a patch replaces is not there, or there twice.
    """
    gcc = requires_tool("gcc", package="gcc")
    source = folder / "src"
    shutil.copytree(AGENT / "src", source)
    for patch in patches:
        path = source / patch.file
        text = path.read_text(encoding="utf-8")
        assert text.count(patch.old) == 1, f"{patch.file} has not just one:\n{patch.old}"
        path.write_text(text.replace(patch.old, patch.new), encoding="utf-8")
    names = [path.name for path in agent_sources()]
    warnings = [] if patches else WARNINGS  # what a patch leaves may be unused
    library = folder / "libsimulation.so"
    run(
        [
            gcc,
            *warnings,
            *("-std=gnu11", "-O2", "-g", "-fPIC", "-shared", "-Wl,-Bsymbolic"),
            *defines(dict(config)),
            f"-I{AGENT / 'include'}",
            f"-I{source}",
            *(source / name for name in names),
            Path(__file__).with_name("board.c"),
            *("-o", library),
        ]
    )
    return library


class Agent:
    """One board. The library holds its state: a process has one of each library."""

    def __init__(self, library: Path) -> None:
        """Load ``library``, of `build_agent`."""
        self._ffi = FFI()
        self._ffi.cdef(_CDEF)
        self._lib: Any = self._ffi.dlopen(str(library))
        self._out = self._ffi.new("uint8_t[]", 1 << 17)
        self._view = self._ffi.buffer(self._out)

    def begin(self, entropy: int) -> None:
        """Switch the board on at time 0, with nothing written down."""
        self._lib.sim_begin(entropy)

    def reset(self, entropy: int) -> None:
        """Start the board again in the middle of whatever it does."""
        self._lib.sim_reset(entropy)

    def step(self, now_us: int, data: bytes) -> int:
        """Give the board bytes and time; return when it wants to go on if nothing comes."""
        wake: int = self._lib.sim_step(now_us, data, len(data))
        return wake

    def take(self) -> bytes:
        """Return what the board has sent since the last time."""
        length = self._lib.sim_take(self._out)
        return self._view[:length] if length else b""

    @property
    def session(self) -> int:
        """The id of the session that the board is in, 0: none."""
        return int(self._lib.sim_session())

    @property
    def boot_id(self) -> int:
        """The boot id that it told some host, 0: none since its start."""
        return int(self._lib.sim_boot_id())

    @property
    def boots(self) -> int:
        """How often the board has started."""
        return int(self._lib.sim_boots)

    @property
    def popped(self) -> int:
        """How often the read-once register was read."""
        return int(self._lib.sim_popped)

    @property
    def overrun(self) -> int:
        """Bytes that were lost because the receiver was full."""
        return int(self._lib.sim_overrun)

    def ran(self) -> list[Ran]:
        """Return what ran, in order."""
        count = self._lib.sim_ran
        assert count < len(self._lib.sim_runs), "more ran than board.c can write down"
        runs: Any = self._ffi.unpack(self._lib.sim_runs, count) if count else []
        return [Ran(run.function, run.token, run.digest) for run in runs]
