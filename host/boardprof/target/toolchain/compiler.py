# SPDX-License-Identifier: Apache-2.0
"""A C compiler with a cache: the same inputs are never compiled or linked twice.

The headers of an object are known only after it was compiled. So a lookup has two steps. The
source's content, the flags and the compiler lead to all objects that were made of these before,
each with a record of its headers (the compiler's own list, ``-MD``). Then the object is taken whose
headers still have the recorded contents. Objects are stored under the digest of their content.

A record has no paths of the machine. A path is kept as the label of a root and the rest. So a copy
of the same sources in another folder is found again, and a different header at the same place below
another root is not.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from boardprof.base.errors import BuildError, MissingToolError
from boardprof.base.progress import activity
from boardprof.target.toolchain.cache import Cache, FileHashes, digest, file_state, read_text
from boardprof.target.toolchain.tools import (
    SEARCHED,
    ToolFailure,
    Tools,
    errors_first,
    identified,
    parse_depfile,
)

# An object can depend on files that a source with one of these words names in no depfile.
_UNTRACKED = rb"__has_include|\.incbin|\.include\b|#\s*embed"
# Flags that make the compiler read files that it names in no depfile (GCC manual, 3).
_UNTRACKED_FLAGS = (
    r"-(-?specs\b|fprofile-use\b|fprofile-dir|fbranch-probabilities|fauto-profile|fplugin|-?sysroot"
    r"|isysroot|iprefix|iwithprefix|imultilib|wrapper|B|Wp,|Wa,|Xpreprocessor|Xassembler|Xclang"
    r"|\w+=?\$SYSROOT|I=|isystem=|iquote=|idirafter=|fmodule|fsanitize-\w+list=)|@"
)
_SYSTEM = "/"  # label of files below no root
# Options of the linker that name a file to write, with one dash or two (ld manual, 2.1).
_WRITTEN = re.compile(r"(^|,)--?(Map|out-implib)\b")


@dataclass(frozen=True)
class Unit:
    """One source to be compiled."""

    folder: Path
    source: str  # relative to ``folder``
    flags: tuple[str, ...]
    # option such as ``-I``, and folder below one of ``roots`` or ``folder``
    folders: tuple[tuple[str, Path], ...] = ()
    roots: tuple[tuple[str, Path], ...] = ()  # (label, folder) of files outside ``folder``
    watched: bool = False  # a new header that hides another one makes it stale
    tracked: bool = True  # the compiler lists every file that the object depends on

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


def is_tracked(flags: Iterable[str]) -> bool:
    """Return whether flags make the compiler read no file that it names in no depfile."""
    return not any(re.match(_UNTRACKED_FLAGS, flag) for flag in flags)


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


_ENGLISH = {"LC_ALL": "", "LC_MESSAGES": "C", "LANGUAGE": "C"}


@dataclass(frozen=True)
class Object:
    """A compiled unit.

    ``sources`` are the source and its headers, except the compiler's own; empty for the agent, and
    for objects that others have compiled.
    """

    path: Path
    sha256: str
    sources: tuple[Path, ...] = field(default=(), compare=False)

    @classmethod
    def of(cls, path: Path) -> Object:
        """Return the object for a file that others have compiled, or that is in the cache."""
        return cls(path, FileHashes().of(path) or "")


class LinkFailure(BuildError):
    """An image that did not link; ``output`` is what the linker printed."""

    def __init__(self, message: str, *, image: str, output: str) -> None:
        """Store the linker's output with the message."""
        super().__init__(message)
        self.image = image
        self.output = output


