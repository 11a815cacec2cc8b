# SPDX-License-Identifier: Apache-2.0
"""One source to be compiled, and the record of what its object was made of.

Paths of the machine stay out of records and keys: a path is kept as the label
of a root and the rest, so that a copy of the same sources in another folder is
found again, and a different header at the same place below another root is not.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Record", "Unit", "has_untracked", "labelled_files", "parse_depfile", "shadows"]

# An object can depend on files that a source with one of these words names in no depfile.
_UNTRACKED = re.compile(rb"__has_include|\.incbin|#\s*embed")
_SYSTEM = "/"  # label of what lies below no root


@dataclass(frozen=True)
class Unit:
    """One source to be compiled.

    Attributes:
        folder: where the compiler runs; absolute, without symbolic links.
        source: relative to ``folder``.
        flags: the compiler's, without paths.
        includes: folders for ``-I``, each below one of ``roots`` or ``folder``.
        roots: (label, folder) of what lies outside of ``folder``.
    """

    folder: Path
    source: str
    flags: tuple[str, ...]
    includes: tuple[Path, ...] = ()
    roots: tuple[tuple[str, Path], ...] = ()

    def label(self, path: str) -> tuple[str, str]:
        """Return a path, as the compiler names it, as a root's label and the rest.

        The label is "" for what is relative to ``folder``, "/" for the system's.
        """
        if not os.path.isabs(path):
            return "", path
        for label, root in (("", self.folder), *self.roots):
            if Path(path).is_relative_to(root):
                return label, str(Path(path).relative_to(root))
        return _SYSTEM, path

    def path(self, label: str, rest: str) -> Path:
        """Undo :meth:`label`."""
        roots = {"": self.folder, _SYSTEM: Path("/"), **dict(self.roots)}
        return roots[label] / rest


@dataclass(frozen=True)
class Record:
    """What an object was made of.

    Attributes:
        name: the object's file name.
        sha256: of the object.
        files: (label, path) of each file that was read -> its SHA-256.
        absent: files, relative to the unit's folder, that were not there and
            that the compiler would have read instead of others.
    """

    name: str
    sha256: str
    files: Mapping[tuple[str, str], str | None]
    absent: tuple[str, ...]

    def to_json(self) -> str:
        """Return the record as text."""
        files = [[*at, sha] for at, sha in self.files.items()]
        return json.dumps([self.name, self.sha256, files, self.absent])

    @classmethod
    def from_json(cls, text: str) -> Record:
        """Undo :meth:`to_json`.

        Raises:
            ValueError: the text is no record.
        """
        name, sha256, files, absent = json.loads(text)
        return cls(name, sha256, {(a, b): sha for a, b, sha in files}, tuple(absent))


def labelled_files(unit: Unit, depfile: str) -> dict[tuple[str, str], Path]:
    """Return the files that the compiler has read: (label, path) -> absolute path."""
    return {unit.label(file): unit.folder / file for file in parse_depfile(depfile)}


def parse_depfile(text: str) -> list[str]:
    """Return the prerequisites in a depfile of GCC: one rule, in make's syntax."""
    _, _, rest = text.replace("\\\n", " ").partition(":")
    words: list[str] = re.findall(r"(?:\\.|\$\$|[^\s\\]|\\)+", rest)
    return [re.sub(r"\\([ #])", r"\1", word).replace("$$", "$") for word in words]


def has_untracked(files: Mapping[tuple[str, str], Path]) -> bool:
    """Return whether a file, not of the system, can depend on more than the compiler says."""
    own = (path for (label, _), path in files.items() if label != _SYSTEM)
    return any(_UNTRACKED.search(path.read_bytes()) for path in own)


def shadows(unit: Unit, files: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Return the files that, were they there, could be included instead of a system's header.

    ``#include "x.h"`` looks in the including file's folder first, and finds a
    system's header only while there is none. Units with include folders are
    the agent's and the boards', whose headers do not have a system's names.
    """
    if unit.includes:
        return ()
    names = list(files)
    folders = {os.path.dirname(path) for label, path in names if label == ""}
    endings = [Path(path).parts[-3:] for label, path in names if label == _SYSTEM]
    found = {
        os.path.join(folder, *parts[i:])
        for parts in endings
        for i in range(len(parts))
        for folder in folders
    }
    return tuple(sorted(path for path in found if not (unit.folder / path).exists()))
