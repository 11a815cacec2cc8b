# SPDX-License-Identifier: Apache-2.0
"""The build's cache: files under names that are digests of all that they depend on.

A file is written under a temporary name and then renamed, so that two builds at the same time see
a whole file or none. It is never changed afterwards. The cache can be deleted at any time. A file's
modification time is when it was last used, to the day.

Files may still be damaged by a disk, a crash or a person. So texts begin with the digest of the
rest, and other files are in a folder named after their digest. A damaged file counts as absent. It
is not deleted, because another build may be replacing it; the next build overwrites it.

A large cache forgets files that no build has used for long (`prune`). A build marks each file that
it takes as used, so that a build at the same time does not remove it.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from boardprof.base.errors import BoardprofError, StorageError
from boardprof.base.files import home_folder, make_private, open_file, unwritable

_DAY_S = 86400.0
_LARGEST_BYTES = 1 << 30  # how large the cache may be before anything is removed
_OLDEST_S = 30 * _DAY_S  # how long a file may stay unused in a cache that is larger
_STAMP = "pruned"
_TEMPORARY = "tmp"
_LOCK = ".lock"
# The builder's; other modules look after their own folders.
_FOLDERS = (
    *("candidates", "checked", "compilers", "edited", "functions", "headers", "images", "libc"),
    *("libraries", "linkers", "links", "names", "objects", "simulators", "tables", "undefined"),
    "units",
)


class Cache:
    """A folder of files, each written once and whole."""

    def __init__(self, root: Path | None = None) -> None:
        """Use ``root``, else ``$XDG_CACHE_HOME/boardprof``, else ``~/.cache/boardprof``."""
        self.root = cache_root() if root is None else root
        try:
            make_private(self.root / _TEMPORARY)
        except OSError as error:
            raise unwritable_cache(self.root, error) from error

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """Lend an empty folder on the cache's file system."""
        place = self.root / _TEMPORARY
        try:
            lent = tempfile.TemporaryDirectory(dir=place, ignore_cleanup_errors=True)
        except OSError as error:
            raise unwritable_cache(self.root, error) from error
        try:
            with lent as folder:
                yield Path(folder)
        except OSError as error:
            if isinstance(full := unwritable_cache(self.root, error), StorageError):
                raise full from error
            raise

    def keep(self, file: Path, *place: str) -> Path:
        """Move ``file``, from a scratch folder, to its ``place`` in the cache; return its path."""
        # Nothing is forced to the disk, which takes longer than to compile a small file: a file
        # that a power cut has emptied counts as absent.
        target = self.root.joinpath(*place)
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.replace(file, target)
        except FileNotFoundError:  # `prune` has just removed the empty folder
            target.parent.mkdir(parents=True, exist_ok=True)
            os.replace(file, target)
        return target

    def find(self, name: str, *folder: str) -> Path | None:
        """Return the file ``name`` that was stored in ``folder``; None if it is not there whole."""
        place = self.root.joinpath(*folder)
        for path in sorted(place.iterdir()) if place.is_dir() else ():
            if FileHashes().of(path / name) == path.name:
                self.use(path / name)
                return path / name
        return None

    def store(self, file: Path, *folder: str) -> Path:
        """Move ``file``, from a scratch folder, to a folder that is named after its SHA-256."""
        return self.keep(file, *folder, FileHashes().of(file) or "", file.name)

    def made(self, name: str, make: Callable[[Path], object], *folder: str) -> Path:
        """Return the file ``name`` in ``folder``; ``make`` writes it if it is not there."""
        kept = self.find(name, *folder)
        if kept is None:
            with self.scratch() as scratch:
                make(scratch / name)
                kept = self.store(scratch / name, *folder)
        return kept

    def written(self, name: str, text: str, folder: str) -> Path:
        """Return a file ``name`` with a text, below ``folder``."""
        write = partial(Path.write_text, data=text, encoding="utf-8")
        return self.made(name, write, folder, digest(text)).resolve()

    def write(self, text: str, *place: str) -> Path:
        """Write ``text`` to ``place`` in the cache, whole or not at all; return its path."""
        content = text.encode("utf-8", "surrogateescape")  # names of files need not be UTF-8
        with self.scratch() as scratch:
            file = scratch / "text"
            file.write_bytes(_head(content) + content)
            return self.keep(file, *place)

    def read(self, *place: str) -> str | None:
        """Return the text at ``place``, None if it is not there whole."""
        path = self.root.joinpath(*place)
        text = read_text(path)
        if text is not None:
            self.use(path)
        return text

    def recall(self, ask: Callable[[], str], *place: str) -> str:
        """Return the text at ``place``; ``ask`` is called for it if it is not there."""
        text = self.read(*place)
        if text is None:
            text = ask()
            self.write(text, *place)
        return text

    def use(self, path: Path) -> None:
        """Mark a file in the cache as used, so that it is not removed."""
        with suppress(OSError):  # just deleted, or the cache of another user
            if time.time() - path.stat().st_mtime > _DAY_S:
                os.utime(path)