class Compiler:
    """A compiler on this machine, for one build; it may be used from many threads.

    Its answers on itself are kept in the cache.
    """

    def __init__(
        self, cc: str, package: str, cache: Cache, report: Callable[[str], None] | None = None
    ) -> None:
        """Look up ``cc`` on PATH; ``report`` gets commands and warnings, one call at a time."""
        found = shutil.which(cc)
        if found is None:
            raise MissingToolError(cc, package, hint=f"sudo apt-get install {package}")
        self._cc = found
        self._cache = cache
        self._tools = Tools(report)
        self._hashes = FileHashes()
        self.version, self._identity = identified(cc, found, cache)

    @property
    def commands(self) -> list[tuple[str, ...]]:
        """The commands that were run, in the order in which they began."""
        return self._tools.commands

    def stop(self) -> None:
        """End what other threads compile."""
        self._tools.stop()

    def program(self, name: str) -> str:
        """Return the path of a program that belongs to the compiler, such as ``objcopy``."""
        place = ("compilers", digest(self._identity, self._cc, name))
        known = self._cache.read(*place)
        if known is None or not shutil.which(known):
            known = self._ask(f"-print-prog-name={name}")
            self._cache.write(known, *place)
        return known

    def has_library(self, name: str) -> bool:
        """Return whether ``-lNAME`` is a library that comes with the compiler."""
        asked = [self._ask(f"-print-file-name=lib{name}.{kind}") for kind in ("so", "a")]
        return any(Path(said).is_absolute() for said in asked)  # unknown files have no folder

    def _ask(self, option: str) -> str:
        """Return the compiler's answer to an option about its own files."""
        return self._tools.run(self._cc, [option], Path("/"), f"{option} printed nothing").strip()

    def header(self, name: str, flags: Sequence[str]) -> Path | None:
        """Return the file of ``#include <name>`` with these flags; None if there is none."""
        place = ("headers", digest(self._identity, self._cc, name, flags))
        known = self._cache.read(*place)
        if known and Path(known).is_file():
            return Path(known)
        with self._cache.scratch() as scratch:
            (scratch / "probe.c").write_text(f"#include <{name}>\n")
            command = [*flags, "-M", "-MT", "probe", "probe.c"]
            try:
                rule = self._tools.run(self._cc, command, scratch, "the probe does not compile")
            except ToolFailure:
                return None
        found = next((p for p in parse_depfile(rule) if Path(p).name == Path(name).name), None)
        if found is None:
            return None
        self._cache.write(found, *place)
        return Path(found)

    def can_edit(self, option: str) -> bool:
        """Return whether the compiler's own ``objcopy`` knows an option."""
        return self._knows(option, self.program("objcopy"), "--help")

    def _knows(self, option: str, program: str, question: str) -> bool:
        """Return whether the help of a program has an option."""

        def told() -> str:
            try:
                return Tools(None).run(program, [question], Path("/"), "no help", LC_ALL="C")
            except BuildError:
                return ""

        place = ("linkers", digest(self._identity, program, question))
        return option in self._cache.recall(told, *place)

    def compile(self, unit: Unit) -> Object:
        """Return the object of ``unit``, from the cache if it is there."""
        return self.find(unit) or self._compile(unit)

    def find(self, unit: Unit) -> Object | None:
        """Return the object of ``unit`` from the cache; None if it is not there."""
        records = self._cache.root.joinpath("units", self._key(unit)).glob("*.json")
        for file in sorted(records) if unit.tracked else ():
            text = read_text(file)
            if text is None:  # damaged, or just deleted
                continue
            record = ObjectInputs.from_json(text)
            made = self._cache.root / "objects" / record.sha256 / record.name
            self._cache.use(made)
            read = record.files.items()
            is_valid = all(self._hashes.of(unit.path(*at)) == sha for at, sha in read)
            is_hidden = any(os.path.exists(unit.path(*at)) for at in record.absent)
            if is_valid and not is_hidden and FileHashes().of(made) == record.sha256:
                self._cache.use(file)
                return Object(made, record.sha256, self._sources(unit, record))
        return None

    def _key(self, unit: Unit) -> str:
        """Return what a unit is known by before it is compiled."""
        source = self._hashes.of(unit.folder / unit.source)
        places = [(option, *unit.label(str(folder))) for option, folder in unit.folders]
        roots = [label for label, _ in unit.roots]
        return digest(self._identity, unit.source, unit.flags, places, roots, source)

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

        ``key``: digest of all else that the image depends on, such as link scripts. ``watched``:
        the arguments name files that ``key`` may not cover. Such an image is linked again if the
        linker cannot list the files that it reads. So is one whose arguments name a file to write,
        such as a map.
        """
        hashes = [made.sha256 for made in (*objects, *last)]
        place = digest(self._identity, image, hashes, before, after, key)
        known = self._linked(place)
        if known is not None and not any(map(_WRITTEN.search, after)):
            return known
        with self._cache.scratch() as scratch:
            began_ns = scratch.stat().st_mtime_ns
            made, depfile = scratch / image, scratch / "depfile"
            files = [str(made.path) for made in objects]
            # Before the board's own: INSERT finds what comes after it.
            command = [word for path in scripts for word in ("-T", str(path))]
            command += [f"-L{path}" for path in folders]
            command += [*before, *files, *after, *(str(made.path) for made in last)]
            if self._knows("--dependency-file", self._cc, "-Wl,--help"):  # GNU ld since 2.35
                command.append(f"-Wl,--dependency-file={depfile}")
            command += ["-o", str(made)]
            try:
                with activity(f"linking {image}"):
                    self._tools.run(self._cc, command, folder, f"{image} does not link", LC_ALL="C")
            except ToolFailure as error:
                output = error.stderr + error.stdout
                raise LinkFailure(str(error), image=image, output=output) from error
            read = _read_files(depfile, folder, self._cache.root) if depfile.exists() else None
            hashes = [FileHashes().of(made) or ""]
            kept = self._cache.keep(made, "images", digest(place, hashes), image)
        settled = all(path.stat().st_mtime_ns < began_ns for path in read or ())
        if settled and not (watched and read is None):
            states = {str(path): file_state(path) for path in read or ()}
            self._cache.write(json.dumps([str(kept), states]), "links", f"{place}.json")
        return kept

    def _linked(self, place: str) -> Path | None:
        """Return an image from the same inputs, if no file that the linker read has changed."""
        known = self._cache.read("links", f"{place}.json")
        if known is None:
            return None
        image, read = json.loads(known)
        same = all(file_state(path) == state for path, state in read.items())
        # Its folder is named after its inputs and its content.
        made = digest(place, [FileHashes().of(Path(image))])
        if not same or Path(image).parent.name != made:
            return None
        self._cache.use(Path(image))
        return Path(image)

    def edit(self, made: Object, *options: str) -> Object:
        """Return a copy of an object, edited by the compiler's own ``objcopy``."""
        if not options:
            return made

        def edited(target: Path) -> None:
            failure = f"{target.name} cannot be edited"
            self._binutil("objcopy", [*options, str(made.path), str(target)], failure)

        place = ("edited", digest(self._identity, made.sha256, options))
        return Object.of(self._cache.made(made.path.name, edited, *place))

    def conversion(self, image: Path, form: str, converted: Path) -> list[str]:
        """Return the command that writes an ELF image in another format, such as ``ihex``."""
        return [self.program("objcopy"), "-O", form, str(image), str(converted)]

    def convert(self, image: Path, form: str, converted: Path) -> None:
        """Run that command."""
        program, *words = self.conversion(image, form, converted)
        self._tools.run(program, words, Path("/"), f"{image} cannot be converted")

    def merge(self, name: str, objects: Sequence[Object], flags: Sequence[str]) -> Object:
        """Return one relocatable object made of several."""

        def merged(target: Path) -> None:
            files = [str(made.path) for made in objects]
            command = [*flags, "-r", "-nostdlib", "-o", str(target), *files]
            self._tools.run(self._cc, command, Path("/"), f"{name} cannot be merged", LC_ALL="C")

        hashes = [made.sha256 for made in objects]
        place = ("edited", digest(self._identity, "merged", hashes, list(flags)))
        return Object.of(self._cache.made(name, merged, *place))

    def library(self, name: str, made: Object) -> Object:
        """Return a static library of one object."""

        def written(target: Path) -> None:
            self._binutil("ar", ["rcsD", str(target), str(made.path)], f"{name} cannot be made")

        place = ("libraries", digest(self._identity, made.path.name, made.sha256))
        return Object.of(self._cache.made(name, written, *place))

    def _binutil(self, name: str, arguments: Sequence[str], failure: str) -> None:
        self._tools.run(self.program(name), arguments, Path("/"), failure)

    def errors(self, unit: Unit, further: str, key: str) -> str:
        """Return what the compiler says of a unit with ``further`` lines at its end.

        Nothing is made. ``key``: digest of all that the answer depends on, besides the compiler.
        """

        def told() -> str:
            with self._cache.scratch() as scratch:
                file = scratch / Path(unit.source).name
                text = f'#include "{unit.folder / unit.source}"\n{further}\n'
                file.write_bytes(os.fsencode(text))  # names of files need not be UTF-8
                command = [*_flags(unit), "-w", "-fsyntax-only", "-fmax-errors=0", str(file)]
                try:
                    self._tools.run(self._cc, command, unit.folder, str(file), **_ENGLISH)
                except ToolFailure as error:
                    return error.stderr
            return ""

        return self._cache.recall(told, "checked", digest(self._identity, key))

    def _sources(self, unit: Unit, record: ObjectInputs) -> tuple[Path, ...]:
        """Return the files that an object was made of, without the compiler's own.

        A file below no root may still be the user's, for example by ``-include``. The compiler may
        be installed in a folder of the user's work tree. A folder that also contains the unit, such
        as /usr, is not the compiler's own.
        """
        if not unit.watched:
            return ()
        programs = {Path(self._cc).absolute(), Path(self._cc).resolve()}
        homes = {program.parent.parent for program in programs}
        own = tuple(f"{each}{os.sep}" for each in homes if not unit.folder.is_relative_to(each))
        paths = (unit.path(*at) for at in record.files)
        return tuple(Path(path) for path in paths if not path.startswith(own))

    def _compile(self, unit: Unit) -> Object:
        key, source = self._key(unit), self._hashes.of(unit.folder / unit.source)
        name = Path(unit.source).with_suffix(".o").name
        with self._cache.scratch() as scratch:
            began_ns = scratch.stat().st_mtime_ns  # by the clock that stamps files
            made, depfile = scratch / name, scratch / "depfile"
            command = _flags(unit)
            command += [f"-fdebug-prefix-map={folder}={label}" for label, folder in unit.roots]
            command += [f"-fdebug-prefix-map={unit.folder}=."]
            command += ["-MD", "-MT", "object", "-MF", str(depfile)]
            command += [f"-frandom-seed={unit.source}", "-c", unit.source, "-o", str(made)]
            failure = f"{unit.folder / unit.source} does not compile"
            # In English: missing headers are recognised by the text.
            try:
                self._tools.run(self._cc, command, unit.folder, failure, **_ENGLISH)
            except ToolFailure as error:
                said = errors_first(error.stderr)
                raise ToolFailure(failure, error.stdout, said, error.command) from error
            if not made.exists():
                raise BuildError(f"{failure}: {self._cc} ended with code 0, but wrote no object.")
            # For a .s file only the assembler runs, which writes no depfile.
            named = _names_in(depfile) if depfile.exists() else [unit.source]
            files = {unit.label(each): unit.folder / each for each in named}
            hashes = FileHashes()
            read = {at: hashes.of(path) for at, path in files.items()}
            hiding = shadows(unit, files, _searched())
            record = ObjectInputs(name, hashes.of(made) or "", read, hiding)
            kept = self._cache.keep(made, "objects", record.sha256, name)
        # A file that changed during the compilation may differ from what was compiled.
        headers = [path for at, path in files.items() if at != ("", unit.source)]
        settled = hashes.of(unit.folder / unit.source) == source and all(
            path.stat().st_mtime_ns < began_ns for path in headers
        )
        own = (path for (label, _), path in files.items() if label != _SYSTEM)
        is_tracked = not any(re.search(_UNTRACKED, path.read_bytes()) for path in own)
        if settled and unit.tracked and is_tracked:
            text = record.to_json()
            self._cache.write(text, "units", key, f"{digest(text)}.json")
        return Object(kept, record.sha256, self._sources(unit, record))


