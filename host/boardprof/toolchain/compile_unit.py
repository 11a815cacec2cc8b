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

__all__ = [
    "Record",
    "Unit",
    "has_untracked",
    "is_tracked",
    "labelled_files",
    "parse_depfile",
    "shadows",
]

# An object can depend on files that a source with one of these words names in no depfile.
_UNTRACKED = re.compile(rb"__has_include|\.incbin|\.include\b|#\s*embed")
# Flags that make the compiler read files that it names in no depfile (GCC manual, 3).
_UNTRACKED_FLAGS = re.compile(
    r"-(-?specs\b|fprofile-use\b|fprofile-dir|fbranch-probabilities|fauto-profile|fplugin|-?sysroot"
    r"|isysroot|iprefix|iwithprefix|imultilib|wrapper|B|Wp,|Wa,|Xpreprocessor|Xassembler|Xclang"
    r"|\w+=?\$SYSROOT|I=|isystem=|iquote=|idirafter=|fmodule|fsanitize-\w+list=)|@"
)
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
        last: folders that are searched after the system's own, likewise.
        quoted, system: folders for ``-iquote`` and ``-isystem``, likewise.
        tracked: whether the object depends on nothing that the compiler does not tell of.
        watched: whether new headers are looked for that would hide others. The agent's and the
            boards' own do not have a system's names.
    """

    folder: Path
    source: str
    flags: tuple[str, ...]
    includes: tuple[Path, ...] = ()
    roots: tuple[tuple[str, Path], ...] = ()
    last: tuple[Path, ...] = ()
    watched: bool = False
    quoted: tuple[Path, ...] = ()
    system: tuple[Path, ...] = ()
    tracked: bool = True

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

    def own_files(self, record: Record) -> tuple[Path, ...]:
        """Return the files that an object was made of, the system's headers among them.

        A file below no root may be the user's all the same, by ``-include`` for one.
        """
        return tuple(self.path(*at) for at in record.files)


@dataclass(frozen=True)
class Record:
    """What an object was made of.

    Attributes:
        name: the object's file name.
        sha256: of the object.
        files: (label, path) of each file that was read -> its SHA-256.
        absent: (label, path) of files that were not there, and that the compiler would have read
            instead of others.
    """

    name: str
    sha256: str
    files: Mapping[tuple[str, str], str | None]
    absent: tuple[tuple[str, str], ...]

    def to_json(self) -> str:
        """Return the record as text."""
        files = [[*at, sha] for at, sha in self.files.items()]
        return json.dumps([self.name, self.sha256, files, self.absent])

    @classmethod
    def from_json(cls, text: str) -> Record:
        """Undo :meth:`to_json`."""
        name, sha256, files, absent = json.loads(text)
        places = tuple((label, path) for label, path in absent)
        return cls(name, sha256, {(a, b): sha for a, b, sha in files}, places)


def labelled_files(unit: Unit, depfile: str) -> dict[tuple[str, str], Path]:
    """Return the files that the compiler has read: (label, path) -> absolute path."""
    return {unit.label(file): unit.folder / file for file in parse_depfile(depfile)}


def parse_depfile(text: str) -> list[str]:
    """Return the prerequisites in a depfile of GCC: one rule, in make's syntax.

    Compilers put spaces and line breaks between names; other white space is part of a name.
    """
    _, _, rest = text.replace("\\\n", " ").partition(":")
    words: list[str] = re.findall(r"(?:\\.|\$\$|[^ \n\\]|\\)+", rest)
    return [re.sub(r"\\([ \t#])", r"\1", word).replace("$$", "$") for word in words]


def is_tracked(flags: Iterable[str]) -> bool:
    """Return whether flags make the compiler read no file that it names in no depfile."""
    return not any(_UNTRACKED_FLAGS.match(flag) for flag in flags)


def has_untracked(files: Mapping[tuple[str, str], Path]) -> bool:
    """Return whether a file, not of the system, can depend on more than the compiler says."""
    own = (path for (label, _), path in files.items() if label != _SYSTEM)
    return any(_UNTRACKED.search(path.read_bytes()) for path in own)


def shadows(
    unit: Unit, files: Iterable[tuple[str, str]], searched: Iterable[str] = ()
) -> tuple[tuple[str, str], ...]:
    """Return the files that, were they there, could be included instead of those that were.

    ``#include "x.h"`` looks in the including file's folder first, then in those of ``-I`` and of
    the environment, and finds a header of the system only while there is none in them.

    Args:
        unit: what was compiled.
        files: (label, path) of all that was read.
        searched: absolute folders that the compiler's environment names.
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
    return tuple(sorted(at for at in found if not unit.path(*at).exists()))
