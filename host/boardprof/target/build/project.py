# SPDX-License-Identifier: Apache-2.0
"""The function table of a firmware project that has its own build.

``BP_FUNCTION(name)`` (``bp_function.h``) leaves a symbol in the object. Registered functions and
their parameters are read from the project's objects. The project's build then compiles the table
like any other source.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from elftools.elf.elffile import ELFFile

from boardprof.base.errors import BuildError, UsageError
from boardprof.base.files import runtime_dir, unwritable
from boardprof.target.build.glue import fit, table_source
from boardprof.target.cfunction import CFunction
from boardprof.target.descriptions.board import is_board_name
from boardprof.target.descriptions.tables import agent_options
from boardprof.target.elf.functions import functions, hidden_functions
from boardprof.target.elf.object_file import OBJECT, images, read_image, symbols
from boardprof.target.toolchain.cache import digest

_MARK = "bp_function_of_"
_COLLECTOR = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_MOST_COLLECTORS = 8


def registered(objects: Sequence[Path], config: Mapping[str, int] | None = None) -> list[CFunction]:
    """Return the functions that ``objects`` register, by name; ``config`` as in `BuildSpec`."""
    every = (image for path in objects for image in images(path))
    names = sorted({name for image in every for name in read_image(image, _marks)})
    if not names:
        raise BuildError(
            f"No function is registered in {_listed(objects)}.",
            hint="write BP_FUNCTION(name); after the function, and compile without -flto or with "
            "-ffat-lto-objects",
        )
    options = {**agent_options(), **(config or {})}
    defined = {fn.name: fn for fn in functions(objects)}
    found = []
    for name in names:
        in_scope = [fn for fn in defined.values() if fn.linkage and fn.name.endswith(f"::{name}")]
        named = [defined[name]] if name in defined else in_scope
        if len(named) != 1:
            raise _missing(name, objects)
        fn = fit(named[0], options)
        if fn.reason is not None:
            raise _not_callable(fn)
        found.append(fn)
    return found


def project_table(
    board: str,
    objects: Sequence[Path],
    found: Sequence[CFunction],
    collectors: Sequence[str] = (),
    config: Mapping[str, int] | None = None,
    also: Sequence[Path] = (),
) -> str:
    """Return the text of ``bp_table.c`` for a project.

    Its build id covers ``objects``, ``also``, the agent's sources, its options and the collectors,
    but not the rest of the project's link: other objects and libraries, the link script and flags.
    """
    if not is_board_name(board):
        raise UsageError(
            f"{board!r} is not a valid board name.",
            hint="use at most 63 letters, digits, '.', '_' and '-'",
        )
    for name in collectors:
        if not _COLLECTOR.fullmatch(name):
            raise UsageError(f"{name!r} is not a valid collector name.", hint="such as ticks")
    if len(collectors) > _MOST_COLLECTORS:
        raise UsageError(
            f"{len(collectors)} collectors are too many: at most {_MOST_COLLECTORS} are allowed."
        )
    contents = [[_sha256(path) for path in paths] for paths in (objects, also)]
    runtime = runtime_dir()  # whose sources the project compiles itself
    paths = (path for path in sorted(runtime.rglob("*")) if path.suffix in (".c", ".h", ".S"))
    agent = {path.relative_to(runtime).as_posix(): _sha256(path) for path in paths}
    text = digest(board, contents, agent, list(collectors), dict(config or {}))
    build_id = bytes.fromhex(text)[:8]
    mtu = {**agent_options(), **(config or {})}["mtu"]
    return table_source(board, found, collectors, build_id, mtu)


def _sha256(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from error


def agent_config(defines: Sequence[str]) -> dict[str, int]:
    """Return the agent's options from macros: ``BP_CFG_MTU=512`` is ``{"mtu": 512}``."""
    known = agent_options()
    config: dict[str, int] = {}
    for define in defines:
        name, _, value = define.partition("=")
        option = name.removeprefix("BP_CFG_").lower()
        if not name.startswith("BP_CFG_") or option not in known:
            raise UsageError(
                f"{name!r} is not an option of the agent.",
                hint="one of " + ", ".join(f"BP_CFG_{key.upper()}" for key in known),
            )
        if not re.fullmatch(r"0[xX][0-9a-fA-F]+|\d+", value, re.ASCII):
            raise UsageError(f"{define!r} has no number.", hint=f"{name}=NUMBER")
        config[option] = int(value, 16 if value[:2].lower() == "0x" else 10)
    return config