def _flags(unit: Unit) -> list[str]:
    folders = (word for option, at in unit.folders for word in (option, str(at)))
    return [*unit.flags, *folders]


@contextmanager
def compiling_in_pool(
    what: str, units: Sequence[tuple[Compiler, Unit]], known: Sequence[Object | None]
) -> Iterator[Callable[[int, int], list[Object]]]:
    """Compile units that are not ``known``, the first ones first, while the context lasts.

    Give a function that waits for the units from one number to before another, and returns their
    objects. Of several errors, that of the first unit is raised.
    """
    # Here, because most builds compile nothing: pools of threads take a while to import.
    from concurrent.futures import Future, ThreadPoolExecutor, as_completed

    done = itertools.count(1)
    with activity(what, len(units)) as step, ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = [
            Future[Object]() if made else pool.submit(compiler.compile, unit)
            for (compiler, unit), made in zip(units, known, strict=True)
        ]
        for job, made in zip(jobs, known, strict=True):
            if made is not None:
                job.set_result(made)

        def wait(first: int, end: int) -> list[Object]:
            for job in as_completed(jobs[first:end]):
                if job.exception() is not None:
                    break
                step(next(done))
            return [job.result() for job in jobs[first:end]]

        try:
            yield wait
        except BaseException as error:
            pool.shutdown(wait=False, cancel_futures=True)
            if isinstance(error, KeyboardInterrupt):  # a compiler may take minutes
                for cc, _ in units:
                    cc.stop()
            raise


def _searched() -> list[str]:
    """Return the absolute folders that the environment adds to GCC's search for headers."""
    values = (os.environ.get(name, "") for name in SEARCHED)
    return [folder for value in values for folder in value.split(os.pathsep) if folder[:1] == "/"]


def _names_in(depfile: Path) -> list[str]:
    """Return the files that a depfile names; their names need not be UTF-8."""
    return parse_depfile(os.fsdecode(depfile.read_bytes()))


def _read_files(depfile: Path, folder: Path, cache: Path) -> list[Path]:
    """Return the files that the linker has read, without those in the cache."""
    named = (folder / file for file in _names_in(depfile))
    return [path for path in named if path.is_file() and not path.is_relative_to(cache)]
