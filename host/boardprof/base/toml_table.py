# SPDX-License-Identifier: Apache-2.0
"""Reading a TOML file strictly: every key is known, present where needed, and of its type."""

from __future__ import annotations

import difflib
import math
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from boardprof.base.errors import UsageError

_T = TypeVar("_T")
_REQUIRED: Any = object()
_TYPES = {
    str: "a string",
    int: "an integer",
    bool: "true or false",
    list: "a list",
    dict: "a table",
}


def parsed(text: str, file: str | Path) -> dict[str, Any]:
    """Return the content of a TOML file; of one that is not valid, the error shows the line."""
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        place = re.search(r"at line (\d+)", f"{error}")
        line = text.splitlines()[int(place[1]) - 1].strip() if place else ""
        bare = re.fullmatch(r"([\w.-]+)\s*=\s*([^\s\"'\[{#][^\"'#]*?)\s*(#.*)?", line)
        hint = f'{bare[1]} = "{bare[2]}", in quotes' if bare else None
        where = f"{file}:{place[1]}: This" if place else f"{file}"
        raise UsageError(f"{where} is not valid TOML: {error}.", hint=hint) from error


class TomlTable:
    """A table of a TOML file, whose keys are taken; what is left at the end is unknown.

    Every method raises UsageError with the file, line, table and key, and what is allowed there.
    """

    def __init__(
        self,
        content: Mapping[str, Any],
        file: Path,
        *path: str | int,
        common: TomlTable | None = None,
    ) -> None:
        """Read the table at ``path`` of ``file``; a number is the index in an array of tables.

        ``common`` is where keys of ``content`` stand that the table itself does not have.
        """
        self._common = common
        self.file = file
        self._path = path
        self._content = content
        self._known: list[str] = []

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of the table, in the file's order. Does not mark them as taken."""
        return tuple(self._content)

    def error(self, key: str, problem: str) -> UsageError:
        """Return an error that names the file, the line, the table and the key."""
        return UsageError(f"{self.place(key)}: {self._shown(key)}: {problem}.")

    def place(self, *keys: str) -> str:
        """Return the file and the line of a key, or of a path of keys.

        If it is missing, the line is that of the innermost table around it.
        """
        line = self._line(*keys)
        return f"{self.file}" if line is None else f"{self.file}:{line}"

    def has(self, key: str) -> bool:
        """Tell whether ``key`` is present. It still has to be taken."""
        self._known.append(key)
        return key in self._content

    def take(self, key: str, kind: type[_T], default: Any = _REQUIRED) -> Any:
        """Return the value of ``key``, which is of type ``kind``, or the default."""
        self._known.append(key)
        if key not in self._content:
            if default is _REQUIRED:
                raise self.error(key, f"the key is missing; it must be {_TYPES[kind]}")
            return default
        return self._checked(key, self._content[key], kind)

    def value(self, key: str) -> Any:
        """Return the value of ``key``, of whatever type; the key must be present."""
        self._known.append(key)
        return self._content[key]

    def texts(self, key: str, default: tuple[str, ...] | None = ()) -> tuple[str, ...]:
        """Return a list of strings; with default None, it must be present and not empty."""
        value = self.take(key, list, _REQUIRED if default is None else default)
        if default is None and not value:
            raise self.error(key, "the list is empty")
        return tuple(self._checked(key, item, str) for item in value)

    def choice(self, key: str, allowed: tuple[str, ...], default: str = _REQUIRED) -> str:
        """Return one of the strings in ``allowed``."""
        value: str = self.take(key, str, default)
        if value not in allowed:
            names = ", ".join(f'"{name}"' for name in allowed)
            raise self.error(key, f'must be one of {names}, not "{value}"')
        return value

    def positive(self, key: str, default: float) -> float:
        """Return a finite number above 0, whole or not."""
        self._known.append(key)
        value = self._content.get(key, default)
        if type(value) not in (int, float) or not 0 < value < math.inf:
            raise self.error(key, f"must be a number above 0, not {value!r}")
        return float(value)

    def read(self, kind: type[_T], **readers: Callable[[], Any]) -> _T:
        """Return the whole table as a dataclass: a field without a reader is a key of its type."""
        hints, found = get_type_hints(kind), {}
        for each in fields(kind):  # type: ignore[arg-type]  # it is a dataclass
            name, hint = each.name, hints[each.name]
            default = _REQUIRED if each.default is MISSING else each.default
            if name in readers:
                found[name] = readers[name]()
            elif get_origin(hint) is tuple:
                found[name] = self.texts(name, None if default is _REQUIRED else default)
            elif hint is float:
                found[name] = self.positive(name, default)
            else:  # such as ``str``, or ``str | None``
                found[name] = self.take(name, (get_args(hint) or (hint,))[0], default)
        self.end()
        return kind(**found)

    def table(self, key: str, *, required: bool = True) -> TomlTable:
        """Return the table ``key``; an empty one if it is missing and not required."""
        content = self.take(key, dict, _REQUIRED if required else {})
        return TomlTable(content, self.file, *self._path, key)

    def mapping(self, kind: type[_T], allowed: Mapping[str, Any] | None = None) -> dict[str, _T]:
        """Return the whole table, whose values are of type ``kind``."""
        result = {key: self._checked(key, value, kind) for key, value in self._content.items()}
        self._known = list(result if allowed is None else allowed)
        self.end()
        return result

    def end(self, when: str = "") -> None:
        """Refuse keys that were not taken."""
        for error in self.unknown(when):
            raise error

    def unknown(self, when: str = "") -> Iterator[UsageError]:
        """Yield an error for each key that was not taken."""
        for key in self._content:
            if key not in self._known:
                close = difflib.get_close_matches(key, self._known, n=1)
                proposal = f"did you mean {close[0]!r}? " if close else ""
                known = ", ".join(dict.fromkeys(self._known))
                yield self.error(key, f"unknown key{when}; {proposal}Known here: {known}")

    def _checked(self, key: str, value: Any, kind: type[_T]) -> _T:
        if type(value) is not kind:  # a bool is not an integer here
            shown = _TYPES.get(type(value), type(value).__name__)
            raise self.error(key, f"must be {_TYPES[kind]}, not {shown} ({value!r})")
        return value

    def _shown(self, key: str) -> str:
        names = [name for name in self._path if isinstance(name, str)]
        return f"[{'.'.join(names)}] {key}" if names else key

    def _line(self, *keys: str) -> int | None:
        """Return a key's line; that of the table around it where it is missing."""
        try:
            text = self.file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return None
        paths = [(*self._path, *keys[:count]) for count in range(len(keys), -1, -1)]
        if self._common is not None:
            paths.insert(len(keys), (*self._common._path, *keys[:1]))
        return next(filter(None, (line_of(text, *path) for path in paths)), None)


def line_of(text: str, *path: str | int) -> int | None:
    """Return the line, from 1, of a key in valid TOML. None if it is not there.

    A table without a line of its own has that of the first key in it.
    """
    lines = text.splitlines(keepends=True)
    whole = 0  # lines of the preceding statements
    for count in range(1, len(lines) + 1):
        try:
            content: Any = tomllib.loads("".join(lines[:count]))
        except tomllib.TOMLDecodeError:
            continue  # within a value of several lines
        for key in path:
            if isinstance(content, list) and isinstance(key, int):
                content = content[key] if key < len(content) else None
            else:
                content = content.get(key) if isinstance(content, dict) else None
        if content is not None and path:
            return whole + 1
        whole = count
    return None
