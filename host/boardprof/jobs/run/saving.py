# SPDX-License-Identifier: Apache-2.0
"""Save each run in the history; a failure to save never loses the result."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from boardprof.base.errors import BoardprofError, ReportFileError, UsageError
from boardprof.base.processes import locked_folder
from boardprof.base.settings import PROJECT_FILE
from boardprof.results.baseline import (
    BaselineUpdate,
    baseline_content,
    is_baseline,
    report_of_baseline,
    updated_baseline,
)
from boardprof.results.comparison.comparison import ComparisonError
from boardprof.results.history.report_lookup import history_place, is_named, user_history
from boardprof.results.history.run import (
    GitState,
    HistoryError,
    RunId,
    check_name,
    git_output,
    git_refusal,
    has_branch,
    project_of,
    repository_path,
)
from boardprof.results.report.report import Report
from boardprof.results.report.report_file import check_report_file, write_text
from boardprof.target.build.sources import find_sources, language

_STATUS = ("status", "--porcelain=v2", "--branch", "--untracked-files=no")
_NO_BRANCH = "(detached)"
_NO_COMMIT = "(initial)"
_COMPILED = {"c", "c++", "assembler"}
_WRITE_S = 10.0
"""How long other processes may take to write a baseline file in the same folder."""


def check_save_name(name: str | None, folder: str | Path = ".") -> None:
    """Check before the first measurement that a run can be stored, and found by its name."""
    if name is not None:
        check_name(name)
        is_branch = False
        with contextlib.suppress(HistoryError):  # a run is kept even without git
            is_branch = has_branch(folder, name)
        if is_branch:
            raise UsageError(
                f"{name!r} is a branch here: a run saved as {name} would hide the runs of that "
                "branch.",
                hint=f"use another name; {name} already means the newest clean run of the branch",
            )
    if name is not None or history_place() is not None:
        user_history()


def keep_run(
    report: Report,
    *,
    name: str | None = None,
    command: Sequence[str] | None = None,
    measured: Sequence[str | Path] = (),
    sources: Sequence[Path] = (),
    folder: str | Path = ".",
    has_failed: bool = False,
    on_note: Callable[[str], None],
) -> RunId | None:
    """Save a Report in the history and return its number; None if the history is turned off."""
    # A UsageError says why it was not kept. A failed run does not get the ``name``: it must not
    # become a baseline unnoticed. ``on_note`` hears if a history that the user has named did not
    # exist: the name may be a mistake.
    if history_place() is None:
        return None
    words = shlex.join(["boardprof", *sys.argv[1:]] if command is None else command)
    try:
        state = git_state(measured, folder, sources)
        history = user_history(_home(measured, folder))
        is_new = is_named() and not history.may_exist()
        given = None if has_failed else name
        files = files_in_project(measured)
        kept = history.save(report, given, words, git=state, has_failed=has_failed, files=files)
    except BoardprofError as error:
        raise UsageError(f"the run was not kept: {error}") from error
    if state is None and (refused := git_refusal(_first_folder(measured, folder))):
        on_note(f"the run is kept without a commit: {refused[0]}. Try: {refused[1]}")
    if is_new:
        on_note(f"{history.name} did not exist: a new history starts with this run")
    return kept


def git_state(
    measured: Sequence[str | Path] = (), folder: str | Path = ".", sources: Sequence[Path] = ()
) -> GitState | None:
    """Return git's facts about the measured files, for which the first one's repository counts."""
    # A source in it that git does not track is a change; objects and firmware need not be tracked.
    # For files in another repository than ``folder``'s there is no branch, because that is not this
    # project's. None outside a repository, without git, or if git does not answer within ten
    # seconds.
    files = [file for path in measured for file in _files(Path(path))]
    place = _first_folder(measured, folder)
    try:
        told = git_output(place, *_STATUS)
        if told is None:
            return None
        is_own = _are_together(place, folder) or (
            repository_path(folder) in (None, repository_path(place))
        )
        lines = told.splitlines()
        is_dirty = any(not line.startswith("#") for line in lines) or _has_untracked(files, sources)
    except HistoryError:
        return None
    if is_dirty is None:
        return None
    heads = dict(line[2:].split(" ", 1) for line in lines if line.startswith("# branch."))
    commit, branch = heads.get("branch.oid", ""), heads.get("branch.head", "")
    return GitState(
        commit="" if commit == _NO_COMMIT else commit,
        branch="" if branch == _NO_BRANCH or not is_own else branch,
        is_dirty=is_dirty,
    )


def _first_folder(measured: Sequence[str | Path], folder: str | Path) -> str | Path:
    """Return the folder of the first measured file; ``folder`` if there is none."""
    files = (file for path in measured for file in _files(Path(path)))
    return next((file.parent for file in files), folder)


def _home(measured: Sequence[str | Path], folder: str | Path) -> str | Path:
    """Return the folder whose project a run belongs to: ``folder``, or that of the first file."""
    with contextlib.suppress(HistoryError):
        files = [file for path in measured for file in _files(Path(path))]
        is_elsewhere = bool(files) and not _are_together(files[0].parent, folder)
        if is_elsewhere and project_of(folder).is_folder:
            other = files[0].parent
            return folder if project_of(other).is_folder else other
    return folder


def _are_together(folder: str | Path, other: str | Path) -> bool:
    """Tell without git whether two folders are one, or in one work tree."""
    one, two = Path(folder).resolve(), Path(other).resolve()
    return one == two or _work_tree(one) == _work_tree(two) is not None


def _files(path: Path) -> Sequence[Path]:
    """Return a file, or the sources in a folder; like git, without links in the path."""
    return find_sources([path]).files if path.is_dir() else [path.parent.resolve() / path.name]


def _has_untracked(files: Sequence[Path], sources: Sequence[Path]) -> bool | None:
    """Tell whether git does not track a source in the first file's work tree; None if unknown."""
    tree = _work_tree(files[0].parent) if files else None
    if tree is None:
        return False

    @cache  # thousands of headers are in a few folders
    def place(folder: str) -> str | None:
        """Return a folder's path in the work tree; None if it is outside."""
        real = Path(folder).resolve()
        return os.path.relpath(real, tree) if _work_tree(real) == tree else None

    every = [file for file in files if language(file) in _COMPILED]
    own = set()
    for folder, name in map(os.path.split, (*every, *sources)):
        if (at := place(folder)) is not None:
            own.add(name if at == os.curdir else f"{at}{os.sep}{name}")
    if not own:
        return False
    listed = git_output(tree, "ls-files", "-z")
    return None if listed is None else not own.issubset(listed.split("\0"))


