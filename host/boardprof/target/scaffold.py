# SPDX-License-Identifier: Apache-2.0
"""Files of a new board or a new collector, with a mark wherever something is to be changed.

A new board is a copy of a similar one. A new collector is a C file, a layout and vectors, which
build and count ticks at first. It can be in a checkout of boardprof, in a board's folder, or in the
user's own Python package.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

from boardprof.base.errors import UsageError
from boardprof.base.files import runtime_dir, unwritable
from boardprof.target.descriptions.board import (
    BOARD_FILE,
    BoardSpec,
    board_spec,
    find_boards,
    is_board_name,
    load_board,
)
from boardprof_protocol.blob import encode_blob
from boardprof_protocol.c_header import own_header
from boardprof_protocol.collectors import collector_layouts
from boardprof_protocol.layout import Layout

MARK = "CHANGE:"
"""What stands wherever the copy speaks of the other board."""


def models() -> dict[str, str]:
    """Return the board to copy for each architecture: a chip, if there is one."""
    found: dict[str, BoardSpec] = {}
    for spec in sorted(map(board_spec, find_boards()), key=_likeness):
        if spec.build.arch is not None:
            found.setdefault(spec.build.arch, spec)
    return {arch: found[arch].name for arch in sorted(found)}


def _likeness(spec: BoardSpec) -> tuple[bool, bool, str]:
    is_chip = spec.port is not None and spec.launch.guest is None
    return not is_chip, spec.launch.kind == "library", spec.name


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
_OF_THE_CHIP = {"init", "read", "write", "ticks", "clock"}
_INCLUDE = re.compile(r'^#include "([^"/]+)"$', re.MULTILINE)
_DEFINITION = re.compile(r"(?:[a-z]\w*[ *]+)+bp_port_(\w+?)(?:\(.*\) \{| BP_ROM = \{| = \{)$")
_NUMBER = re.compile(r"#define \w+ \d")
_GENERATED = "Do not edit"
_SOURCES = {".c", ".h", ".S", ".ld"}


def new_board(name: str, like: str, folder: Path) -> Path:
    """Make the folder of a new board, which builds at once."""
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
            port = copy / "port.c"
            if model.build.arch is not None and port.is_file():
                # What the port takes from headers of several boards comes into the port itself.
                lines = _whole(port, runtime_dir() / "arch" / model.build.arch, set())
                port.write_text("\n".join([*lines, ""]), encoding="utf-8")
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


def _whole(file: Path, arch: Path, seen: set[Path]) -> Iterator[str]:
    for line in file.read_text(encoding="utf-8").splitlines():
        include = _INCLUDE.fullmatch(line)
        header = arch / include[1] if include else None
        if header is None or not header.is_file() or not _is_port(header):
            yield line
        elif header not in seen:
            seen.add(header)
            inner = [*_whole(header, arch, seen)]
            # Above the guard is the licence, and how to include it.
            guard = next(at for at, each in enumerate(inner) if each.startswith("#ifndef"))
            end = max(at for at, each in enumerate(inner) if each.startswith("#endif"))
            yield from inner[guard + 3 : end - 1]


def _is_port(header: Path) -> bool:
    """Tell whether a header has the functions of a port that each chip has in its own way."""
    text = header.read_text(encoding="utf-8")
    names = {found[1] for line in text.splitlines() if (found := _DEFINITION.fullmatch(line))}
    if names & _OF_THE_CHIP:
        return True
    inner = (header.parent / name for name in _INCLUDE.findall(text))
    return any(each.is_file() and _is_port(each) for each in inner)


def _mark(copy: Path, name: str, like: str) -> None:
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


_TEMPLATES = Path(__file__).resolve().parent / "templates"
_NAME = re.compile(r"[a-z][a-z0-9_]{0,30}")
_OWN_IDS = 2000  # first schema id for private use; lower ids belong to boardprof and its boards
_NEW_VECTORS = "new vectors, valid and invalid"


@dataclass(frozen=True)
class NewCollector:
    """The created files and the next steps."""

    files: tuple[Path, ...]
    steps: tuple[str, ...]


@dataclass(frozen=True)
class _Place:
    """Where the files of a collector belong."""

    source: Path
    layout: Path
    vectors: Path
    header: Path | None
    steps: tuple[str, ...]


def new_collector(name: str, folder: Path) -> NewCollector:
    """Write a collector's files to a checkout, a board's folder or that of a Python package."""
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name!r} is not a valid collector name: use a-z, then a-z, 0-9 and _.")
    if name in {layout.name for layout in collector_layouts()}:
        raise UsageError(f"A collector {name!r} already exists.", hint="take another name")
    is_checkout = (folder / "device_runtime_c").is_dir() and (folder / "protocol").is_dir()
    is_board = (folder / BOARD_FILE).is_file()
    if is_checkout:
        known = (layout.schema_id for layout in collector_layouts())
        place = _in_checkout(name, folder)
        schema_id = max((each for each in known if each < _OWN_IDS // 2), default=0) + 1
    else:
        place = _in_folder(name, folder, is_board)
        schema_id = _OWN_IDS + zlib.crc32(name.encode()) % (0x10000 - _OWN_IDS)
    texts = _texts(name, schema_id, place, is_board)
    for path in texts:
        if path.exists():
            rename = ", or take another name" if name in path.name else ""
            raise UsageError(f"{path} already exists.", hint=f"add to it{rename}")
    try:
        for path, text in texts.items():
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise unwritable(path, error) from error
    return NewCollector(tuple(texts), place.steps)


def _in_checkout(name: str, folder: Path) -> _Place:
    protocol = folder / "protocol"
    return _Place(
        folder / "device_runtime_c" / "collectors" / f"bp_{name}.c",
        protocol / "boardprof_protocol" / "collectors" / f"{name}.py",
        protocol / "vectors" / f"{name}.json",
        None,
        (
            "make gen",
            f'add "{name}" to build.collectors of a board.toml',
            f"after a change of the layout: make gen, and {_NEW_VECTORS}",
        ),
    )


def _in_folder(name: str, folder: Path, is_board: bool) -> _Place:
    """Return the places in a board's folder, or in that of a Python package."""
    layout, vectors = f"{name}.py", f"{name}.json"
    steps = [
        "in pyproject.toml, and install the package again:\n"
        '    [project.entry-points."boardprof.collectors"]\n'
        f'    {name} = "{folder.resolve().name}.{name}:LAYOUT"',
        f'add "{name}" to build.collectors of a board.toml',
    ]
    if is_board:
        layout, vectors = "schema.py", f"vectors/{name}.json"
        added = f'add "bp_{name}.c" to build.sources (default: ["port.c"])'
        steps = [f'in {folder / BOARD_FILE}: {added} and "{name}" to build.collectors']
    steps.append(f"after a change of the layout: python {layout}, and {_NEW_VECTORS}")
    source, header = folder / f"bp_{name}.c", folder / f"{name}_wire.h"
    return _Place(source, folder / layout, folder / vectors, header, tuple(steps))


