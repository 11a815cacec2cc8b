# SPDX-License-Identifier: Apache-2.0
"""A project's ``compile_commands.json``: the flags of each source, and the other sources.

CMake, Meson, Bear and others write this file (JSON Compilation Database Format Specification).
Options are explained in the GCC manual, 3.4 to 3.17.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import shlex
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from boardprof.base.errors import UsageError

_NAME = "compile_commands.json"
_BUILD_FOLDER = re.compile(r"\.?build|_build|cmake-|out\b|obj|target\b", re.IGNORECASE)
_MOST_LEVELS = 6
_DEEPEST = 8  # response files within each other
"""How many folders above a source may have the file, or a build folder with it."""

_FOLDERS = ("-isystem", "-idirafter", "-iquote", "-I")


NO_DATABASE = "none"
"""Instead of the path of a file: use none, even if there is one."""

_DIALECT = re.compile(
    r"-std=.+|-ansi|-f(no-)?("
    r"strict-aliasing|wrapv|signed-char|unsigned-char|short-enums|short-wchar|builtin|builtin-\w+"
    r"|common|fast-math|math-errno|trapping-math|signed-zeros|finite-math-only|associative-math"
    r"|reciprocal-math|unsafe-math-optimizations|single-precision-constant|exceptions|rtti"
    r"|threadsafe-statics|use-cxa-atexit|ms-extensions|gnu89-inline|permissive|inline"
    r"|inline-functions|inline-small-functions|unroll-loops|omit-frame-pointer|jump-tables"
    r"|delete-null-pointer-checks|strict-overflow|lax-vector-conversions|pack-struct"
    r"|unwind-tables|asynchronous-unwind-tables)|-ffp-contract=\w+|-fpack-struct=\d+"
)
"""Options of the language and of code that compilers for all boards take."""

_WITHOUT_EFFECT = re.compile(
    r"-c|-W.*|-w|-g.*|-M(D|MD|P|G|M)?|-pipe|-v|-pedantic.*|-f(diagnostics|color|message-length"
    r"|file-prefix-map|debug-prefix-map|macro-prefix-map|max-errors|random-seed|data-sections"
    r"|function-sections|ident|no-ident|stack-usage|no-color).*|-ffreestanding|-fhosted|-l.*|-L.*"
)
"""Options that do not change what a function computes or costs, or that boardprof gives itself."""

_OPERANDS = ("-o", "-MF", "-MT", "-MQ", "-x", "-arch", "-target", "--param", "-Xlinker", "-T", "-u")
"""Options with an operand in the next word, which are left out."""

_FORCED = ("-include", "-imacros")


@dataclass(frozen=True)
class SourceFlags:
    """The flags of one source in its project's build.

    Attributes:
        database: the file; None if no file names the source.
        taken: macros, dialect and forced headers.
        left_out: flags that are for another compiler or machine, or that boardprof chooses itself.
    """

    database: Path | None = None
    taken: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()

    @property
    def note(self) -> str:
        """What is taken and what is left out; "" if there is nothing to tell."""
        if self.database is None or not (self.taken or self.left_out):
            return ""
        taken = f"takes {_few(self.taken)}" if self.taken else ""
        left_out = f"leaves out {_few(self.left_out)}" if self.left_out else ""
        told = " and ".join(filter(None, (taken, left_out)))
        return f"the build {told} of {os.path.relpath(self.database)}"


def _few(flags: Sequence[str]) -> str:
    every = [*dict.fromkeys(flags)]
    more = f" and {len(every) - _MOST_TOLD} more" if len(every) > _MOST_TOLD else ""
    return shlex.join(every[:_MOST_TOLD]) + more


_MOST_TOLD = 8


def source_flags(source: Path, given: str = "") -> SourceFlags:
    """Return the flags of a source; ``given``: a database, `NO_DATABASE`, or "" to find one."""
    database = _database_of(source, given)
    if database is None:
        return SourceFlags()
    entry = _entries(database)[source.resolve()]
    base, words = Path(entry["directory"]), iter(_words(entry)[1:])
    taken: list[str] = []
    left_out: list[str] = []
    for word in words:
        if word in ("-D", "-U"):
            taken.append(f"{word}{next(words, '')}")
        elif word in _FORCED:
            taken += [word, _forced(base, next(words, ""))]
        elif word in _OPERANDS or word in _FOLDERS:
            next(words, None)
        elif word.startswith(("-D", "-U")) or _DIALECT.fullmatch(word):
            taken.append(word)
        elif word.startswith("-") and not word.startswith(_FOLDERS):
            left_out += [] if _WITHOUT_EFFECT.fullmatch(word) else [word]
    return SourceFlags(database, tuple(taken), tuple(left_out))


def _forced(base: Path, name: str) -> str:
    """Return the path of a header that is included first; a bare name may be in any folder."""
    path = base / name
    return os.path.normpath(path) if path.is_file() else name


def check_database(given: str, sources: Sequence[Path]) -> None:
    """Check that a database that the user names exists, and names one of the sources."""
    if given in ("", NO_DATABASE):
        return
    file = _file(given)
    if not file.is_file():
        raise UsageError(
            f"{file} does not exist.", hint=f"the path of {_NAME}, or of its folder; or none"
        )
    if sources and not any(_database_of(source, given) for source in sources):
        raise UsageError(
            f"{file} does not name {sources[0].name}.",
            hint="build the project again, or give the file of another build",
        )


def _file(given: str) -> Path:
    path = Path(given)
    return path / _NAME if path.is_dir() else path


def header_folders(source: Path, given: str = "") -> list[Path]:
    """Return the existing folders in which the project's build looks for a source's headers."""
    database = _database_of(source, given)
    if database is None:
        return []
    entry = _entries(database)[source.resolve()]
    base, words = Path(entry["directory"]), _words(entry)
    named = [after for before, after in pairwise(words) if before in _FOLDERS]
    for word in words:
        option = next((each for each in _FOLDERS if word.startswith(each)), word)
        named += [word.removeprefix(option)] if word != option else []
    folders = dict.fromkeys(Path(os.path.normpath(base / name)) for name in named)
    return [folder for folder in folders if folder.is_dir() and "\n" not in str(folder)]


def defining_sources(
    sources: Sequence[Path], symbols: Collection[str], given: str = ""
) -> list[Path]:
    """Return other sources of the project that seem to define symbols, such as generated ones."""
    wanted = [
        re.compile(rb"(?m)^\w[^\n#;=(]*\b%s\b[^;]*[={]" % re.escape(s.encode())) for s in symbols
    ]
    found: dict[Path, None] = {}
    databases = (_database_of(source, given) for source in sources)
    for database in dict.fromkeys(filter(None, databases)):
        for path in _entries(database):
            if path not in sources and path.is_file():
                content = path.read_bytes()
                found |= dict.fromkeys([path] if any(w.search(content) for w in wanted) else [])
    return [*found]


def _database_of(source: Path, given: str) -> Path | None:
    """Return the file that the user names or the nearest one, if it names a source."""
    if given == NO_DATABASE:
        return None
    places = [_file(given)] if given else _candidates(source.resolve().parent)
    for path in places:
        if path.is_file() and source.resolve() in _entries(path):
            return path
    return None


def _candidates(folder: Path) -> Iterator[Path]:
    for at in (folder, *folder.parents)[:_MOST_LEVELS]:
        with suppress(OSError):
            below = sorted(name for name in os.listdir(at) if _BUILD_FOLDER.match(name))
            # CMake's presets have build/Debug or out/build/Debug, Zephyr's sysbuild build/APP.
            yield from at.glob(_NAME)
            for name, form in itertools.product(below, ("", "*/", "build/*/")):
                yield from sorted((at / name).glob(f"{form}{_NAME}"))
        if (at / ".git").exists():
            return


def _entries(database: Path) -> dict[Path, dict[str, Any]]:
    """Return the entries of a file by their source; empty if it cannot be read."""
    return _read(database, database.stat().st_mtime_ns)


@lru_cache(maxsize=8)
def _read(database: Path, _changed_ns: int) -> dict[Path, dict[str, Any]]:
    try:
        listed = json.loads(database.read_bytes())
        return {Path(each["directory"], each["file"]).resolve(): each for each in listed}
    except (OSError, ValueError, TypeError, KeyError):
        return {}


def _words(entry: dict[str, Any]) -> list[str]:
    """Return the words of an entry's command; empty if it cannot be split."""
    try:
        words = entry.get("arguments") or shlex.split(str(entry.get("command", "")))
    except ValueError:
        return []
    return _with_responses(words, Path(entry["directory"]))


def _with_responses(words: Sequence[str], folder: Path, depth: int = 0) -> list[str]:
    """Return words with those of response files, which may name others (GCC manual, 3.2, @file)."""
    found: list[str] = []
    for word in words:
        file = folder / word[1:]
        if not word.startswith("@") or not file.is_file():
            found.append(word)
            continue
        try:
            within = shlex.split(file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise UsageError(f"{file}, which {_NAME} names, cannot be read: {error}.") from error
        if depth >= _DEEPEST:
            raise UsageError(f"{file} names itself, or too many other files.")
        found += _with_responses(within, folder, depth + 1)
    return found
