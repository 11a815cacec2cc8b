# SPDX-License-Identifier: Apache-2.0
"""A C compiler behind the cache: the same inputs are never compiled or linked twice.

What an object depends on is known only after it was compiled. So a lookup has
two steps: the source's content, the flags and the compiler lead to the objects
that were made of these before, each with the headers that it was made with (the
compiler's own list, ``-MD``) and their contents; one whose headers are as they
were then is taken. Objects are stored under the digest of their own content.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from boardprof.cache import Cache, FileHashes, digest
from boardprof.compile_unit import Record, Unit, has_untracked, labelled_files, shadows
from boardprof.errors import BuildError, MissingToolError

__all__ = ["Compiler", "Object"]

_FORMAT = 1  # of keys and records: raise it when either changes its meaning
_TIMEOUT_S = 300.0
# Variables that change what GCC finds (GCC manual, 3.21 "Environment Variables").
_ENVIRONMENT = ("COMPILER_PATH", "CPATH", "C_INCLUDE_PATH", "GCC_EXEC_PREFIX", "LIBRARY_PATH")


@dataclass(frozen=True)
class Object:
    """A compiled unit: the file, and SHA-256 of its content in hex."""

    path: Path
    sha256: str


class Compiler:
    """A compiler on this machine, for one build; its methods may be called from many threads.

    Attributes:
        version: what ``--version`` prints.
        commands: those that were run, in the order in which they began.
    """

    def __init__(
        self, cc: str, package: str, cache: Cache, report: Callable[[str], None] | None = None
    ) -> None:
        """Look up ``cc`` on PATH.

        Args:
            cc: the program's name.
            package: the Debian package that has it.
            cache: where results are kept.
            report: is given each command line before it runs, and the warnings
                of those that succeed; one call at a time.

        Raises:
            MissingToolError: there is no ``cc``.
            BuildError: it does not run.
        """
        found = shutil.which(cc)
        if found is None:
            raise MissingToolError(cc, package, hint=f"sudo apt-get install {package}")
        self._cc = found
        self._cache = cache
        self._report = report
        self._lock = threading.Lock()
        self._hashes = FileHashes()
        self.commands: list[tuple[str, ...]] = []
        self.version = self._version()
        environment = {name: os.environ.get(name) for name in _ENVIRONMENT}
        self._identity = digest(_FORMAT, cc, self.version, environment)

    def compile(self, unit: Unit) -> Object:
        """Return the object of ``unit``, from the cache if it is there.

        Raises:
            BuildError: it does not compile; the message has the compiler's text.
        """
        source = self._hashes.of(unit.folder / unit.source)
        places = [unit.label(str(folder)) for folder in unit.includes]
        roots = [label for label, _ in unit.roots]
        key = digest(self._identity, unit.source, unit.flags, places, roots, source)
        for record in self._records(key):
            made = self._cache.root / "objects" / record.sha256 / record.name
            if self._is_valid(unit, record) and FileHashes().of(made) == record.sha256:
                return Object(made, record.sha256)
        return self._compile(unit, key, source)

    def link(
        self,
        image: str,
        objects: Sequence[Object],
        before: Sequence[str],
        after: Sequence[str],
        folder: Path,
        key: str,
    ) -> Path:
        """Return the linked image, from the cache if it is there.

        Args:
            image: its file name.
            objects: in the order of the link.
            before: arguments in front of the objects, without paths of the machine.
            after: arguments behind the objects, likewise.
            folder: where the linker runs.
            key: digest of all else that the image depends on, such as link scripts.

        Raises:
            BuildError: it does not link; the message has the linker's text.
        """
        hashes = [made.sha256 for made in objects]
        place = digest(self._identity, image, hashes, before, after, key)
        kept = self._cache.root / "images" / place / image
        if kept.is_file():
            return kept
        with self._cache.scratch() as scratch:
            made = scratch / image
            files = [str(made.path) for made in objects]
            command = [*before, *files, *after, "-o", str(made)]
            self._run(command, folder, f"{image} does not link")
            return self._cache.keep(made, "images", place, image)

    def _version(self) -> str:
        """Return what ``--version`` prints; asked once for each state of the file."""
        status = os.stat(self._cc)
        place = ("compilers", digest(self._cc, status.st_mtime_ns, status.st_size))
        known = self._cache.read(*place)
        if not known:
            known = self._run(["--version"], Path("/"), f"{self._cc} does not run", LC_ALL="C")
            self.commands.clear()
            self._cache.write(known, *place)
        return known

    def _records(self, key: str) -> Iterator[Record]:
        for file in sorted(self._cache.root.joinpath("units", key).glob("*.json")):
            try:
                yield Record.from_json(file.read_text(encoding="utf-8"))
            except (OSError, ValueError):  # damaged or just deleted: as if it were not there
                continue

    def _is_valid(self, unit: Unit, record: Record) -> bool:
        """Return whether every file that the object was made of is as it was then."""
        return all(
            self._hashes.of(unit.path(*at)) == sha for at, sha in record.files.items()
        ) and not any((unit.folder / path).exists() for path in record.absent)

    def _compile(self, unit: Unit, key: str, source: str | None) -> Object:
        name = Path(unit.source).with_suffix(".o").name
        with self._cache.scratch() as scratch:
            began_ns = scratch.stat().st_mtime_ns  # by the clock that stamps files
            made, depfile = scratch / name, scratch / "depfile"
            command = [*unit.flags, *(f"-I{folder}" for folder in unit.includes)]
            command += [f"-fdebug-prefix-map={folder}={label}" for label, folder in unit.roots]
            command += [f"-fdebug-prefix-map={unit.folder}=."]
            command += ["-MD", "-MT", "object", "-MF", str(depfile)]
            command += [f"-frandom-seed={unit.source}", "-c", unit.source, "-o", str(made)]
            self._run(command, unit.folder, f"{unit.folder / unit.source} does not compile")
            files = labelled_files(unit, depfile.read_text())
            hashes = FileHashes()
            record = Record(
                name,
                hashes.of(made) or "",
                {at: hashes.of(path) for at, path in files.items()},
                shadows(unit, files),
            )
            kept = self._cache.keep(made, "objects", record.sha256, name)
        # What changed meanwhile may not be what was compiled. The source was read before, too.
        headers = [path for at, path in files.items() if at != ("", unit.source)]
        settled = hashes.of(unit.folder / unit.source) == source and all(
            path.stat().st_mtime_ns < began_ns for path in headers
        )
        if settled and not has_untracked(files):
            text = record.to_json()
            self._cache.write(text, "units", key, f"{digest(text)}.json")
        return Object(kept, record.sha256)

    def _run(self, arguments: Sequence[str], folder: Path, failure: str, **variables: str) -> str:
        """Run the compiler in ``folder``; return what it prints on stdout."""
        command = (self._cc, *arguments)
        shown = f"cd {shlex.quote(str(folder))} && {shlex.join(command)}"
        with self._lock:
            self.commands.append(command)
        self._tell(shown)
        # GCC takes its folder's name from PWD; __DATE__ would make each day's image another.
        environment = {"PWD": str(folder), "SOURCE_DATE_EPOCH": "0", **variables}
        try:
            done = subprocess.run(
                command,
                cwd=folder,
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise BuildError(f"{failure}: no end after {_TIMEOUT_S:.0f} s.\n{shown}") from error
        except OSError as error:
            raise BuildError(f"{failure}: {error.strerror}.\n{shown}") from error
        if done.returncode != 0:
            raise BuildError(f"{failure}:\n{done.stderr.rstrip()}\nThe command was:\n{shown}")
        if done.stderr:
            self._tell(done.stderr.rstrip())
        return done.stdout

    def _tell(self, text: str) -> None:
        if self._report is not None:
            with self._lock:
                self._report(text)
