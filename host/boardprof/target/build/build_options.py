# SPDX-License-Identifier: Apache-2.0
"""Options for compiling and linking the user's code: as given, checked, and the files they name.

A project's ``compile_commands.json`` has more, for each source. CMake, Meson, Bear and others write
it (JSON Compilation Database Format Specification). Options are explained in the GCC manual, 3.4 to
3.17.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

from boardprof.base.errors import UsageError, option
from boardprof.base.printable import encodable
from boardprof.target.elf.object_file import ELF_MAGIC, MAGIC, THIN_MAGIC, outside

_MACRO = re.compile(r"[^\W\d]\w*(\([^()=]*\))?(=.*)?", re.DOTALL)
# Options with a path, joined or as the next word, longest first (GCC manual, 3.16 and 3.13).
_HEADERS = ("-imacros", "-include")
_PATHS = ("-idirafter", "-isystem", "-imacros", "-include", "-iquote", "-I", "-L", "-T")
_FOLDERS = ("-idirafter", "-isystem", "-iquote", "-I")
# -Ttext=0 is an address, not a link script; "=" and $SYSROOT begin paths in the sysroot.
_NO_PATH = re.compile(r"-T(text|data|bss|rodata|ldata)(-segment)?(=.*)?|-\w+(=|\$SYSROOT).*")
# The words after these are not paths, even if there is a file of that name.
_OPERAND = {"-x", "-D", "-U", "-u", "-z", "-e", "--param", "-Xassembler", "-Xpreprocessor", "-arch"}
# The linker's options after -Wl and -Xlinker (ld manual, 2.1), with one dash or two.
_LINKER_PATHS = (
    *("T", "L", "R", "script", "version-script", "dynamic-list", "Map", "just-symbols"),
    *("retain-symbols-file", "dependency-file", "library-path", "out-implib"),
)
_LINKER_PATH = re.compile(rf"--?({'|'.join(_LINKER_PATHS)})")
_GLUED = re.compile(rf"(--?(?:{'|'.join(_LINKER_PATHS)})=|-L)(.+)")
# Flags that change how functions are called. The linker finds others, such as -mfloat-abi.
_CALLING = re.compile(
    r"-(mabi=ms|m?regparm=.*|mrtd|msseregparm|fpcc-struct-return|freg-struct-return|fcall-used-.*)$"
)
# The word after these is their operand, even if it looks like -O3.
_WITH_OPERAND = {*_OPERAND, *_PATHS, "-Xlinker", "-Xclang"}
_HINT = '--sweep "-O2|-O3|-O3 -funroll-loops"; an empty one adds nothing'
_ARCHIVES = (MAGIC, THIN_MAGIC)
_LONGEST_SCRIPT = 1 << 20  # bytes
_COMMENT = r"(?s)/\*.*?\*/"
# ld manual, 3.4.2 "Commands Dealing with Files".
_INCLUDE = r"\bINCLUDE\s+\"?([^\s;\"]+)"
_INPUT = r"\b(?:INPUT|GROUP)\s*\(((?:[^()]|\([^()]*\))*)\)"


@dataclass(frozen=True)
class BuildOptions:
    """The user's options of a build, not yet checked; `user_flags` checks them."""

    optimize: str = "-O2"
    sources: tuple[str | Path, ...] = ()
    includes: tuple[str | Path, ...] = ()
    defines: tuple[str, ...] = ()
    cflags: str = ""  # for the sources; paths are relative to the current folder
    ldflags: str = ""
    keep: tuple[str, ...] = ()  # static functions to make callable: ``NAME`` or ``FILE:NAME``
    libc: str = "board"  # ``board``: the board's, if the code needs it; ``none``: never
    heap: bool = False
    compile_commands: str = ""  # path of the project's; "" to find it, ``none`` to use none


@dataclass(frozen=True)
class UserFlags:
    """The user's flags, which are added to the board's own."""

    compiler: tuple[str, ...]
    folders: tuple[tuple[str, Path], ...] = ()  # option such as ``-I``, and folder with headers
    linker: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    compile_commands: str = ""

    @property
    def lto(self) -> bool:
        """Whether code is compiled at link time."""
        return any(flag.startswith("-flto") for flag in self.compiler)

    @property
    def kept_names(self) -> list[str]:
        """The names of the functions to keep, without their files."""
        return [each.rpartition(":")[2] for each in self.keep]

    def kept_in(self, file: Path) -> list[str]:
        """Return the functions to keep that an absolute ``file`` may have."""
        return [each.rpartition(":")[2] for each in self.keep if self.is_of(each, file)]

    @staticmethod
    def is_of(kept: str, file: Path) -> bool:
        """Tell whether ``kept`` names an absolute ``file``, by a relative path or last parts."""
        named = kept.rpartition(":")[0]
        parts = Path(named).parts
        return (
            not named or file.parts[-len(parts) :] == parts or str(file) == os.path.abspath(named)
        )


