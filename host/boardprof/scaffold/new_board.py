# SPDX-License-Identifier: Apache-2.0
"""A new board: a copy of one that is like it, with a mark wherever something is to be changed."""

from __future__ import annotations

import re
import shutil
import tempfile
from pathlib import Path

from boardprof.boards.board_file import BOARD_FILE, is_board_name, load_board
from boardprof.boards.board_lookup import board_spec, find_boards
from boardprof.errors import UsageError
from boardprof.writing import unwritable

MARK = "CHANGE:"
"""What stands wherever the copy speaks of the other board."""

_KEYS = {
    "cc": "the compiler and the Debian package that contains it",
    "arch": "folder in device_runtime_c/arch with the code shared by boards of this architecture",
    "cflags": "core and ABI",
    "collectors": "files in device_runtime_c/collectors, without bp_, that suit the board",
    "config": "sizes by the board's RAM (bp_config.h); guard = 1 needs [guard]",
}
_TABLES = {
    "launch": '"serial" for a board on a wire, "process" for an emulator, "library"',
    "port": "the real board, if an emulator can also run as this board",
    "flash": "the tool that writes firmware to it",
    "clock": '"measured", "declared" or "simulated": whether ticks are time',
    "guard": "the faults that it survives; for each of the others, the reason",
    "unsupported": "counters that a probe would wrongly accept, with the reason",
    "events": "codes of the board's own events",
}
_DROPPED = ("default", "status")

_FUNCTIONS = {
    "init": "clocks, the line to the host, the tick counter",
    "read": "the receiver's registers; must not block",
    "write": "the transmitter's registers",
    "idle": "may be empty",
    "ticks": "the fastest free-running counter",
    "coarse": "a slower clock, if the ticks wrap within minutes; else 0",
    "clock": "source, rate and width of the ticks",
    "reset_cause": "the register that gives the cause, or BP_RESET_UNKNOWN",
    "boot_id": "a different number at each boot",
    "guard": "how to end a call that faults or hangs",
    "stack_limit": "the lowest address of the stack",
}
_DEFINITION = re.compile(r"(?:[a-z]\w*[ *]+)+bp_port_(\w+?)(?:\(.*\) \{| BP_ROM = \{| = \{)$")
_NUMBER = re.compile(r"#define \w+ \d")
_GENERATED = "Do not edit"
_SOURCES = {".c", ".h", ".S", ".ld"}


def new_board(name: str, like: str, folder: Path) -> Path:
    """Make the folder of a new board, which builds at once.

    Args:
        name: the board's, and its folder's.
        like: the board that it is most like.
        folder: where the new folder is made.

    Returns:
        The new folder.

    Raises:
        UnknownNameError: the board ``like`` does not exist.
        UsageError: the name is taken or none, or the folder is there or cannot be written; nothing
            remains.
    """
    model = board_spec(like)
    target = folder / name
    if not is_board_name(name):
        raise UsageError(
            f"{name!r}: a board's name may have only letters, digits, '.', '_' and '-'.",
            hint="take another name",
        )
    if name in find_boards():
        raise UsageError(f"A board {name!r} already exists.", hint="take another name")
    if target.exists():
        raise UsageError(f"{target} already exists.", hint="take another name, or remove it")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{name}-", dir=folder) as scratch:
            copy = Path(scratch) / name  # the folder's name is the board's
            _copy(model.folder, copy)
            _mark(copy, name, model.name)
            load_board(copy)
            copy.rename(target)
    except OSError as error:
        raise unwritable(target, error) from error
    except UnicodeError as error:
        raise UsageError(f"{target} cannot be written: {error}.") from error
    return target


def _copy(source: Path, target: Path) -> None:
    """Copy the files of a folder, without their modes: an installed one may be read-only."""
    target.mkdir()
    for path in sorted(source.iterdir()):
        if path.is_dir() and path.name != "__pycache__":
            _copy(path, target / path.name)
        elif path.is_file():
            shutil.copyfile(path, target / path.name)


def _mark(copy: Path, name: str, like: str) -> None:
    """Put marks into the files of a copy."""
    file = copy / BOARD_FILE
    file.write_text(_board_file(file.read_text(encoding="utf-8"), name, like), encoding="utf-8")
    for path in sorted(copy.rglob("*")):
        if path.suffix in _SOURCES and path.is_file():
            text = path.read_text(encoding="utf-8")
            if _GENERATED not in text:
                path.write_text(_source(text, path.suffix, name, like), encoding="utf-8")


def _board_file(text: str, name: str, like: str) -> str:
    """Return the copy's board.toml, with a comment over each thing to change."""
    lines = []
    for line in text.splitlines():
        key = re.match(r"(\w+) = ", line)
        table = re.fullmatch(r"\[(\w+)[\w.]*\]", line)
        if key and key[1] in _DROPPED:
            continue
        if key and key[1] == "summary":
            lines.append(f"# {MARK} one line about {name}; this is a copy of {like}")
            line = f'summary = "{name}, made like {like}"'
        elif key and key[1] in _KEYS:
            lines.append(f"# {MARK} {_KEYS[key[1]]}")
        elif table and table[1] in _TABLES and (line == f"[{table[1]}]" or table[1] == "events"):
            lines.append(f"# {MARK} {_TABLES[table[1]]}")
        lines.append(line)
    return "\n".join([*lines, ""])


def _source(text: str, suffix: str, name: str, like: str) -> str:
    """Return a C file or link script of the copy, with a comment over each thing to change."""
    first, *rest = text.splitlines()
    lines = [
        first,
        f"/* {MARK} a copy from {like}; describe here what applies to {name}, citing its manual. "
        "*/",
    ]
    defines = [line for line in rest if _NUMBER.match(line)][:1]
    for line in rest:
        found = _DEFINITION.fullmatch(line)
        if found and found[1] in _FUNCTIONS:
            lines.append(f"/* {MARK} {_FUNCTIONS[found[1]]} */")
        elif line in defines:
            lines.append(f"/* {MARK} addresses, rates and sizes, from the manual */")
        elif suffix == ".ld" and line.startswith("MEMORY"):
            lines.append(f"/* {MARK} addresses and sizes of the chip's memories */")
        lines.append(line)
    return "\n".join([*lines, ""])