def _texts(name: str, schema_id: int, place: _Place, is_board: bool) -> dict[Path, str]:
    values = {"name": name, "NAME": name.upper(), "schema_id": str(schema_id)}
    values["include"] = "" if place.header is None else f'#include "{name}_wire.h"\n'
    values["module"] = place.layout.stem
    values["listed"] = "LAYOUTS" if is_board else "LAYOUT"
    values["layouts"] = "\nLAYOUTS = (LAYOUT,)\n\n" if is_board else "\n"
    template = "layout.py.in" if place.header is None else "own_layout.py.in"
    layout = _filled(template, values)
    module: dict[str, Any] = {"__name__": "template"}
    exec(layout, module)
    made: Layout = module["LAYOUT"]
    texts = {
        place.source: _filled("collector.c.in", values),
        place.layout: layout,
        place.vectors: first_vectors(made),
    }
    if place.header is not None:
        texts[place.header] = own_header(place.header.name, [made])
    return texts


def _filled(template: str, values: dict[str, str]) -> str:
    return Template((_TEMPLATES / template).read_text(encoding="utf-8")).substitute(values)


_START, _STOP = 1000, 11000
_HEADER_BYTES, _CRC_BYTES = 6, 4
_BY_HAND = f"{MARK} by hand from the manual"


def first_vectors(layout: Layout) -> str:
    """Return the vectors of a layout that has a ``start`` and a ``stop``, as a file has them."""
    fields = {"start": _START, "stop": _STOP}
    body = layout.struct.build(fields)
    good = {
        "name": f"{MARK} what it is an example of",
        "source": _BY_HAND,
        "fields": fields,
        "body": body.hex(),
        "hex": encode_blob(layout.schema_id, layout.version, body).hex(),
        "counters": [
            {
                "name": layout.name,
                "bits": 64,
                "difference": _STOP - _START,
                "hz": 0,
                "coarse_hz": 0,
                "wrapped": 0,
            }
        ],
    }
    lines = ",\n".join(f"  {json.dumps(vector)}" for vector in [good, *_bad(layout, body)])
    return f"[\n{lines}\n]\n"


def _bad(layout: Layout, body: bytes) -> list[dict[str, Any]]:
    """Return vectors that SPEC.md 6.1 refuses for any layout; a body has start and stop halves."""
    blob = encode_blob(layout.schema_id, layout.version, body)
    short = encode_blob(layout.schema_id, layout.version, body[:-1])
    long = encode_blob(layout.schema_id, layout.version, body + b"\0")
    newer = encode_blob(layout.schema_id, layout.version + 1, body)
    damaged = blob[:-_CRC_BYTES] + bytes([blob[-_CRC_BYTES] ^ 1]) + blob[1 - _CRC_BYTES :]
    end = _HEADER_BYTES + len(body)
    cases = [
        ("a body one byte short", short, "length", "stop", end - len(body) // 2),
        ("a body one byte long", long, "length", "(end)", end),
        ("a wrong CRC", damaged, "crc", "blob[0].crc", end),
        ("an unknown version", newer, "schema", "header", 0),
        ("the CRC cut off", blob[:-1], "cut", "blob[0].body", _HEADER_BYTES),
    ]
    return [
        dict(name=name, source=_BY_HAND, hex=bad.hex(), error=error, path=path, offset=offset)
        for name, bad, error, path, offset in cases
    ]
