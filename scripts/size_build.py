# SPDX-License-Identifier: Apache-2.0
"""What the agent costs on a target: built with an option, linked as a whole image, and measured.

A figure is the image with the agent less an image with an empty ``main``, both built as a board's
firmware is (``boardprof.build``): so it has everything that the agent brings along, its constants,
the board's port and what it takes from libgcc; the start-up code is in both and drops out.

Of an image only the sections with the flag ALLOC count: those that a target holds when it runs.
Debug information stays in the file. Unwind tables of GCC's own libraries (``.eh_frame``) would
count if an image had some.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile

from boardprof.base.files import runtime_dir
from boardprof.target.build.builder import build
from boardprof.target.descriptions.board import BoardSpec, board_spec
from scripts.stack_depth import CallGraph, Rules, deepest

__all__ = ["OPTIONS", "TARGETS", "Figures", "Option", "Sections", "StackRules", "Target", "measure"]

_MAIN = "int main(void) {\n    return 0;\n}\n"
_NOTHING = "void nothing(void);\n\nvoid nothing(void) {\n}\n"
_ROOT = "main"


@dataclass(frozen=True)
class Target:
    """A core, and the board whose port, link script and compiler stand for all boards with it.

    Attributes:
        name: as printed, and as in the table of budgets.
        board: the board's name.
        collector: the one of the smallest agent: the cheapest that works on this core.
        cflags: instead of the board's, which are for another core; empty for the board's own.
    """

    name: str
    board: str
    collector: str
    cflags: tuple[str, ...] = ()


TARGETS = (
    # The core has no cycle counter (ARMv6-M), so its one collector is the port's tick counter.
    Target("cortex-m0plus", "qemu-cortex-m3", "ticks", ("-mcpu=cortex-m0plus", "-mthumb")),
    Target("cortex-m3", "qemu-cortex-m3", "cycles32"),
    Target("rv32imac", "qemu-rv32", "cycles32"),
)


@dataclass(frozen=True)
class Option:
    """One thing that a board may add to the smallest agent.

    Attributes:
        name: as printed, and as in the table of budgets.
        config: what it sets in ``bp_config.h``, in lower case, without BP_CFG_.
        pair: two collectors, active at once: the board's first two.
    """

    name: str
    config: Mapping[str, int] = field(default_factory=dict)
    pair: bool = False


_CRC_TABLE = {"crc_table": 1}
_ARENA = {"arena": 4096}
_WINDOWS = {"open_windows": 4}
_CHANNELS = {**_ARENA, "bulk": 256}
_CLOCK = {"clock": 1}
_GUARD = {"guard": 1}
_STACK = {"stack": 4096}
_INTERRUPTS = {"interrupts": 1}
_PROBES = {**_CHANNELS, "stream": 1024, "trace": 1024, "trace_clock": 1}
_SAMPLING = {**_ARENA, **_GUARD, "sampling": 1}

OPTIONS = (
    Option("smallest"),
    Option("+crc table", _CRC_TABLE),
    Option("+arena", _ARENA),
    Option("+windows", _WINDOWS),
    Option("+channels", _CHANNELS),
    Option("+stream", {**_CHANNELS, "stream": 1024}),
    Option("+clock", _CLOCK),
    Option("+rtt", {"rtt": 256}),
    Option("+guard", _GUARD),
    Option("+stack", _STACK),
    Option("+interrupts", _INTERRUPTS),
    Option("+sampling", _SAMPLING),
    Option("+probes", _PROBES),
    Option("+second collector", pair=True),
    Option(
        "all",
        {
            **_CRC_TABLE,
            **_WINDOWS,
            **_CHANNELS,
            **_CLOCK,
            **_GUARD,
            **_STACK,
            **_INTERRUPTS,
            **_SAMPLING,
            **_PROBES,
        },
        pair=True,
    ),
)


@dataclass(frozen=True)
class Sections:
    """Bytes of the sections that a target holds.

    Attributes:
        text: those that are not written to: code and constants.
        data: those that are, with a value from the image.
        bss: those that are, without one; ``.noinit`` too.
    """

    text: int
    data: int
    bss: int

    @classmethod
    def read(cls, image: Path) -> Sections:
        """Add up the sections of an ELF file."""
        sizes = {"text": 0, "data": 0, "bss": 0}
        with image.open("rb") as stream:
            for section in ELFFile(stream).iter_sections():
                kind = _kind(section["sh_flags"], section["sh_type"])
                if kind is not None:
                    sizes[kind] += section["sh_size"]
        return cls(**sizes)

    def __sub__(self, other: Sections) -> Sections:
        """Return what this image has more than the other."""
        return Sections(self.text - other.text, self.data - other.data, self.bss - other.bss)


def _kind(flags: int, type_: str) -> str | None:
    """Return which of the sums a section belongs to, None if a target does not hold it."""
    if not flags & SH_FLAGS.SHF_ALLOC:
        return None
    if not flags & SH_FLAGS.SHF_WRITE:
        return "text"
    return "bss" if type_ == "SHT_NOBITS" else "data"


@dataclass(frozen=True)
class Figures:
    """What the agent costs on ``target`` with ``option``, in bytes.

    Attributes:
        text, data, bss: as in Sections.
        stack: of the deepest path from ``main``, with a measured function that needs none.
    """

    option: str
    target: str
    text: int
    data: int
    bss: int
    stack: int

    @property
    def ram(self) -> int:
        """Static memory: data and bss."""
        return self.data + self.bss


class StackRules:
    """The rules of ``stack_rules.toml``, cut to what one image has.

    An image without the arena, say, has none of its functions. So a rule may name more than there
    is, and a rule that never applies is found in the end, by ``unused``.
    """

    def __init__(self, path: Path) -> None:
        """Read the file; raises StackDepthError if it is wrong."""
        self._rules = Rules.load(path)
        self._used: set[str] = set()

    def for_graph(self, ci_files: Sequence[Path]) -> Rules:
        """Return the rules with only those callees that these call graphs define."""
        titles = CallGraph.read(ci_files).frames
        names = {title.rpartition(":")[2].partition(".")[0] for title in titles}
        self._used |= names
        indirect = {
            caller: [callee for callee in callees if callee in names]
            for caller, callees in self._rules.indirect.items()
        }
        return replace(self._rules, indirect=indirect)

    def unused(self) -> list[str]:
        """Return the callees that no image had: misspelt, or gone from the sources."""
        named = {name for callees in self._rules.indirect.values() for name in callees}
        return sorted(named - self._used)


def measure(target: Target, options: Sequence[Option], rules: StackRules) -> Iterator[Figures]:
    """Build the agent for a target with each of the options, and tell what it costs.

    Args:
        target: the core.
        options: one row each.
        rules: who is called through pointers.

    Raises:
        MissingToolError: the target's compiler is not installed.
        BuildError: something does not compile or link.
        StackDepthError: the rules lack something.
    """
    spec = _spec(target)
    with _scratch() as scratch:
        empty = Sections.read(_empty_image(spec, scratch))
        source = scratch / "nothing.c"
        source.write_text(_NOTHING, encoding="utf-8")
        for number, option in enumerate(options):
            calls = scratch / f"calls-{number}"
            calls.mkdir()
            image = build(_with_option(spec, target, option, calls), [source]).image
            cost = Sections.read(image) - empty
            files = sorted(calls.glob("*.ci"))
            stack = deepest(files, [_ROOT], rules.for_graph(files)).bytes
            yield Figures(option.name, target.name, cost.text, cost.data, cost.bss, stack)


def _spec(target: Target) -> BoardSpec:
    spec = board_spec(target.board)
    return replace(spec, build=replace(spec.build, cflags=target.cflags or spec.build.cflags))


def _with_option(spec: BoardSpec, target: Target, option: Option, calls: Path) -> BoardSpec:
    """Return the board with the agent's sizes as small as they go, and the option."""
    collectors = spec.build.collectors[:2] if option.pair else (target.collector,)
    config = {
        "active_collectors": len(collectors),
        "state_bytes": sum(map(_state_bytes, collectors)),
        "slot_bytes": 8,
        **option.config,
    }
    # GCC writes a .ci file beside each object, unless it gets another place.
    cflags = (*spec.build.cflags, "-fcallgraph-info=su", "-dumpdir", f"{calls}/")
    changed = replace(spec.build, collectors=collectors, config=config, cflags=cflags)
    return replace(spec, build=changed)


