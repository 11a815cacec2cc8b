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
    """One source to be compiled.

    Attributes:
        source: relative to ``folder``.
        includes: folders for ``-I``, each below one of ``roots`` or ``folder``.
        roots: (label, folder) of files outside ``folder``.
        last: such folders that are searched after the system's own.
        tracked: whether the compiler lists every file that the object depends on.
        watched: whether a new header that hides another one invalidates the object. Not needed
            for the agent and boards, whose headers do not have names of the system.
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
        """Return a path of the compiler as a root's label and the rest.

        The label is "" for files in ``folder`` and "/" for the system's.
        """
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
    """The files that an object was made of.

    Attributes:
        files: (label, path) of each file that was read -> its SHA-256.
        absent: (label, path) of files that did not exist, and that the compiler would have read
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
    def from_json(cls, text: str) -> ObjectInputs:
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
