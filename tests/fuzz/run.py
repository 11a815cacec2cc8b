# SPDX-License-Identifier: Apache-2.0
"""Fuzzes the agent's receive path and the host's, for as long as there is time.

Run from the repository: ``python -m tests.fuzz.run SECONDS``, which is what ``make fuzz`` does. The
agent gets half of the time, under clang's libFuzzer with both sanitizers; what it finds is kept in
``build/fuzz``. The host gets the other half, by hypothesis, in whole rounds, each with
another seed. Ends with 1 when something was found.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.memory_board import CHANNELS
from tests.support import AGENT, C_TESTS, ROOT, WARNINGS, agent_sources, built_once, defines

__all__ = ["CORPUS", "HARNESSES", "Harness", "main"]

FUZZ = Path(__file__).resolve().parent
CORPUS = FUZZ / "corpus"
HOST_TESTS = ROOT / "tests" / "protocol" / "test_fuzz_host.py"

_SANITIZERS = ("-fsanitize=fuzzer,address,undefined", "-fno-sanitize-recover=all", "-g", "-O1")
# The calibration calls the empty function in place of one of any type; clang 17 began to ask in C.
_SANITIZERS += ("-fno-sanitize=function",)
_GUARDED = {**CHANNELS, "BP_CFG_GUARD": 1, "BP_CFG_INTERRUPTS": 1}


class Harness:
    """A fuzzer of the agent: one way to make input of bytes, and one configuration.

    Attributes:
        name: also that of its corpus.
    """

    def __init__(self, source: str, config: dict[str, int], longest: int) -> None:
        """Take ``tests/fuzz/fuzz_<source>.c``; ``longest`` is the most bytes of an input."""
        self.name = f"{source}-{config.get('BP_CFG_MTU', 256)}"
        self._source = source
        self._config = config
        self._longest = longest

    @property
    def corpus(self) -> Path:
        """The inputs that are kept in the repository."""
        return CORPUS / self.name

    def build(self, cc: str) -> Path:
        """Compile it with clang ``cc``; return the program."""
        sources = [*agent_sources(), AGENT / "collectors" / "bp_cycles_instret.c"]
        sources += [AGENT / "collectors" / "bp_ticks.c"]
        sources += [C_TESTS / "port_memory.c", C_TESTS / "firmware.c"]
        sources += [
            FUZZ / "fuzz_board.c",
            FUZZ / "fuzz_codec.c",
            FUZZ / "fuzz_oracle.c",
            FUZZ / f"fuzz_{self._source}.c",
        ]
        folders = (AGENT / "include", AGENT / "src", C_TESTS / "arch", C_TESTS, FUZZ)
        includes = [f"-I{path}" for path in folders]
        # gcc's attribute on the empty function of bp.measure is none of clang's.
        flags = [*WARNINGS, "-Wno-unknown-attributes", *_SANITIZERS, *defines(self._config)]
        return built_once([cc, *flags, *includes, *sources], f"fuzz-{self.name}")

    def command(self, program: Path, *corpora: Path, **options: int) -> list[str]:
        """Return what runs it; the first of ``corpora`` gets what it finds."""
        given = {"max_len": self._longest, "timeout": 20, "print_final_stats": 1, **options}
        flags = [f"-{name}={value}" for name, value in given.items()]
        return [str(program), *flags, *map(str, corpora)]


HARNESSES = (
    Harness("raw", _GUARDED, 4096),
    Harness("frames", _GUARDED, 2048),
    Harness("frames", {**_GUARDED, "BP_CFG_MTU": 64, "BP_CFG_BULK": 64}, 2048),
)


def _fuzz_agent(seconds: int) -> int:
    folder = ROOT / "build" / "fuzz"
    folder.mkdir(parents=True, exist_ok=True)
    found = 0
    for harness in HARNESSES:
        program = harness.build("clang")
        kept = folder / f"corpus-{harness.name}"
        kept.mkdir(exist_ok=True)
        command = harness.command(program, kept, harness.corpus, max_total_time=seconds)
        print(f"Fuzzing the agent: {harness.name}, {seconds} s ...", flush=True)
        code = subprocess.run([*command, f"-artifact_prefix={folder}/"], check=False).returncode
        found = found or code
    return found


def _fuzz_host(seconds: int) -> int:
    end = time.monotonic() + seconds
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-o", "timeout=1200", str(HOST_TESTS)]
    environment = {**os.environ, "BOARDPROF_FUZZ": "long"}
    rounds = 0
    while time.monotonic() < end:
        rounds += 1
        print(f"Fuzzing the host: round {rounds} ...", flush=True)
        code = subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
        if code != 0:
            return code
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Fuzz both sides; return the exit status."""
    parser = argparse.ArgumentParser(description="Fuzz the receive paths of agent and host.")
    parser.add_argument("seconds", type=int, help="how long, in all")
    seconds = parser.parse_args(arguments).seconds
    found = _fuzz_agent(max(1, seconds // (2 * len(HARNESSES))))
    found = _fuzz_host(max(1, seconds // 2)) or found
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