def user_flags(options: BuildOptions) -> UserFlags:
    """Check options and bring them into one form; paths begin at the current folder."""
    for define in options.defines:
        if not re.fullmatch(_MACRO, define):
            raise UsageError(
                f"{define!r} is not a macro.", hint="write NAME, NAME=VALUE or 'NAME(x)=VALUE'"
            )
    for name in options.keep:
        if not name.rpartition(":")[2].isidentifier():
            raise UsageError(
                f"{name!r} is not the name of a function.",
                hint=f"{option('--no-inline')} NAME, or {option('--no-inline')} FILE:NAME",
            )
    folders: dict[tuple[str, Path], None] = {}  # absolute, resolved, each once
    for folder in map(Path, options.includes):
        if not folder.is_dir():
            raise UsageError(f"The include folder {folder} does not exist.")
        if "\n" in str(folder.resolve()):
            raise UsageError(
                f"Cannot include from {str(folder)!r}: its path contains a line break.",
                hint="rename it",
            )
        folders["-I", folder.resolve()] = None
    compiler = [*_words(options.optimize), *_absolute(_words(options.cflags))]
    flags = list(_without_folders(compiler, folders))
    for flag in flags:
        if re.match(_CALLING, flag):
            raise UsageError(
                f"{flag} changes how functions are called; the agent calls them as without it.",
                hint="leave it out",
            )
    is_plain = options.compile_commands in ("", NO_DATABASE)
    return UserFlags(
        (*flags, *(f"-D{define}" for define in options.defines)),
        tuple(folders),
        tuple(_absolute(_words(options.ldflags))),
        tuple(dict.fromkeys(options.keep)),
        options.compile_commands if is_plain else os.path.abspath(options.compile_commands),
    )


def _split(flags: str) -> list[str]:
    try:
        return shlex.split(flags)
    except ValueError as error:
        raise UsageError(f"{flags!r} cannot be split into flags: {error}.") from error


def _words(text: str) -> list[str]:
    """Return the words of flags, with those in response files (``@FILE``) in their place."""
    return _with_responses(_split(text), Path())


def _without_folders(words: Sequence[str], into: dict[tuple[str, Path], None]) -> Iterator[str]:
    """Take the folders for headers out of flags."""
    waiting = ""
    for before, word in pairwise(["", *words]):
        option = next((o for o in _FOLDERS if word.startswith(o)), "")
        if waiting:
            into[waiting, Path(word).resolve()] = None
            waiting = ""
        elif before in _OPERAND or not option or re.fullmatch(_NO_PATH, word) or word == "-I-":
            yield word
        elif word == option:
            waiting = option
        else:
            into[option, Path(word.removeprefix(option)).resolve()] = None
    if waiting:
        yield waiting


def _absolute(words: Sequence[str]) -> Iterator[str]:
    """Make relative paths absolute: compilers run in the folder of each source."""
    before = linker = ""
    for word in words:
        option = next((o for o in _PATHS if word.startswith(o)), "")
        if before in _PATHS:
            yield _path(before, word)
        elif before in _OPERAND or re.fullmatch(_NO_PATH, word):
            yield word
        elif before == "-Xlinker":
            yield _for_linker(linker, word)
            linker = word
        elif word.startswith("-Wl,"):
            parts = word.split(",")
            made = (_for_linker(last, part) for last, part in pairwise(parts))
            linker = parts[-1]
            yield ",".join(["-Wl", *made])
        elif option and word != option:
            yield option + _path(option, word.removeprefix(option))
        else:
            yield word if word.startswith("-") or not os.path.exists(word) else _path("", word)
        before = "" if before in _PATHS or before in _OPERAND or before == "-Xlinker" else word


def _for_linker(before: str, word: str) -> str:
    """Return a word for the linker alone; ``before`` is the word before it."""
    if glued := _GLUED.fullmatch(word):
        return glued[1] + os.path.abspath(glued[2])
    if glued := re.fullmatch(r"-T(.+)", word):
        return word if re.fullmatch(_NO_PATH, word) else "-T" + os.path.abspath(glued[1])
    if re.fullmatch(_LINKER_PATH, before):
        return os.path.abspath(word)
    bare = not word.startswith("-") and not before.startswith(("-z", "-u", "-e", "--defsym"))
    return os.path.abspath(word) if bare and os.path.isfile(word) else word


