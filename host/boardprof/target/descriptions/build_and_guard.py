# SPDX-License-Identifier: Apache-2.0
"""How firmware for a board is built: ``[build]``, the agent's options in it, and ``[guard]``.

``bp_config.h`` has all options with their defaults, and ``#error`` lines for wrong values.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import CodeType

from boardprof.base.resources import runtime_dir
from boardprof.base.toml_table import TomlTable
from boardprof_protocol.codes import FaultCause

_OPTION = r"(?m)^#define BP_CFG_([A-Z0-9_]+) (\d+)$"
_RULE = r'(?m)^#if (.+)\n#error "(.+)"$'
_RANGE = r"BP_CFG_\w+ is out of range \((.+)\)"
_NAME = r"BP_CFG_([A-Z0-9_]+)"


@functools.cache
def agent_options() -> Mapping[str, int]:
    """Return the options of ``bp_config.h``: name in lower case -> default."""
    return {name.lower(): int(value) for name, value in re.findall(_OPTION, _header())}


def _check_config(table: TomlTable, config: Mapping[str, int]) -> None:
    """Check ``build.config`` against the ``#error`` lines of ``bp_config.h``."""
    values = {**agent_options(), **config}
    for condition, message in _rules():
        if eval(condition, {"__builtins__": {}}, values):  # boardprof's own, not the user's
            named = [name.lower() for name in re.findall(_NAME, message)]
            key = next((name for name in named if name in config), named[0])
            found = re.fullmatch(_RANGE, message)
            text = f"must be {found[1]}, not {values[key]}" if found else message
            raise table.error(key, re.sub(_NAME, lambda name: name[1].lower(), text))


@functools.cache
def _header() -> str:
    return (runtime_dir() / "include" / "boardprof" / "bp_config.h").read_text(encoding="utf-8")


@functools.cache
def _rules() -> tuple[tuple[CodeType, str], ...]:
    """Return each condition that must be false, with the text of its error."""
    return tuple((_compiled(condition), text) for condition, text in re.findall(_RULE, _header()))


def _compiled(condition: str) -> CodeType:
    """Compile a condition of the preprocessor as Python, which spells operators differently."""
    python = re.sub(_NAME, lambda name: name[1].lower(), condition)
    python = python.replace("&&", " and ").replace("||", " or ")
    return compile(python, "bp_config.h", "eval")


@dataclass(frozen=True)
class BuildSpec:
    """How firmware for a board is compiled and linked: ``[build]``.

    Attributes:
        cflags: for every compilation and for the link, without paths.
        ldflags: for the link, after the objects; relative paths begin at the board's folder.
        arch: folder below the agent's ``arch/``, compiled and on the include path; None for a
            board that brings everything itself.
        sources: the board's own C and assembler files, relative to its folder.
        config: option of ``bp_config.h`` in lower case, without ``BP_CFG_``.
        freestanding: without a libc: the agent brings what a compiler needs.
        own_main: ``main`` is in the board's sources, not in the agent.
        cxx: the C++ compiler; None derives its name from ``cc``.
        cxx_package: the Debian package that has it; ``package`` if None.
        libc: for functions that need a C library on a freestanding board: folder below the agent's
            ``libc/`` that ties the library to the agent. None if absent.
        libc_heap: bytes for ``malloc``; with 0, code that calls it does not link.
    """

    cc: str
    package: str
    size: str | None = None
    cflags: tuple[str, ...] = ()
    ldflags: tuple[str, ...] = ()
    arch: str | None = None
    sources: tuple[str, ...] = ("port.c",)
    link_script: str | None = None
    collectors: tuple[str, ...] = ()
    config: Mapping[str, int] = field(default_factory=dict, hash=False)
    shared: bool = False
    freestanding: bool = False
    own_main: bool = False
    cxx: str | None = None
    cxx_package: str | None = None
    libc: str | None = None
    libc_package: str | None = None
    libc_cflags: tuple[str, ...] = ()
    libc_ldflags: tuple[str, ...] = ()
    libc_heap: int = 0