def _state_bytes(collector: str) -> int:
    """Return what a collector needs of BP_CFG_STATE_BYTES: what its blob has, aligned to 8."""
    header = (runtime_dir() / "include" / "boardprof" / "bp_wire.h").read_text(encoding="utf-8")
    found = re.search(rf"^#define BP_{collector.upper()}_LEN (\d+)u$", header, re.MULTILINE)
    if found is None:
        raise ValueError(f"bp_wire.h does not say how long the blob of {collector} is")
    return (int(found[1]) + 7) // 8 * 8


def _empty_image(spec: BoardSpec, scratch: Path) -> Path:
    """Build what is left of a board's firmware when its ``main`` does nothing."""
    folder = scratch / "empty"
    folder.mkdir()
    (folder / "main.c").write_text(_MAIN, encoding="utf-8")
    if spec.build.link_script is not None:
        shutil.copy(spec.folder / spec.build.link_script, folder / spec.build.link_script)
    empty = replace(spec.build, sources=("main.c",), collectors=(), config={}, own_main=True)
    return build(replace(spec, folder=folder, build=empty)).image


@contextmanager
def _scratch() -> Iterator[Path]:
    """Lend a folder, which is also the build's cache: what it has compiled before has no .ci."""
    before = os.environ.get("XDG_CACHE_HOME")
    with TemporaryDirectory(prefix="boardprof-size-") as name:
        os.environ["XDG_CACHE_HOME"] = name
        try:
            yield Path(name).resolve()
        finally:
            os.environ.pop("XDG_CACHE_HOME")
            if before is not None:
                os.environ["XDG_CACHE_HOME"] = before
