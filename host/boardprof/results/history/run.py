# SPDX-License-Identifier: Apache-2.0
"""A run in the history: its facts, its project, and with its Report also a line of JSON."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path, PurePath
from typing import Any, Final, NewType, get_type_hints
from urllib.parse import unquote, urlsplit

from boardprof.base.errors import BoardprofError, ReportFileError, UsageError, option
from boardprof.base.files import open_file
from boardprof.base.settings import project_name
from boardprof.results.record import NO_RECORD
from boardprof.results.report.report import Report

RunId = NewType("RunId", int)


class HistoryError(UsageError):
    """The history cannot be read or written."""


class NothingKeptError(HistoryError):
    """The history has no runs yet."""


@dataclass(frozen=True)
class GitState:
    """The state of a run's sources in git."""

    commit: str  # 40 hexadecimal digits, or 64; "" before the first commit
    branch: str  # "" if HEAD is detached, or the sources are from another repository than the run
    is_dirty: bool  # a tracked file was changed, or a measured source is not tracked

    @property
    def text(self) -> str:
        """Branch and short commit; a ``+`` after them stands for ``is_dirty``."""
        where = f"branch {self.branch}" if self.branch else "commit" if self.commit else ""
        parts = (", " if self.branch else " ").join(filter(None, [where, self.commit[:8]]))
        return parts + ("+" if self.is_dirty else "")

    def json(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {"commit": self.commit, "branch": self.branch, "dirty": self.is_dirty}


@dataclass(frozen=True)
class Run:
    """One run, without its Report."""

    id: RunId  # increasing, never used twice
    time: str  # when it was saved, ISO 8601 in UTC, e.g. ``2026-11-21T09:14:00Z``
    name: str | None
    boards: tuple[str, ...]
    functions: tuple[str, ...]
    build_ids: tuple[str, ...]
    flags: tuple[str, ...]
    command: str  # the command line; "" if not known
    # the state of the work tree that the measured sources are in; None outside of one
    git: GitState | None
    version: str
    rows: int
    project: str = ""  # of the run, see `boardprof.results.history.run`; "" if it has none
    # it failed or was interrupted, and so is not found by its branch or commit
    has_failed: bool = False
    folder: str = ""  # the name of its project's folder; "" if it came from another history
    # the measured files and folders as paths in its project; empty if it came from another history
    files: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """Its project for people: a repository's folder without ``/.git``."""
        return self.project.removesuffix("/.git")

    @property
    def label(self) -> str:
        """Its name in output: ``#42 (saved as before)``, ``#43 (failed; branch main)``."""
        other = f"saved as {self.name}" if self.name else self.git.text if self.git else ""
        facts = "; ".join(filter(None, ["failed" if self.has_failed else "", other]))
        return f"#{self.id} ({facts})" if facts else f"#{self.id}"

    def json(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {
            "id": self.id,
            "time": self.time,
            "name": self.name,
            "boards": [*self.boards],
            "functions": [*self.functions],
            "build_ids": [*self.build_ids],
            "flags": [*self.flags],
            "command": self.command,
            "git": self.git and self.git.json(),
            "project": self.project,
            "version": self.version,
            "rows": self.rows,
            "failed": self.has_failed,
        }


def run_of(row: Any, contents: Mapping[str, Sequence[str]]) -> Run:
    """Return a run by the columns of a table; damaged ones may be of any type."""

    def text(column: str) -> str:
        return row[column] if isinstance(row[column], str) else ""

    git = GitState(text("git_commit"), text("git_branch"), bool(row["git_dirty"]))
    return Run(
        id=RunId(row["id"]),
        time=text("time"),
        name=row["name"] if isinstance(row["name"], str) else None,
        boards=tuple(contents["boards"]),
        functions=tuple(contents["functions"]),
        build_ids=tuple(contents["build_ids"]),
        flags=tuple(contents["flags"]),
        command=text("command"),
        git=git if isinstance(row["git_commit"], str) else None,
        version=text("version"),
        rows=row["rows"] if isinstance(row["rows"], int) else 0,
        project=text("project"),
        has_failed=bool(row["failed"]),
        folder="".join(contents.get(FOLDER, ())[:1]),
        files=tuple(contents.get(FILES, ())),
    )


CONTENTS: Final = ("boards", "functions", "build_ids", "flags")
"""What a history knows of a run without its Report."""

FOLDER: Final = "folder"
"""Beside the contents: the name of the project's folder, where one machine has the history."""

FILES: Final = "files"  # likewise the measured files


def contents_of(report: Report) -> dict[str, tuple[str, ...]]:
    """Return the contents of a Report: its boards, functions, build ids and flags."""
    record = report.record or NO_RECORD
    return {
        "boards": _texts(record.devices or report.calls.column("Device").filled("")),
        "functions": _texts(report.calls.column("Name").filled("")),
        "build_ids": _texts(each.build_id for each in record.measurements),
        "flags": _texts(each.flags for each in record.measurements),
    }


def kept_contents(text: object) -> dict[str, tuple[str, ...]]:
    """Read the contents from stored JSON, see `contents_of`; empty if the run is damaged."""
    try:
        found = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        found = None
    kept = found if isinstance(found, dict) else {}
    return {
        kind: _texts(names if isinstance(names := kept.get(kind), list) else ())
        for kind in (*CONTENTS, FOLDER, FILES)
    }


def _texts(values: Iterable[object]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(value for value in values if isinstance(value, str) and value))


LAST = "last"
KINDS = ("name", "branch", "commit")  # what ``KIND:`` in a reference can say

_LONGEST_NAME = 200


def storable(text: str) -> str:
    """Return text that SQLite can store: file names that are not UTF-8 have lone surrogates."""
    return text.encode("utf-8", "replace").decode("utf-8")


def check_name(name: str) -> None:
    """Check that a run can be found again by its name."""
    why = ""
    if not isinstance(name, str):
        why = "it is not a string"
    elif not name or name != name.strip():
        why = "it is empty" if not name.strip() else "it begins or ends with a blank"
    elif len(name) > _LONGEST_NAME:
        why = f"it is longer than {_LONGEST_NAME} characters"
    elif not name.isprintable():
        why = "it has characters that cannot be shown"
    elif name == LAST or name.isdigit() or name.startswith(("#", "-")) or "~" in name:
        why = "last, #NUMBER, NAME~1 and words that begin with - are reserved"
    elif name.partition(":")[0] in KINDS and ":" in name:
        why = "name:NAME, branch:BRANCH and commit:COMMIT are reserved"
    elif name.endswith(".json"):
        why = "it looks like a file name"
    if why:
        raise UsageError(
            f"{name!r} cannot be the name of a run: {why}.",
            hint=f"e.g. {option('--save', 'pr-118')}",
        )


_KIND: Final = "boardprof.history"
_VERSION: Final = 1  # version of the layout; it grows if an old reader would misread new lines

_TIME: Final = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"
_WROTE: Final = "a file that `boardprof history export` wrote, unchanged"


@dataclass(frozen=True)
class StoredRun:
    """A run."""

    time: str
    name: str | None
    command: str
    project: str
    commit: str | None
    branch: str | None
    dirty: bool | None
    version: str
    failed: bool
    report: str  # as one line of JSON


def packed(report: str) -> bytes:
    """Return the JSON of a Report as the history keeps it."""
    return zlib.compress(report.encode("utf-8", "surrogatepass"))


def unpacked(kept: Any) -> str:
    """Return the JSON of a Report in the history."""
    try:
        return zlib.decompress(kept).decode("utf-8", "surrogatepass")
    except (zlib.error, TypeError) as error:
        raise ValueError(str(error)) from error


def record_of(row: Any) -> StoredRun:
    """Return a run with its Report by the columns of a table; ValueError if it is damaged."""
    if not isinstance(row["time"], str) or not isinstance(row["command"], str):
        raise ValueError("its time or its command is missing")
    dirty = row["git_dirty"]
    return StoredRun(
        time=row["time"],
        name=row["name"],
        command=row["command"],
        project=row["project"] or "",
        commit=row["git_commit"],
        branch=row["git_branch"],
        dirty=None if dirty is None else bool(dirty),
        version=row["version"],
        failed=bool(row["failed"]),
        report=unpacked(row["report"]),
    )


def written(records: Iterable[StoredRun]) -> Iterator[str]:
    """Yield the lines of a file with runs: a header, then one line for each run."""
    yield json.dumps({"kind": _KIND, "version": _VERSION}) + "\n"
    for each in records:
        facts = asdict(each)
        yield f"{json.dumps(facts | {'report': None})[:-5]}{each.report}}}\n"


def read_file(file: str) -> list[StoredRun]:
    """Return the runs of a file whose lines came from `written`."""
    try:
        with io.TextIOWrapper(open_file(file), encoding="utf-8") as lines:
            return [*_records(lines)]
    except ReportFileError as error:
        raise ReportFileError(f"{file}: {error.message}", hint=error.hint) from error
    except OSError as error:
        raise ReportFileError(f"{file} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise ReportFileError(f"{file} is not text (byte {error.start}).", hint=_WROTE) from error


def _records(lines: Iterable[str]) -> Iterator[StoredRun]:
    for number, line in enumerate(lines, 1):
        try:
            found = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise _refused(number, f"this is not JSON: {error}") from error
        if number == 1:
            if found != {"kind": _KIND, "version": _VERSION}:
                raise _refused(1, "this boardprof cannot read this file as a history")
        else:
            yield _record(found, number)


def _record(found: Any, number: int) -> StoredRun:
    kinds = {**get_type_hints(StoredRun), "report": dict}
    for name, kind in kinds.items():
        if not isinstance(found, dict) or not isinstance(found.get(name), kind):
            raise _refused(number, f"{name} is missing, or has the wrong type")
    if re.fullmatch(_TIME, found["time"]) is None:
        raise _refused(number, f"{found['time']!r:.40} is not a time")
    try:
        if found["name"] is not None:
            check_name(found["name"])
        report = Report.from_json(json.dumps(found["report"])).json()
    except BoardprofError as error:
        raise _refused(number, error.message) from error
    facts: dict[str, Any] = {
        name: storable(found[name]) if isinstance(found[name], str) else found[name]
        for name in kinds
    }
    return StoredRun(**facts | {"report": report})


def _refused(number: int, why: str) -> ReportFileError:
    return ReportFileError(f"{why}.", where=f"line {number}", hint=_WROTE)


_TIMEOUT_S = 10.0  # a machine may hang for seconds
_FOLDERS = {"GIT_COMMON_DIR", "GIT_DIR", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_PREFIX"}
_FOLDERS |= {"GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_NAMESPACE", "GIT_WORK_TREE"}
"""Variables set for hooks, which would lead git to another repository than the folder's
(git-rev-parse(1), --local-env-vars).
"""

_QUIETLY = {
    "GIT_OPTIONAL_LOCKS": "0",  # another process may be committing
    "GIT_NO_LAZY_FETCH": "1",  # do not fetch missing commits from the network
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}


def git_output(folder: str | Path, *words: str) -> str | None:
    """Return git's output in a folder; None if it fails, or git is not installed."""
    try:
        done = run_git(folder, *words)
    except subprocess.TimeoutExpired as error:
        raise HistoryError(
            f"git did not answer in {folder} within {_TIMEOUT_S:g} s, so the project is not known.",
            hint="try again, or use #NUMBER, which does not need git",
        ) from error
    except OSError:
        return None
    return os.fsdecode(done.stdout) if done.returncode == 0 else None  # names need not be UTF-8


def git_refusal(folder: str | Path) -> tuple[str, str] | None:
    """Return why git does not read the repository around a folder, and what it says to do.

    None outside of a repository, and if git reads it. git refuses one that another user owns.
    """
    place = Path(folder).absolute()
    if not any((each / ".git").exists() for each in (place, *place.parents)):
        return None
    try:
        done = run_git(folder, "rev-parse", "--git-dir")
    except FileNotFoundError:
        return "git is not installed", "install the package git (Debian: apt install git)"
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"git failed: {error}", "try git status there"
    if done.returncode == 0:
        return None
    said = os.fsdecode(done.stderr).strip()
    command = re.search(r"^\s*(git config .*)$", said, re.MULTILINE)
    first = said.partition("\n")[0].removeprefix("fatal: ")
    return f"git says: {first}", command[1] if command else "try git status there"


def run_git(
    folder: str | Path, *words: str, timeout_s: float | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run git on a folder's repository, whatever the environment says; it never prompts."""
    inherited = {name: value for name, value in os.environ.items() if name not in _FOLDERS}
    return subprocess.run(
        ["git", *words],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=_TIMEOUT_S if timeout_s is None else timeout_s,
        env={**inherited, **_QUIETLY},
        check=False,
    )


def repository_path(folder: str | Path) -> str | None:
    """Return the absolute path that all work trees of a repository share; None outside of one."""
    told = git_output(folder, "rev-parse", "--git-common-dir")
    if not told:
        return None
    return storable(os.path.realpath(os.path.join(folder, told.removesuffix("\n"))))


def first_commit(folder: str | Path) -> str:
    """Return the oldest root commit of a folder's repository; "" before the first commit."""
    told = git_output(folder, "rev-list", "--max-parents=0", "HEAD") or ""
    return told.rstrip("\n").rpartition("\n")[2]


def has_branch(folder: str | Path, name: str) -> bool:
    """Tell whether a folder's repository, or a remote of it as last fetched, has a branch."""
    told = git_output(folder, "for-each-ref", "--format=%(refname)", "refs/heads", "refs/remotes")
    parts = (line.split("/", 3) for line in (told or "").splitlines())
    return any(
        "/".join(rest[kind == "remotes" :]) == name for _, kind, *rest in parts if len(rest) > 0
    )


_LONGEST_CHAIN = 8  # limit for clones of clones on one machine

COMMIT: Final = r"[0-9a-f]{40}|[0-9a-f]{64}"  # id of a project without a remote: its first commit

_LIKE_SCP = r"(?:[^/@]+@)?(?P<host>\[[^\]]+\]|[^/:]{2,}):(?P<path>.*)"
"""``[USER@]HOST:PATH``, as ssh has it (git-clone(1), "GIT URLS"); a one-letter host such as C: is a
drive.
"""


@dataclass(frozen=True)
class Project:
    """A project."""

    # setting ``project``, else first remote's URL, else first commit, else the folder's path
    id: str
    place: str = ""  # its repository here, the id of runs before the first commit; "" if none
    folder: str | Path = ""

    @property
    def is_folder(self) -> bool:
        """Whether it is only a folder: there is neither a setting nor a repository."""
        return not self.place and self.id == _path_of(self.folder)

    @property
    def folder_name(self) -> str:
        """The name of its folder: of the repository's main work tree, if it is in one."""
        return PurePath(self.place.removesuffix("/.git") or _path_of(self.folder)).name

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of its runs, besides that of its first commit; "" is of runs for all projects."""
        # Runs from before the folder became a repository have the folder's path.
        return ("", self.id, self.place, self.place.removesuffix("/.git"))

    def has(self, id: str) -> bool:
        """Tell whether a run belongs to this project; a run without a project belongs to all."""
        if id in self.ids:
            return True
        return re.fullmatch(COMMIT, id) is not None and id == self._first_commit

    @cached_property
    def _first_commit(self) -> str:
        """The id of runs from before it had a remote."""
        return first_commit(self.folder) if self.place else ""


def project_of(folder: str | Path) -> Project:
    """Return the project that a folder is in; a folder that is in none is one by itself."""
    place = repository_path(folder)
    named = storable(project_name())
    if named:
        return Project(named, place or "", folder)
    if place is None:
        return Project(_path_of(folder), folder=folder)
    return Project(_id(folder, place, _LONGEST_CHAIN), place, folder)


def _path_of(folder: str | Path) -> str:
    return storable(os.path.realpath(folder))


def _id(folder: str | Path, place: str, chain: int) -> str:
    remotes = git_output(folder, "config", "--local", "--get-regexp", r"^remote\..*\.url$") or ""
    url = storable(remotes.partition("\n")[0].partition(" ")[2])  # of the first one
    if not url:
        return first_commit(folder) or place
    found = id_of_url(url)
    if os.path.isabs(found) and chain > 0 and os.path.isdir(found):
        # A clone on this machine belongs to the project of its origin.
        origin = repository_path(found)
        if origin is not None:
            return _id(found, origin, chain - 1)
    return found


def id_of_url(url: str) -> str:
    """Return what all URLs of a remote share, without secrets and ports: ``github.com/me/fir``."""
    scp = None if "://" in url else re.fullmatch(_LIKE_SCP, url)
    if scp is not None:
        host, path = scp["host"], scp["path"]
    elif "://" in url:
        try:
            parts = urlsplit(url)
        except ValueError:  # not an address to fetch from
            return url
        if parts.scheme == "file":
            return _plain(os.path.realpath(unquote(parts.path)))
        place = parts.netloc.rpartition("@")[2]
        host, path = re.findall(r"^\[[^\]]*\]|^[^:]*", place)[0], parts.path
    else:
        return _plain(os.path.realpath(url))
    return _plain(f"{host.lower()}/{path.lstrip('/')}")


def _plain(path: str) -> str:
    return path.rstrip("/").removesuffix(".git").rstrip("/")