def read_build(table: TomlTable) -> BuildSpec:
    """Read ``[build]``."""
    spec = BuildSpec(
        cc=table.take("cc", str),
        package=table.take("package", str),
        size=table.take("size", str, None),
        cflags=table.texts("cflags"),
        ldflags=table.texts("ldflags"),
        arch=table.take("arch", str, None),
        sources=table.texts("sources", ("port.c",)),
        link_script=table.take("link_script", str, None),
        collectors=table.texts("collectors"),
        config=table.table("config", required=False).mapping(int, agent_options()),
        shared=table.choice("output", ("elf", "shared"), "elf") == "shared",
        freestanding=table.take("freestanding", bool, False),
        own_main=table.choice("main", ("src/bp_main.c", "port"), "src/bp_main.c") == "port",
        cxx=table.take("cxx", str, None),
        cxx_package=table.take("cxx_package", str, None),
        libc=table.take("libc", str, None),
        libc_package=table.take("libc_package", str, None),
        libc_cflags=table.texts("libc_cflags"),
        libc_ldflags=table.texts("libc_ldflags"),
        libc_heap=table.take("libc_heap", int, 0),
    )
    table.end()
    _check_config(table.table("config", required=False), spec.config)
    _check_libc(table, spec)
    for key, paths in (("sources", spec.sources), ("link_script", (spec.link_script,))):
        for path in paths:
            if path is not None and not (table.file.parent / path).is_file():
                raise table.error(key, f"there is no file {path!r} in the board's folder")
    return spec


def _check_libc(table: TomlTable, spec: BuildSpec) -> None:
    known = sorted(path.name for path in (runtime_dir() / "libc").iterdir() if path.is_dir())
    if spec.libc is not None and spec.libc not in known:
        raise table.error("libc", f"{spec.libc!r} is not known; known: {', '.join(known)}")
    if (spec.libc is None) != (spec.libc_package is None):
        raise table.error("libc", "libc and libc_package go together")
    if spec.libc == "picolibc" and spec.own_main:
        raise table.error("libc", 'picolibc needs a set-up that main = "port" does not do')
    if spec.libc_heap < 0:
        raise table.error("libc_heap", f"must be 0 bytes or more, not {spec.libc_heap}")


CAUSES = tuple(c.key for c in FaultCause if c not in (FaultCause.NONE, FaultCause.UNKNOWN))
"""The causes that a board may catch, in the order of their numbers."""

_UNGUARDED = "its agent is compiled without BP_CFG_GUARD"


@dataclass(frozen=True)
class GuardSpec:
    """What a board's guard can do: ``[guard]``.

    Attributes:
        missing: every other cause -> why the board cannot catch it.
    """

    catches: tuple[str, ...] = ()
    missing: Mapping[str, str] = field(
        default_factory=lambda: dict.fromkeys(CAUSES, _UNGUARDED), hash=False
    )

    def facts(self) -> list[dict[str, str | None]]:
        """Return each cause with the reason why it is not caught, or None; for JSON."""
        return [{"cause": cause, "not_caught": self.missing.get(cause)} for cause in CAUSES]


def read_guard(table: TomlTable | None, config: Mapping[str, int], build: TomlTable) -> GuardSpec:
    """Read ``[guard]``."""
    if table is None:
        if config.get("guard"):
            raise build.error(
                "config", "guard = 1 needs a table [guard] that lists what it catches"
            )
        return GuardSpec()
    if not config.get("guard"):
        raise table.error("catches", "nothing is caught without guard = 1 in build.config")
    catches = table.texts("catches", None)
    for cause in catches:
        if cause not in CAUSES:
            raise table.error("catches", f'"{cause}" is not a cause; known: {", ".join(CAUSES)}')
    missing = table.table("not", required=False).mapping(str, dict.fromkeys(CAUSES))
    table.end()
    for cause in CAUSES:
        told = catches.count(cause) + (cause in missing)
        if told != 1:
            what = f'"{cause}" is {"given twice" if told else "missing"}'
            raise table.error("catches", f"{what}: give it here, or with a reason in [guard.not]")
    return GuardSpec(tuple(c for c in CAUSES if c in catches), missing)