def _path(option: str, path: str) -> str:
    """Return an absolute path; a header that does not exist is left to the include path."""
    if option in _HEADERS and not os.path.exists(path):
        return path
    return os.path.abspath(path)


def settings_of(sweep: str, base: str) -> tuple[str, ...]:
    """Return the flags of each setting of ``sweep`` (``A|B``), added to ``base``, in order."""
    if not sweep.strip():
        raise UsageError("The sweep has no settings.", hint=_HINT)
    settings: dict[str, None] = {}
    for text in sweep.split("|"):
        if text.strip() and not text.strip().startswith("-"):
            raise UsageError(f"{text.strip()!r} in the sweep is not a compiler flag.", hint=_HINT)
        flags = effective_flags(f"{base} {text}")
        if flags in settings:
            added = f"each setting is added to {base.strip() or 'no flags'}"
            raise UsageError(
                f"The sweep has {flags or 'no flags'} twice.",
                hint=f"leave out one of the two; {added}",
            )
        settings[flags] = None
    return tuple(settings)


def effective_flags(flags: str) -> str:
    """Return ``flags`` with single blanks and only the last ``-O``, at the place of the first."""
    words = _split(flags)
    levels = [at for at in range(len(words)) if _is_level(words, at)]
    if levels:
        words[levels[0]] = words[levels[-1]]
        words = [word for at, word in enumerate(words) if at not in levels[1:]]
    return shlex.join(words)


def _is_level(words: list[str], at: int) -> bool:
    """Return whether a word is an ``-O`` flag and not the operand of the option before it."""
    begin = at
    while begin and words[begin - 1] in _WITH_OPERAND:
        begin -= 1
    return words[at].startswith("-O") and (at - begin) % 2 == 0


# -- files of the linker -----------------------------------------------------------------------


def linker_files(flags: Sequence[str]) -> list[Path]:
    """Return the files that exist, each once; first those that the flags name."""
    words, folders = _linker_words(flags)
    found = dict.fromkeys(path for word in words for path in _files(word, folders))
    todo = list(found)
    for path in todo:
        new = [inner for inner in _inside(path, folders) if inner not in found]
        found.update(dict.fromkeys(new))
        todo += new  # and the files that these refer to
    return list(found)


def linked_libraries(flags: Sequence[str]) -> list[Path]:
    """Return the static and shared libraries that the linker takes for these flags.

    Libraries that link scripts name and the system's C library are left out.
    """
    words, folders = _linker_words(flags)
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


def _linker_words(flags: Sequence[str]) -> tuple[list[str], list[Path]]:
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


_NAME = "compile_commands.json"
_BUILD_FOLDER = re.compile(r"\.?build|_build|cmake-|out\b|obj|target\b", re.IGNORECASE)
_MOST_LEVELS = 6  # folders above a source that may have the file, or a build folder with it
_DEEPEST = 16  # response files within each other
_ROOT = (".git", "[Ll][Ii][Cc][Ee][Nn]*", "COPYING*")  # what the first folder of a project has
_MOST_FOLDERS = 2000  # that are searched
# A function or a variable that begins a line.
_DEFINITION = (
    rb"(?m)^(?!static\b|extern\b|typedef\b)(?:\w[^\n#;=(]*)?\b%s\s*(?:\([^;{}]*\)[^;{}]*\{|[\[=;])"
)
# Folders whose sources are not a part of the library, or are one for each system.
_ASIDE = re.compile(
    r"(unit)?_?tests?$|examples?$|samples?$|demos?$|mocks?$|stubs?$|fakes?$|.*fuzz|bench|contrib$"
    r"|ports?$|portable$|platforms?$|arch$|third_?party$|vendor$|build$",
    re.IGNORECASE,
)
NO_DATABASE = "none"
"""Instead of the path of a file: use none, even if there is one."""

# Options of the language and of code that compilers for all boards take.
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
# Options that do not change what a function computes or costs, or that boardprof gives itself.
_WITHOUT_EFFECT = re.compile(
    r"-c|-W.*|-w|-g.*|-M(D|MD|P|G|M)?|-pipe|-v|-pedantic.*|-f(diagnostics|color|message-length"
    r"|file-prefix-map|debug-prefix-map|macro-prefix-map|max-errors|random-seed|data-sections"
    r"|function-sections|ident|no-ident|stack-usage|no-color).*|-ffreestanding|-fhosted|-l.*|-L.*"
)
# Options with an operand in the next word, which are left out.
_OPERANDS = ("-o", "-MF", "-MT", "-MQ", "-x", "-arch", "-target", "--param", "-Xlinker", "-T", "-u")


