# SPDX-License-Identifier: Apache-2.0
"""One source to be compiled, and the files that its object was made of.

None of it has paths of the machine. A path is kept as the label of a root and the rest. So a copy
of the same sources in another folder is found again, and a different header at the same place below
another root is not.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

# An object can depend on files that a source with one of these words names in no depfile.
_UNTRACKED = rb"__has_include|\.incbin|\.include\b|#\s*embed"
# Flags that make the compiler read files that it names in no depfile (GCC manual, 3).
_UNTRACKED_FLAGS = (
    r"-(-?specs\b|fprofile-use\b|fprofile-dir|fbranch-probabilities|fauto-profile|fplugin|-?sysroot"
    r"|isysroot|iprefix|iwithprefix|imultilib|wrapper|B|Wp,|Wa,|Xpreprocessor|Xassembler|Xclang"
    r"|\w+=?\$SYSROOT|I=|isystem=|iquote=|idirafter=|fmodule|fsanitize-\w+list=)|@"
)
_SYSTEM = "/"  # label of files below no root


@dataclass(frozen=True)
class Unit:
    """One source to be compiled."""

    folder: Path
    source: str  # relative to ``folder``
    flags: tuple[str, ...]
    includes: tuple[Path, ...] = ()  # for ``-I``, below one of ``roots`` or ``folder``
    roots: tuple[tuple[str, Path], ...] = ()  # (label, folder) of files outside ``folder``
    last: tuple[Path, ...] = ()  # such folders, after the system's own
    watched: bool = False  # a new header that hides another one makes it stale
    quoted: tuple[Path, ...] = ()
    system: tuple[Path, ...] = ()
    tracked: bool = True  # the compiler lists every file that the object depends on

    @property
    def folders(self) -> tuple[tuple[str, Path], ...]:
        """The folders that are searched for headers, each with its option."""
        kinds = {
            "-iquote": self.quoted,
            "-I": self.includes,
            "-isystem": self.system,
            "-idirafter": self.last,
        }
        return tuple((option, folder) for option, those in kinds.items() for folder in those)

    def label(self, path: str) -> tuple[str, str]:
        """Return a path as a root's label ("" for ``folder``, "/" for the system) and the rest."""
        if not os.path.isabs(path):
            return "", path
        whole = str(Path(path))
        for label, root in self._folders.items():
            inside = os.path.join(root, "")
            if label != _SYSTEM and f"{whole}{os.sep}".startswith(inside):
                return label, whole[len(inside) :] or os.curdir
        return _SYSTEM, path

    def path(self, label: str, rest: str) -> str:
        """Undo :meth:`label`."""
        return os.path.join(self._folders[label], rest)

    @cached_property
    def _folders(self) -> dict[str, str]:
        """The folders of all labels; as text, since a build asks for thousands of paths."""
        roots = {label: str(root) for label, root in self.roots}
        return {"": str(self.folder), **roots, _SYSTEM: os.sep}


@dataclass(frozen=True)
class ObjectInputs:
    """The files that an object was made of, as (label, path)."""

    name: str
    sha256: str
    files: Mapping[tuple[str, str], str | None]  # each file that was read -> its SHA-256
    absent: tuple[tuple[str, str], ...]  # did not exist; would have been read instead of others

    def to_json(self) -> str:
        """Return the record as text."""
        files = [[*at, sha] for at, sha in self.files.items()]
        return json.dumps([self.name, self.sha256, files, self.absent])

    @classmethod
    def from_json(cls, text: str) -> ObjectInputs:
        """Undo :meth:`to_json`."""
        name, sha256, files, absent = json.loads(text)
        places = tuple((label, path) for label, path in absent)
        return cls(name, sha256, {(a, b): sha for a, b, sha in files}, places)


def labelled_files(unit: Unit, depfile: str) -> dict[tuple[str, str], Path]:
    """Return the files that the compiler has read: (label, path) -> absolute path."""
    return {unit.label(file): unit.folder / file for file in parse_depfile(depfile)}


def parse_depfile(text: str) -> list[str]:
    """Return the prerequisites in a depfile of GCC; only spaces and line breaks separate names."""
    _, _, rest = text.replace("\\\n", " ").partition(":")
    words: list[str] = re.findall(r"(?:\\.|\$\$|[^ \n\\]|\\)+", rest)
    return [re.sub(r"\\([ \t#])", r"\1", word).replace("$$", "$") for word in words]


def is_tracked(flags: Iterable[str]) -> bool:
    """Return whether flags make the compiler read no file that it names in no depfile."""
    return not any(re.match(_UNTRACKED_FLAGS, flag) for flag in flags)


def has_untracked(files: Mapping[tuple[str, str], Path]) -> bool:
    """Return whether one of the user's files can depend on files that the compiler omits."""
    own = (path for (label, _), path in files.items() if label != _SYSTEM)
    return any(re.search(_UNTRACKED, path.read_bytes()) for path in own)


def shadows(
    unit: Unit, files: Iterable[tuple[str, str]], searched: Iterable[str] = ()
) -> tuple[tuple[str, str], ...]:
    """Return the missing files that would be included instead of those that were read.

    ``#include "x.h"`` looks in the including file's folder first, then in the folders of ``-I`` and
    of the environment, and last among the system's headers.
    """
    if not unit.watched:
        return ()
    names = list(files)
    folders = {(label, os.path.dirname(path)) for label, path in names if label != _SYSTEM}
    folders |= {unit.label(str(folder)) for _, folder in unit.folders}
    folders |= {(_SYSTEM, folder) for folder in searched}
    endings = {
        os.path.join(*parts[i:])
        for parts in (Path(path).parts for _, path in names)
        for i in range(len(parts))
        if not parts[i].startswith(("/", "."))
    }
    found = {(label, os.path.join(folder, rest)) for label, folder in folders for rest in endings}
    return tuple(sorted(at for at in found if not os.path.exists(unit.path(*at))))