def files_in_project(measured: Sequence[str | Path]) -> list[str]:
    """Return measured files and folders as paths that are the same in each clone of the project."""
    paths = [Path(os.path.realpath(path)) for path in measured]
    return [os.path.relpath(path, _top(path.parent) or os.path.realpath(".")) for path in paths]


def _top(folder: Path) -> Path | None:
    """Return the work tree that a folder is in, or the folder of its settings."""
    holders = (each for each in (folder, *folder.parents) if (each / PROJECT_FILE).exists())
    return _work_tree(folder) or next(holders, None)


def _work_tree(folder: Path) -> Path | None:
    """Return the work tree that a folder is in; a submodule is a work tree of its own."""
    return next((each for each in (folder, *folder.parents) if (each / ".git").exists()), None)


def check_baseline_file(file: str) -> None:
    """Check before anything is measured that `write_baseline` can write a file."""
    check_report_file(file)
    _earlier(file)


def write_baseline(
    report: Report, file: str, keeps: Callable[[str], bool] = lambda label: True
) -> BaselineUpdate:
    """Write a baseline file, or join a Report with the one that is there."""
    # The file is written completely or not at all; it is left as it was if its other rows were
    # measured in another way. If several processes write it at the same time, it has the rows of
    # all.
    folder = Path(os.path.realpath(file)).parent
    with locked_folder(folder, _WRITE_S, f"{file} cannot be written: {folder}"):
        try:
            made = updated_baseline(report, _earlier(file), keeps)
        except ComparisonError as error:
            raise UsageError(
                f"{file} has rows that this run did not measure again, and they were measured in "
                f"another way: {error.message}",
                hint=f"write another file; or remove {file}, and measure its other rows again, too",
            ) from error
        write_text(made.text, file)
        return made


def _earlier(file: str) -> dict[str, Any] | None:
    """Return the content of a baseline file; None if it is absent or empty."""
    path = Path(file)
    if not path.is_file():  # a pipe or a device is only written
        return None
    try:
        text = path.read_text(encoding="utf-8")
        if not text.strip():
            return None
        if not is_baseline(text):
            raise ReportFileError("this is not a baseline file.")
        content = baseline_content(text)
        report_of_baseline(content)
    except UnicodeDecodeError as error:
        raise _unusable(file, f"this is not text (byte {error.start}).") from error
    except OSError as error:
        raise _unusable(file, f"it cannot be read: {error.strerror}.") from error
    except ReportFileError as error:
        raise _unusable(file, error.message) from error
    return content


def _unusable(file: str, why: str) -> ReportFileError:
    return ReportFileError(
        f"{file}: {why}",
        hint=f"restore {file}, for example from git; or remove it; or name another",
    )