@dataclass(frozen=True)
class SourceFlags:
    """The flags of one source in its project's build.

    Attributes:
        database: the file; None if no file names the source.
        taken: macros, dialect and forced headers.
        folders: the existing ones in which the project's build looks for headers.
        left_out: flags that are for another compiler or machine, or that boardprof chooses itself.
    """

    database: Path | None = None
    taken: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    folders: tuple[Path, ...] = ()

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
    base, words = Path(entry["directory"]), iter(_words_of(entry)[1:])
    taken: list[str] = []
    left_out: list[str] = []
    named: list[str] = []
    for word in words:
        if word in ("-D", "-U"):
            taken.append(f"{word}{next(words, '')}")
        elif word in _HEADERS:  # a bare name may be in any folder
            name = next(words, "")
            path = base / name
            taken += [word, os.path.normpath(path) if path.is_file() else name]
        elif word in _OPERANDS:
            next(words, None)
        elif option := next((each for each in _FOLDERS if word.startswith(each)), ""):
            named.append(word.removeprefix(option) or next(words, ""))
        elif word.startswith(("-D", "-U")) or _DIALECT.fullmatch(word):
            taken.append(word)
        elif word.startswith("-"):
            left_out += [] if _WITHOUT_EFFECT.fullmatch(word) else [word]
    folders = dict.fromkeys(Path(os.path.normpath(base / name)) for name in named)
    usable = tuple(each for each in folders if each.is_dir() and "\n" not in str(each))
    return SourceFlags(database, tuple(taken), tuple(left_out), usable)


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


def defining_sources(
    sources: Sequence[Path], symbols: Collection[str], given: str = "", *, is_hint: bool = True
) -> list[Path]:
    """Return other sources of the project that seem to define symbols, such as generated ones.

    If no database names a source: the nearest ones of the source's tree; for a hint, those of tests
    and of ports, too.
    """
    wanted = [re.compile(_DEFINITION % re.escape(encodable(s).encode())) for s in sorted(symbols)]

    def matching(pattern: re.Pattern[bytes], paths: Iterable[Path]) -> list[Path]:
        others = (path for path in paths if path not in sources and path.is_file())
        return [path for path in others if pattern.search(path.read_bytes())]

    databases = dict.fromkeys(_database_of(source, given) for source in sources)
    found = [
        path
        for database in filter(None, databases)
        for pattern in wanted
        for path in matching(pattern, _entries(database))
    ]
    if any(databases) or given == NO_DATABASE:
        return [*dict.fromkeys(found)]
    suffixes = {".c", *(source.suffix for source in sources)} - {".h", ".hpp"}
    for pattern in wanted:
        own = sources[0].parent if sources else Path()
        for folders in around(own, own) if sources else ():
            chosen = (each for each in folders if is_hint or not _is_aside(each, own))
            files = [path for folder in chosen for path in sorted(folder.iterdir())]
            near = matching(pattern, [path for path in files if path.suffix in suffixes])
            if near:
                found += near if len(near) == 1 else []  # it may be one for each system
                break
    return [*dict.fromkeys(found)]


def _is_aside(folder: Path, own: Path) -> bool:
    """Whether the way from a source's folder to another one enters one of tests or of ports."""
    return any(_ASIDE.match(name) for name in Path(os.path.relpath(folder, own)).parts)


def around(folder: Path, root: Path) -> Iterator[list[Path]]:
    """Yield the folders of a source's project in steps: its own, those below, those around.

    ``root``: where to stop if no folder above looks like the first one of a project.
    """
    every = (folder, *folder.parents)[:_MOST_LEVELS]
    root = next((up for up in every if any(any(up.glob(mark)) for mark in _ROOT)), root)
    seen = {folder}
    yield [folder]
    for up in every[: every.index(root) + 1]:
        level = []
        for at, inside, _ in islice(os.walk(up), _MOST_FOLDERS):
            inside[:] = sorted(name for name in inside if not name.startswith("."))
            level += [Path(at)] if Path(at) not in seen else []
        seen.update(level)
        yield level


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


def _words_of(entry: dict[str, Any]) -> list[str]:
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
            raise UsageError(f"The response file {file} cannot be read: {error}.") from error
        if depth >= _DEEPEST:
            raise UsageError(f"The response file {file} includes itself, or too many others.")
        found += _with_responses(within, folder, depth + 1)
    return found
