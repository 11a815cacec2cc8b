# SPDX-License-Identifier: Apache-2.0
"""How firmware for a board is built: ``[build]`` of board.toml."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from boardprof.boards.agent_config import agent_options, check_config
from boardprof.resources import runtime_dir
from boardprof.toml_table import TomlTable

__all__ = ["BuildSpec", "read_build"]


@dataclass(frozen=True)
class BuildSpec:
    """How firmware for a board is compiled and linked: ``[build]``.

    Attributes:
        cc: the compiler, found on PATH.
        package: the Debian package that has ``cc``.
        size: the program that tells sections' sizes, None if there is none.
        cflags: for every compilation and for the link, without paths.
        ldflags: for the link, after the objects; relative paths begin at the
            board's folder.
        arch: folder below the agent's ``arch/``, compiled and on the include
            path; None for a board that brings everything itself.
        sources: the board's own C and assembler files, relative to its folder.
        link_script: relative to the board's folder.
        collectors: names as in ``bp_<name>.c``.
        config: option of ``bp_config.h`` in lower case, without ``BP_CFG_``.
        shared: link a shared library and no program.
        freestanding: without a libc: the agent brings what a compiler needs.
        own_main: the board's sources have the ``main``, not the agent.
        cxx: the C++ compiler; found beside ``cc`` by its name if None.
        cxx_package: the Debian package that has it; ``package`` if None.
        libc: of a freestanding board, for functions that need it: folder below the agent's
            ``libc/`` that ties it to the agent. None: there is none.
        libc_package: the Debian package that has it.
        libc_cflags: with which its headers and the library itself are found.
        libc_ldflags: for a link with it, in front of the objects.
        libc_heap: bytes for ``malloc``; 0: what calls it does not link.
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
    """Read ``[build]``.

    Raises:
        UsageError: an unknown key, a missing one or a wrong value.
    """
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
    check_config(table.table("config", required=False), spec.config)
    _check_libc(table, spec)
    for key, paths in (("sources", spec.sources), ("link_script", (spec.link_script,))):
        for path in paths:
            if path is not None and not (table.file.parent / path).is_file():
                raise table.error(key, f"there is no file {path!r} in the board's folder")
    return spec


def _check_libc(table: TomlTable, spec: BuildSpec) -> None:
    known = sorted(path.name for path in (runtime_dir() / "libc").iterdir() if path.is_dir())
    if spec.libc is not None and spec.libc not in known:
        raise table.error("libc", f"there is {' and '.join(known)}, not {spec.libc!r}")
    if (spec.libc is None) != (spec.libc_package is None):
        raise table.error("libc", "libc and libc_package go together")
    if spec.libc == "picolibc" and spec.own_main:
        raise table.error("libc", 'picolibc is set up before main, which is not with main = "port"')
    if spec.libc_heap < 0:
        raise table.error("libc_heap", f"bytes, 0 or more, are needed, not {spec.libc_heap}")
