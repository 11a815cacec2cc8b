# SPDX-License-Identifier: Apache-2.0
"""How many instructions functions of a firmware execute in QEMU.

The plugin of tests/tools counts them: nothing of the agent takes part in the counting.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from boardprof.base.errors import MissingToolError
from boardprof.target.build.builder import build
from boardprof.target.descriptions.board import BoardSpec, board_spec
from boardprof.target.elf.addresses import disassembly, objdump_of, symbol_table
from tests.tools.insn_count import build_plugin, plugin_argument, read_counts, symbol_range

_DEADLINE_S = 60.0

_RISCV = "*(volatile uint32_t *)0x00100000u = 0x5555;"
_CORTEX_M = "*(volatile uint32_t *)0xe000ed0cu = 0x05fa0004;"
END = {
    "qemu-rv32": _RISCV,
    "qemu-rv64": _RISCV,
    **dict.fromkeys((f"qemu-cortex-m{n}" for n in (3, 4, 7, 33, 55)), _CORTEX_M),
    **dict.fromkeys(("microbit", "netduinoplus2"), _CORTEX_M),
    "qemu-cortex-a53": '__asm__ volatile("ldr w0, =0x84000008\\n hvc 0" ::: "x0");',
}
"""C that ends the emulator: a word to QEMU's test device; a reset (AIRCR), with -no-reboot; PSCI's
SYSTEM_OFF."""


class BenchmarkError(Exception):
    """The emulator did not do what was asked of it."""


def counted(
    board: str,
    text: str,
    level: str,
    symbols: Sequence[str],
    callers: Sequence[str],
    collectors: tuple[str, ...] = (),
    config: Mapping[str, int] | None = None,
    files: Mapping[str, str] | None = None,
    inspect: Callable[[Path], None] = lambda _: None,
) -> dict[str, Sequence[int]]:
    """Run a ``main`` and return how many instructions each call of some functions took.

    Args:
        board: an emulated one, whose objects are linked.
        text: the source of ``main``, which ends the emulator.
        level: of optimization.
        symbols: of the functions.
        callers: functions that they return to.
        collectors: that are linked.
        config: options of the agent that differ from the board's.
        files: further files beside the main one, by name.
        inspect: called with the image before it runs.

    Raises:
        MissingToolError: the board's compiler or emulator is not installed.
        BuildError: the firmware does not compile or link.
        InsnCountError: the plugin cannot be built, or its output makes no sense.
        BenchmarkError: the emulator failed, or a function was not called.
    """
    with _built(board, text, level, collectors, config, files or {}) as (spec, image, scratch):
        inspect(image)
        entries = {symbol: symbol_range(image, symbol)[0] for symbol in symbols}
        stops = [symbol_range(image, caller) for caller in callers]
        out = scratch / "counts"
        _emulate(spec, image, plugin_argument(build_plugin(), list(entries.values()), stops, out))
        counts = read_counts(out)
    missing = [symbol for symbol, entry in entries.items() if not counts.get(entry)]
    if missing:
        raise BenchmarkError(f"{', '.join(missing)} did not run")
    return {symbol: counts[entry] for symbol, entry in entries.items()}


_MASKS = re.compile(
    r"csrr?ci?\t(?:\w+,)?mstatus,8|cpsid\ti|msr\tbasepri_max, \w+|msr\tdaifset, #0x3",
    re.ASCII | re.IGNORECASE,
)
_RESTORES = re.compile(
    r"csrw\tmstatus,\w+|msr\t(?:primask|basepri), \w+|msr\tdaif, \w+", re.ASCII | re.IGNORECASE
)
"""Instructions of bp_arch_lock and bp_arch_unlock, as objdump prints them."""


def masked(
    board: str, text: str, level: str, config: Mapping[str, int] | None = None
) -> dict[str, int]:
    """Run a ``main`` and return how many instructions ran with interrupts off, at most.

    Args:
        board: as for `counted`, as the others are.
        text: the source of ``main``.
        level: of optimization.
        config: options of the agent.

    Returns:
        The most of each function that turned them off, up to the instruction that turned them on.

    Raises:
        As `counted`.
    """
    with _built(board, text, level, (), config, {}) as (spec, image, scratch):
        code = disassembly(image, objdump_of(spec.build.cc))
        masks = [address for address, each in code.items() if _MASKS.match(each)]
        restores = [address for address, each in code.items() if _RESTORES.match(each)]
        stops = [(address, address + 2) for address in restores]
        out = scratch / "counts"
        _emulate(spec, image, plugin_argument(build_plugin(), masks, stops, out, nested=True))
        counts, functions = read_counts(out), symbol_table(image)
    found: dict[str, int] = {}
    for address, each in counts.items():
        function = functions.at(address)
        name = function.name.partition(".")[0] if function else f"{address:#x}"
        found[name] = max(found.get(name, 0), *each)
    return found


@contextmanager
def _built(
    board: str,
    text: str,
    level: str,
    collectors: tuple[str, ...],
    config: Mapping[str, int] | None,
    files: Mapping[str, str],
) -> Iterator[tuple[BoardSpec, Path, Path]]:
    """Build a ``main`` for a board; yield the board, the image, and a folder for further files."""
    with TemporaryDirectory(prefix="boardprof-bench-") as name:
        scratch = Path(name).resolve()
        spec = board_spec(board)
        shutil.copytree(spec.folder, scratch / "board")
        sources = {"bench_main.c": text, **files}
        for file, content in sources.items():
            (scratch / "board" / file).write_text(content, encoding="utf-8")
        changed = replace(
            spec.build,
            collectors=collectors,
            sources=(*spec.build.sources, *(file for file in sources if file.endswith(".c"))),
            own_main=True,
            cflags=(*spec.build.cflags, level),
            config={**spec.build.config, **(config or {})},
        )
        yield spec, build(replace(spec, folder=scratch / "board", build=changed)).image, scratch


def _emulate(spec: BoardSpec, image: Path, plugin: Sequence[str]) -> None:
    command = [*_without_line(spec, image), "-no-reboot", *plugin]
    if shutil.which(command[0]) is None:
        raise MissingToolError(command[0], spec.launch.package or command[0])
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_DEADLINE_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise BenchmarkError(f"{command[0]} did not end within {_DEADLINE_S:.0f} s") from error
    if done.returncode != 0:
        raise BenchmarkError(f"{command[0]} ended with {done.returncode}:\n{done.stderr.rstrip()}")


def _without_line(spec: BoardSpec, image: Path) -> Iterator[str]:
    """Yield the command that launches the board, with nothing at its serial line."""
    arguments = iter(spec.launch.command)
    for argument in arguments:
        yield argument.replace("{image}", str(image))
        if argument == "-serial":
            next(arguments)
            yield "null"
