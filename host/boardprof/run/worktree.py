# SPDX-License-Identifier: Apache-2.0
"""Check out a commit next to the working tree: ``--ab-rev REV`` measures both."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from boardprof.errors import UsageError
from boardprof.firmware.build_options import BuildOptions
from boardprof.history.repository import git_environment, git_output
from boardprof.run.plan import Plan

_TIMEOUT_S = 300.0
_TRY = "check that the disk has space, and that git worktree works there"


@dataclass(frozen=True)
class Worktree:
    """A commit's files.

    Attributes:
        top: of the working tree that the user is in.
        folder: where the commit's files are.
        commit: its id.
    """

    top: Path
    folder: Path
    commit: str

    def inside(self, path: str | Path) -> Path:
        """Return the path in the commit for a path of the working tree; others become absolute."""
        whole = Path(path).absolute()
        real = whole.parent.resolve() / whole.name
        if real.resolve() == self.top:
            return self.folder
        return self.folder / real.relative_to(self.top) if real.is_relative_to(self.top) else real

    def plan(self, plan: Plan) -> Plan:
        """Return a plan that measures the commit's files with the data of the working tree."""
        return replace(
            plan,
            target=f"{self.inside(plan.path or '.')}:{plan.function}",
            values=tuple(map(_with_whole_path, plan.values)),
            expect=(),
            save_output=None,
            code=self.code(plan.code),
        )

    def code(self, code: BuildOptions) -> BuildOptions:
        """Return how the commit's files are built."""
        return replace(
            code,
            sources=tuple(self.inside(path) for path in code.sources),
            includes=tuple(self.inside(path) for path in code.includes),
        )


def _with_whole_path(value: str) -> str:
    """Return ``NAME=@FILE`` with a file that is found from anywhere; other values as they are."""
    name, mark, file = value.partition("=@")
    return f"{name}=@{os.path.abspath(file)}" if mark else value


@contextlib.contextmanager
def worktree_of(folder: Path, revision: str) -> Iterator[Worktree]:
    """Lend a worktree of a commit, which is gone afterwards.

    Args:
        folder: in the repository.
        revision: a commit, a branch or whatever else git knows.

    Raises:
        UsageError: there is no repository, the commit is unknown, or git cannot check it out.
    """
    top = git_output(folder, "rev-parse", "--show-toplevel")
    if not top:
        raise UsageError(
            f"{folder} is not in a git repository.",
            hint="use --ab '-O2|-O3', which needs no repository",
        )
    told = git_output(folder, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
    if not told or revision.startswith("-"):
        raise UsageError(
            f"git does not know the commit {revision!r}.",
            hint="git log --oneline; in a shallow clone, git fetch --unshallow first",
        )
    with tempfile.TemporaryDirectory(prefix="boardprof-") as made:
        place = Path(made).resolve() / "tree"
        _git(folder, "worktree", "add", "--quiet", "--detach", str(place), told.strip())
        try:
            yield Worktree(Path(top.removesuffix("\n")).resolve(), place, told.strip())
        finally:
            with contextlib.suppress(UsageError):  # git forgets it by itself when it is gone
                _git(folder, "worktree", "remove", "--force", str(place))


def _git(folder: Path, *words: str) -> None:
    """Run git for as long as a large checkout takes.

    Raises:
        UsageError: it fails.
    """
    try:
        done = subprocess.run(
            ["git", *words],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_S,
            env=git_environment(),
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(f"git {words[0]} {words[1]} failed: {error}.", hint=_TRY) from error
    if done.returncode != 0:
        said = done.stderr.strip()
        raise UsageError(f"git {words[0]} {words[1]} failed: {said}", hint=_TRY)
