# SPDX-License-Identifier: Apache-2.0
"""Files that linker flags refer to: libraries, link scripts, and the files that they name."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from boardprof.elf.object_file import ELF_MAGIC, MAGIC, THIN_MAGIC, outside
from boardprof.toolchain.cache import FileHashes

_ARCHIVES = (MAGIC, THIN_MAGIC)
_LONGEST_SCRIPT = 1 << 20  # bytes
_COMMENT = r"(?s)/\*.*?\*/"
# ld manual, 3.4.2 "Commands Dealing with Files".
_INCLUDE = r"\bINCLUDE\s+\"?([^\s;\"]+)"
_INPUT = r"\b(?:INPUT|GROUP)\s*\(((?:[^()]|\([^()]*\))*)\)"


def linker_files(flags: Sequence[str]) -> list[Path]:
    """Return the files that exist, each once; first those that the flags name.

    Args:
        flags: of the compiler that calls the linker; paths in them are absolute.

    Raises:
        UsageError: a thin archive is damaged.
    """
    words, folders = _words(flags)
    found = dict.fromkeys(path for word in words for path in _files(word, folders))
    todo = list(found)
    for path in todo:
        new = [inner for inner in _inside(path, folders) if inner not in found]
        found.update(dict.fromkeys(new))
        todo += new  # and the files that these refer to
    return list(found)


def libraries_taken(flags: Sequence[str]) -> list[Path]:
    """Return the static and shared libraries that the linker takes for these flags.

    Libraries that link scripts name and the system's C library are left out.
    """
    words, folders = _words(flags)
    static = "-static" in words
    found: dict[Path, None] = {}
    for word in words:
        files = [path for path in _files(word, folders) if not static or path.suffix != ".so"]
        if word.startswith("-l"):  # within one folder the linker prefers the shared library
            files.sort(key=lambda path: (folders.index(path.parent), path.suffix != ".so"))
        if files and not files[0].name.startswith("libc."):
            found[files[0]] = None
    return [path for path in found if path.read_bytes()[:8].startswith((ELF_MAGIC, *_ARCHIVES))]


def with_copies(flags: Sequence[str], copies: Mapping[Path, Path]) -> tuple[str, ...]:
    """Return flags with the paths of libraries replaced by those of their copies."""
    changed = []
    for flag in flags:
        for path, copy in copies.items():
            flag = re.sub(rf"(?<![^,=]){re.escape(str(path))}(?![^,])", str(copy), flag)
        changed.append(flag)
    return (*(f"-L{copy.parent}" for copy in copies.values()), *changed)


def digests(files: Sequence[Path]) -> dict[str, str | None]:
    """Return the digests of files' contents."""
    hashes = FileHashes()
    return {str(path): hashes.of(path) for path in files}


def _words(flags: Sequence[str]) -> tuple[list[str], list[Path]]:
    """Return the linker's own arguments, and the folders that it searches for libraries."""
    words = [part for flag in flags for part in flag.removeprefix("-Wl,").split(",")]
    words = [word for word in words if word != "-Xlinker"]
    folders = [Path(word[2:]) for word in words if word.startswith("-L") and word != "-L"]
    folders += [Path(after) for word, after in pairwise(words) if word == "-L"]
    folders += map(Path, filter(None, os.environ.get("LIBRARY_PATH", "").split(os.pathsep)))
    words += [f"-l{after}" for before, after in pairwise(words) if before == "-l"]
    return words, list(dict.fromkeys(folders))


def _files(word: str, folders: Sequence[Path]) -> list[Path]:
    """Return the files that a word may refer to; libraries are searched in ``folders``."""
    if word.startswith("-l"):
        library = word.removeprefix("-l")
        names = [library[1:]] if library[:1] == ":" else [f"lib{library}.a", f"lib{library}.so"]
        return [path for at in folders for name in names if (path := at / name).is_file()]
    path = Path(re.sub(r"^(-T|--?[\w-]+=)", "", word))
    return [] if str(path).startswith("-") or not path.is_file() else [path]


def _inside(path: Path, folders: Sequence[Path]) -> Iterator[Path]:
    """Yield the files that a thin archive or a link script names."""
    with path.open("rb") as file:
        begin = file.read(len(MAGIC))
    if begin in _ARCHIVES:
        yield from (inner for inner in outside(path) if inner.is_file())
    elif not begin.startswith(ELF_MAGIC) and path.stat().st_size <= _LONGEST_SCRIPT:
        text = re.sub(_COMMENT, " ", path.read_text(errors="replace"))
        names = re.findall(_INCLUDE, text)
        for listed in re.findall(_INPUT, text):
            names += re.sub(r"\bAS_NEEDED\b|[(),\"]", " ", listed).split()
        for name in names:
            if name.startswith("-l"):
                yield from _files(name, folders)
            else:
                places = (at / name for at in (path.parent, *folders))
                yield from (place for place in places if place.is_file())