def _marks(elf: ELFFile) -> list[str]:
    """Return the names that an object registers."""
    names = (symbol.name for symbol in symbols(elf) if symbol.kind == OBJECT)
    return [name.removeprefix(_MARK) for name in names if name.startswith(_MARK)]


def _missing(name: str, objects: Sequence[Path]) -> BuildError:
    hidden = next((fn for fn in hidden_functions(objects) if fn.name == name), None)
    if hidden is not None:
        return BuildError(
            f"BP_FUNCTION({name}) in {hidden.source}: the linker cannot see {name}, because it is "
            "static or inline.",
            hint="remove `static` or `inline`",
        )
    return BuildError(
        f"BP_FUNCTION({name}): no function {name} is defined in {_listed(objects)}.",
        hint="also give the object or the library that defines it; in C++, if several functions "
        'have that name, declare it as extern "C"',
    )


def _not_callable(fn: CFunction) -> BuildError:
    # The reason also says what a board.toml has, which this project lacks.
    reason = re.sub(r"(BP_CFG_\w+) \(`.*", r"\1", fn.reason or "")
    option = re.search(r"BP_CFG_\w+$", reason)
    hint = f"set a larger {option[0]}" if option else None
    if "debug information" in reason:
        hint = "compile with -g; with old compilers -gdwarf-4"
    if fn.wrapper:
        hint = f"register a wrapper instead, in {fn.source}:\n{fn.wrapper}"
    return BuildError(
        f"BP_FUNCTION({fn.name}) in {fn.source}: it cannot be called over the wire: {reason}.",
        hint=hint,
    )


def _listed(objects: Sequence[Path]) -> str:
    names = [path.name for path in objects[:3]]
    more = len(objects) - len(names)
    return ", ".join(names) + (f" and {more} more" if more else "")


# -- a library for the Arduino IDE ---------------------------------------------------------------


SIZES = {
    "mtu": 128,
    "rx_bytes": 64,
    "arena": 256,
    "handles": 4,
    "slot_bytes": 32,
    "active_collectors": 1,
    "state_bytes": 16,
}
"""Options for a board with 2 KB of RAM, an Uno; Arduino's Serial has 64 bytes."""

_SOURCES = (
    "src/bp_*.[ch]",
    *("arch/avr/bp_avr_timer.c", "arch/avr/bp_avr_guard.c", "arch/avr/bp_rom.c", "arch/avr/*.h"),
    "collectors/bp_timer16.c",
    "arduino/bp_*",
)
_LEFT_OUT = ("bp_main.c", "bp_mem.c")
_GUARD = "#define BOARDPROF_BP_CONFIG_H\n"


def write_arduino_library(folder: Path, config: Mapping[str, int]) -> dict[str, int]:
    """Write the library and return its options."""
    if folder.exists():
        raise UsageError(f"{folder} already exists.", hint="remove it, or give another folder")
    options = {**SIZES, **config}
    runtime = runtime_dir()
    try:
        source = folder / "src"
        shutil.copytree(runtime / "include" / "boardprof", source / "boardprof")
        for pattern in _SOURCES:
            for path in sorted(runtime.glob(pattern)):
                if path.name not in _LEFT_OUT:
                    shutil.copy(path, source)
        shutil.copy(runtime / "arduino" / "boardprof.h", source)
        shutil.copy(runtime / "arduino" / "library.properties", folder)
        shutil.copytree(runtime / "arduino" / "examples", folder / "examples")
        header = source / "boardprof" / "bp_config.h"
        lines = "".join(f"#define BP_CFG_{name.upper()} {n}\n" for name, n in options.items())
        text = header.read_text(encoding="utf-8")
        header.write_text(text.replace(_GUARD, f"{_GUARD}\n{lines}", 1), encoding="utf-8")
    except OSError as error:
        raise unwritable(folder, error) from error
    return options
