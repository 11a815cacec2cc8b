# SPDX-License-Identifier: Apache-2.0
"""A C compiler behind the cache: the same inputs are never compiled or linked twice.

What an object depends on is known only after it was compiled. So a lookup has
two steps: the source's content, the flags and the compiler lead to the objects
that were made of these before, each with the headers that it was made with (the
compiler's own list, ``-MD``) and their contents; one whose headers are as they
were then is taken. Objects are stored under the digest of their own content.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from boardprof.errors import BuildError
from boardprof.toolchain.cache import Cache, FileHashes, digest, read_text
from boardprof.toolchain.compile_unit import (
    Record,
    Unit,
    has_untracked,
    labelled_files,
    parse_depfile,
    shadows,
)
from boardprof.toolchain.diagnostics import errors_first
from boardprof.toolchain.driver import SEARCHED, Driver
from boardprof.toolchain.tools import ToolFailure

__all__ = ["Compiler", "LinkFailure", "Object"]

_ENGLISH = {"LC_ALL": "", "LC_MESSAGES": "C", "LANGUAGE": "C"}


@dataclass(frozen=True)
class Object:
    """A compiled unit.

    Attributes:
        path: of the file.
        sha256: of its content, in hex.
        sources: the source and its headers, those of the system among them, but for those below
            the compiler's own folder; () where another has compiled it.
    """

    path: Path
    sha256: str
    sources: tuple[Path, ...] = field(default=(), compare=False)


class LinkFailure(BuildError):
    """An image that did not link; ``output`` is what the linker printed."""

    def __init__(self, message: str, *, image: str, output: str) -> None:
        """Keep what the linker printed beside the message."""
        super().__init__(message)
        self.image = image
        self.output = output


class Compiler(Driver):
    """A compiler on this machine, for one build; its methods may be called from many threads."""

    def __init__(
        self, cc: str, package: str, cache: Cache, report: Callable[[str], None] | None = None
    ) -> None:
        """Look up ``cc`` on PATH; see `Driver`."""
        super().__init__(cc, package, cache, report)
        self._hashes = FileHashes()

    def compile(self, unit: Unit) -> Object:
        """Return the object of ``unit``, from the cache if it is there.

        Raises:
            BuildError: it does not compile; the message has the compiler's text.
        """
        source = self._hashes.of(unit.folder / unit.source)
        places = [(option, *unit.label(str(folder))) for option, folder in unit.folders]
        roots = [label for label, _ in unit.roots]
        key = digest(self._identity, unit.source, unit.flags, places, roots, source)
        for file, record in self._records(key) if unit.tracked else ():
            made = self._cache.root / "objects" / record.sha256 / record.name
            self._cache.use(made)
            if self._is_valid(unit, record) and FileHashes().of(made) == record.sha256:
                self._cache.use(file)
                return Object(made, record.sha256, self._sources(unit, record))
        return self._compile(unit, key, source)

    def link(
        self,
        image: str,
        objects: Sequence[Object],
        before: Sequence[str],
        after: Sequence[str],
        folder: Path,
        key: str,
        scripts: Sequence[Path] = (),
        last: Sequence[Object] = (),
        watched: bool = False,
        folders: Sequence[Path] = (),
    ) -> Path:
        """Return the linked image, from the cache if it is there.

        Args:
            image: its file name.
            objects: in the order of the link.
            before: arguments in front of the objects, without paths of the machine.
            after: arguments behind the objects, likewise.
            folder: where the linker runs.
            key: digest of all else that the image depends on, such as link scripts.
            scripts: linker scripts beside the board's own.
            last: libraries behind all that.
            watched: the arguments name files that ``key`` may not have: an image whose linker does
                not tell what it read is linked again.
            folders: where link scripts name others; ``key`` has what is in them.

        Raises:
            LinkFailure: it does not link; the message has the linker's text.
        """
        hashes = [made.sha256 for made in (*objects, *last)]
        place = digest(self._identity, image, hashes, before, after, key)
        known = self._linked(place)
        if known is not None:
            return known
        with self._cache.scratch() as scratch:
            began_ns = scratch.stat().st_mtime_ns
            made, depfile = scratch / image, scratch / "depfile"
            files = [str(made.path) for made in objects]
            # In front of the board's own: INSERT finds what comes after it.
            command = [word for path in scripts for word in ("-T", str(path))]
            command += [f"-L{path}" for path in folders]
            command += [*before, *files, *after, *(str(made.path) for made in last)]
            command += [f"-Wl,--dependency-file={depfile}"] if self.tells_files() else []
            command += ["-o", str(made)]
            try:
                self._tools.run(self._cc, command, folder, f"{image} does not link", LC_ALL="C")
            except ToolFailure as error:
                output = error.stderr + error.stdout
                raise LinkFailure(str(error), image=image, output=output) from error
            read = _read_files(depfile, folder, self._cache.root) if depfile.exists() else None
            hashes = [FileHashes().of(made) or ""]
            kept = self._cache.keep(made, "images", digest(place, hashes), image)
        settled = all(path.stat().st_mtime_ns < began_ns for path in read or ())
        if settled and not (watched and read is None):
            states = {str(path): _state(path) for path in read or ()}
            self._cache.write(json.dumps([str(kept), states]), "links", f"{place}.json")
        return kept

    def _linked(self, place: str) -> Path | None:
        """Return an image that was linked of the same, if all that the linker read is as it was."""
        known = self._cache.read("links", f"{place}.json")
        if known is None:
            return None
        image, read = json.loads(known)
        same = all(_state(Path(path)) == state for path, state in read.items())
        # Its folder is named after what it was linked of and what came out.
        made = digest(place, [FileHashes().of(Path(image))])
        if not same or Path(image).parent.name != made:
            return None
        self._cache.use(Path(image))
        return Path(image)

    def edit(self, made: Object, *options: str) -> Object:
        """Return an object as the compiler's own ``objcopy`` changes it.

        Args:
            made: it stays as it is.
            options: of objcopy.

        Raises:
            BuildError: it fails.
        """
        place = ("edited", digest(self._identity, made.sha256, options))
        kept = self._cache.find(made.path.name, *place)
        if kept is None:
            program = self.program("objcopy")
            with self._cache.scratch() as scratch:
                target = scratch / made.path.name
                command = [*options, str(made.path), str(target)]
                self._tools.run(program, command, scratch, f"{made.path.name} cannot be edited")
                kept = self._cache.store(target, *place)
        return Object(kept, kept.parent.name)

    def _records(self, key: str) -> Iterator[tuple[Path, Record]]:
        for file in sorted(self._cache.root.joinpath("units", key).glob("*.json.checked")):
            text = read_text(file)
            if text is not None:  # else damaged, or just deleted
                yield file, Record.from_json(text)

    def _sources(self, unit: Unit, record: Record) -> tuple[Path, ...]:
        """Return the files that an object was made of, but for those that the compiler brings.

        It may be installed in a folder of the user's work tree that git ignores. A folder that has
        the unit, too, such as /usr, is not the compiler's own.
        """
        programs = {Path(self._cc).absolute(), Path(self._cc).resolve()}
        homes = {program.parent.parent for program in programs}
        own = [home for home in homes if not unit.folder.is_relative_to(home)]
        files = unit.own_files(record)
        return tuple(file for file in files if not any(map(file.is_relative_to, own)))

    def _is_valid(self, unit: Unit, record: Record) -> bool:
        """Return whether every file that the object was made of is as it was then."""
        return all(
            self._hashes.of(unit.path(*at)) == sha for at, sha in record.files.items()
        ) and not any(unit.path(*at).exists() for at in record.absent)

    def _compile(self, unit: Unit, key: str, source: str | None) -> Object:
        name = Path(unit.source).with_suffix(".o").name
        with self._cache.scratch() as scratch:
            began_ns = scratch.stat().st_mtime_ns  # by the clock that stamps files
            made, depfile = scratch / name, scratch / "depfile"
            command = [*unit.flags]
            command += [word for option, at in unit.folders for word in (option, str(at))]
            command += [f"-fdebug-prefix-map={folder}={label}" for label, folder in unit.roots]
            command += [f"-fdebug-prefix-map={unit.folder}=."]
            command += ["-MD", "-MT", "object", "-MF", str(depfile)]
            command += [f"-frandom-seed={unit.source}", "-c", unit.source, "-o", str(made)]
            failure = f"{unit.folder / unit.source} does not compile"
            # In English: what is missing is read from it.
            try:
                self._tools.run(self._cc, command, unit.folder, failure, **_ENGLISH)
            except ToolFailure as error:
                said = errors_first(error.stderr)
                raise ToolFailure(failure, error.stdout, said, error.command) from error
            # The assembler alone, for a .s file, writes none.
            rule = _names_in(depfile) if depfile.exists() else f"object: {unit.source}"
            files = labelled_files(unit, rule)
            hashes = FileHashes()
            record = Record(
                name,
                hashes.of(made) or "",
                {at: hashes.of(path) for at, path in files.items()},
                shadows(unit, files, _searched()),
            )
            kept = self._cache.keep(made, "objects", record.sha256, name)
        # What changed meanwhile may not be what was compiled. The source was read before, too.
        headers = [path for at, path in files.items() if at != ("", unit.source)]
        settled = hashes.of(unit.folder / unit.source) == source and all(
            path.stat().st_mtime_ns < began_ns for path in headers
        )
        if settled and unit.tracked and not has_untracked(files):
            text = record.to_json()
            self._cache.write(text, "units", key, f"{digest(text)}.json")
        return Object(kept, record.sha256, self._sources(unit, record))


def _searched() -> list[str]:
    """Return the absolute folders in which the environment lets GCC look for headers."""
    values = (os.environ.get(name, "") for name in SEARCHED)
    return [folder for value in values for folder in value.split(os.pathsep) if folder[:1] == "/"]


def _names_in(depfile: Path) -> str:
    """Return a depfile's text; the name of a file need not be UTF-8."""
    return os.fsdecode(depfile.read_bytes())


def _read_files(depfile: Path, folder: Path, cache: Path) -> list[Path]:
    """Return the files that the linker has read, but for those that only this link had."""
    named = (folder / file for file in parse_depfile(_names_in(depfile)))
    return [path for path in named if path.is_file() and not path.is_relative_to(cache)]


def _state(path: Path) -> list[int] | None:
    """Return what differs when a file is another one; libraries are too long to be read."""
    try:
        status = path.stat()
    except OSError:
        return None
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]
