# SPDX-License-Identifier: Apache-2.0
"""The build's cache: files under names that are digests of all that they depend on.

Nothing in it is ever changed: a file is written under a temporary name in the
cache and then renamed, so that two builds at one time see a whole file or none.
It can be deleted at any time. A file's time of change is when it was last used, to the day.

A disk may damage a file all the same, and so may a crash or a person. Texts begin with the digest
of the rest, and other files are in a folder named after theirs. A damaged one counts as absent: it
is not deleted, because another build may be replacing it, and the next one overwrites it.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from boardprof.errors import BoardprofError, StorageError
from boardprof.writing import unwritable

__all__ = ["Cache", "FileHashes", "cache_root", "digest", "read_text", "unwritable_cache"]


_DAY_S = 86400.0


class Cache:
    """A folder of files, each written once and whole."""

    def __init__(self, root: Path | None = None) -> None:
        """Use ``root``, else ``$XDG_CACHE_HOME/boardprof``, else ``~/.cache/boardprof``.

        Raises:
            UsageError, StorageError: the folder cannot be made or written to.
        """
        self.root = cache_root() if root is None else root
        try:
            (self.root / "tmp").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise unwritable_cache(self.root, error) from error

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """Lend an empty folder on the cache's own file system."""
        try:
            folder = tempfile.TemporaryDirectory(dir=self.root / "tmp")
        except OSError as error:
            raise unwritable_cache(self.root, error) from error
        try:
            with folder as name:
                yield Path(name)
        except OSError as error:
            if isinstance(full := unwritable_cache(self.root, error), StorageError):
                raise full from error
            raise

    def keep(self, file: Path, *place: str) -> Path:
        """Move ``file``, from a scratch folder, to its ``place`` in the cache; return its path."""
        target = self.root.joinpath(*place)
        with file.open("rb") as content:
            os.fsync(content)  # the name must not outlive a power cut that the content does not
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.replace(file, target)
        except FileNotFoundError:  # the empty folder was just removed: see prune
            target.parent.mkdir(parents=True, exist_ok=True)
            os.replace(file, target)
        return target

    def store(self, file: Path, *folder: str) -> Path:
        """Move ``file``, from a scratch folder, to where `find` looks for it; return its path."""
        return self.keep(file, *folder, FileHashes().of(file) or "", file.name)

    def find(self, name: str, *folder: str) -> Path | None:
        """Return the file ``name`` that was stored in ``folder``; None if there is no whole one.

        The name of the folder that it is in is its SHA-256, in hex.
        """
        place = self.root.joinpath(*folder)
        for path in sorted(place.iterdir()) if place.is_dir() else ():
            if FileHashes().of(path / name) == path.name:
                self.use(path / name)
                return path / name
        return None

    def write(self, text: str, *place: str) -> Path:
        """Write ``text`` to ``place`` in the cache, whole or not at all; return its path."""
        content = text.encode("utf-8", "surrogateescape")  # names of files need not be UTF-8
        with self.scratch() as scratch:
            file = scratch / "text"
            file.write_bytes(_head(content) + content)
            return self.keep(file, *_checked(place))

    def read(self, *place: str) -> str | None:
        """Return the text at ``place``, None if there is none that is whole."""
        path = self.root.joinpath(*_checked(place))
        text = read_text(path)
        if text is not None:
            self.use(path)
        return text

    def use(self, path: Path) -> None:
        """Mark a file in the cache as used, so that it is not forgotten."""
        with suppress(OSError):  # just deleted, or the cache of another user
            if time.time() - path.stat().st_mtime > _DAY_S:
                os.utime(path)


def read_text(path: Path) -> str | None:
    """Return what `Cache.write` wrote to a file, None if that is not there as it was written."""
    try:
        head, end, content = path.read_bytes().partition(b"\n")
    except OSError:
        return None
    return content.decode("utf-8", "surrogateescape") if head + end == _head(content) else None


def _checked(place: tuple[str, ...]) -> tuple[str, ...]:
    """Return where a text with a digest is: not where an older boardprof has one without."""
    return (*place[:-1], f"{place[-1]}.checked")


def _head(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode() + b"\n"


class FileHashes:
    """SHA-256 of files' contents, each read once in a build."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self._known: dict[Path, str | None] = {}

    def of(self, path: Path) -> str | None:
        """Return the digest of the file's content in hex, None if it cannot be read."""
        if path not in self._known:
            try:
                self._known[path] = hashlib.sha256(path.read_bytes()).hexdigest()
            except OSError:
                self._known[path] = None
        return self._known[path]


def unwritable_cache(root: Path, error: OSError) -> BoardprofError:
    """Return what it means that nothing can be written to the cache, or to this part of it."""
    hint = "set XDG_CACHE_HOME to a folder that can be written"
    return unwritable(f"The cache {root}", error, hint)


def digest(*parts: Any) -> str:
    """Return SHA-256 over ``parts``, plain data, in hex."""
    text = json.dumps(parts, sort_keys=True)  # in ASCII, also file names that are not UTF-8
    return hashlib.sha256(text.encode()).hexdigest()


def cache_root() -> Path:
    """Return where the cache is unless said otherwise; nothing is made there."""
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    # The XDG Base Directory Specification: a relative path is invalid and ignored.
    return (base if base.is_absolute() else Path.home() / ".cache") / "boardprof"