def read_text(path: Path) -> str | None:
    """Return the text that `Cache.write` wrote to a file, None if it is missing or damaged."""
    try:
        head, end, content = path.read_bytes().partition(b"\n")
    except OSError:
        return None
    return content.decode("utf-8", "surrogateescape") if head + end == _head(content) else None


def _head(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode() + b"\n"


@dataclass
class FileHashes:
    """SHA-256 of files' contents; each file is read once in a build."""

    _known: dict[str, str | None] = field(default_factory=dict)

    def of(self, path: str | Path) -> str | None:
        """Return the digest of the file's content in hex, None if it cannot be read."""
        name = os.fspath(path)
        if name not in self._known:
            try:
                with open_file(name) as file:
                    self._known[name] = hashlib.sha256(file.read()).hexdigest()
            except OSError:
                self._known[name] = None
        return self._known[name]


def unwritable_cache(root: Path, error: OSError) -> BoardprofError:
    """Return the error for a cache, or a part of it, that cannot be written to."""
    hint = "set XDG_CACHE_HOME to a folder that can be written"
    return unwritable(f"The cache {root}", error, hint)


def digest(*parts: Any) -> str:
    """Return SHA-256 over ``parts``, plain data, in hex."""
    text = json.dumps(parts, sort_keys=True)  # in ASCII, also file names that are not UTF-8
    return hashlib.sha256(text.encode()).hexdigest()


def file_state(path: str | Path) -> list[int] | None:
    """Return a value that changes with a file, or with the names in a folder. None if absent."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]


def cache_root() -> Path:
    """Return the default folder of the cache, which may not exist yet."""
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    # The XDG Base Directory Specification: a relative path is invalid and ignored.
    return (base if base.is_absolute() else home_folder().absolute() / ".cache") / "boardprof"


def prune(root: Path, largest_bytes: int = _LARGEST_BYTES) -> list[Path]:
    """Remove files that were not used for long, if the cache is too large; at most once a day."""
    stamp = root / _STAMP
    now = time.time()
    with suppress(OSError):
        if now - stamp.stat().st_mtime < _DAY_S:
            return []
    stamp.touch()
    for path in (root / _TEMPORARY).glob("*"):  # of builds that were killed
        with suppress(OSError):
            if now - path.stat().st_mtime > _DAY_S:
                shutil.rmtree(path)
    files = [
        path
        for name in _FOLDERS
        for path in (root / name).rglob("*")
        # If a lock that is held were removed, another process would lock a new file.
        if path.suffix != _LOCK and path.is_file()
    ]
    if sum((file_state(path) or [0])[0] for path in files) <= largest_bytes:
        return []
    removed = []
    for path in files:
        # Another build may have marked it as used since the files were listed.
        with suppress(OSError):
            if now - path.stat().st_mtime > _OLDEST_S:
                path.unlink()
                removed.append(path)
                path.parent.rmdir()  # if that was the last in it
    return removed
