# SPDX-License-Identifier: Apache-2.0
"""Runs of several projects in one history: whose run a reference means, on any machine."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from boardprof.jobs.run.saving import git_state
from boardprof.results.history.run import Run, id_of_url
from boardprof.results.history.store import History
from tests.cli.command import FIXTURES, Outcome, boardprof
from tests.support import git
from tests.unit.reports import report_of

SOURCE = "int twice(int x) { return 2 * x; }\n"


class World:
    """Folders below one, a history for all of them, and commands in each."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.history = History(root / "history.sqlite")

    def git(self, folder: str, *words: str) -> str:
        return git(self.root / folder, *words)

    def repository(self, name: str) -> Path:
        """Make one with a source and a commit of its own on the branch main."""
        folder = self.root / name
        folder.mkdir()
        (folder / "f.c").write_text(SOURCE)
        self.git(name, "init", "-q", "-b", "main")
        self.git(name, "add", "f.c")
        self.git(name, "commit", "-q", "-m", name)
        return folder

    def save(self, cycles: int, source: str, name: str | None = None, begun_in: str = "") -> int:
        """Keep a run of a file, as one that was started in a folder, or in the file's own."""
        file = self.root / source
        folder = self.root / begun_in if begun_in else file.parent
        kept = History(self.history.path, folder=folder)
        return int(kept.save(report_of({"cycles": [cycles]}), name, git=git_state([file], folder)))

    def command(self, folder: str, *words: str) -> Outcome:
        return boardprof(
            *words,
            environment={"BOARDPROF_HISTORY": str(self.history.path)},
            folder=self.root / folder,
        )

    def found(self, folder: str, reference: str) -> int:
        """Return the number of the run that a reference means in a folder."""
        return History(self.history.path, folder=self.root / folder).run(reference).id

    def is_dirty(self, folder: str, target: str, *words: str) -> bool:
        """Measure really; return whether what was measured is as git has it."""
        git = self.measured(folder, target, *words).git
        assert git is not None
        return git.is_dirty

    def measured(self, folder: str, target: str, *words: str) -> Run:
        """Measure really; return what was kept."""
        done = self.command(
            folder, "run", "-q", "-b", "native", target, "x=1", "--repeat=1", *words
        )
        assert done.code == 0, done.err
        return self.history.runs(limit=1)[0]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    return World(tmp_path)


@pytest.fixture
def two(world: World) -> World:
    """Two projects with a function of one name; the newer runs are of the second."""
    world.repository("ours")
    world.repository("theirs")
    world.save(100, "ours/f.c", "before")
    world.save(110, "ours/f.c")
    world.save(1, "theirs/f.c", "before")
    world.save(2, "theirs/f.c")
    return world


# -- whose run it is --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reference", "number"), [("main", 2), ("before", 1), ("last", 2), ("last~1", 1), ("#4", 4)]
)
def test_in_a_repository_a_reference_means_its_own_runs(
    two: World, reference: str, number: int
) -> None:
    assert two.found("ours", reference) == number


def test_compare_does_not_take_another_projects_run(two: World) -> None:
    found = two.command("ours", "compare", "before")
    assert found.code == 0, found.err
    assert "Before: #1 (saved as before)\n" in found.out
    commit = two.git("ours", "rev-parse", "HEAD")
    assert f"After:  #2 (branch main, {commit[:8]})\n" in found.out
    assert "+10.00 %" in found.out


def test_outside_of_a_repository_runs_of_others_are_named_and_not_taken(two: World) -> None:
    for word, number in (("main", 4), ("before", 3), ("last~3", 1)):
        refused = two.command("", "compare", word)
        assert (refused.code, refused.err.rstrip().endswith(f": #{number}")) == (2, True)
    assert two.found("", "#1") == 1


def test_a_commit_of_another_repository_is_not_ours(two: World) -> None:
    commit = two.git("theirs", "rev-parse", "HEAD")
    assert two.found("theirs", commit[:10]) == 4
    assert two.command("ours", "show", commit[:10]).code == 2


def test_a_run_of_another_repository_is_named_where_ours_has_none(two: World) -> None:
    two.save(3, "theirs/f.c", "topic")
    found = two.command("ours", "compare", "topic")
    assert found.code == 2
    assert "There is no run 'topic'" in found.err
    commit = two.git("theirs", "rev-parse", "HEAD")
    assert f"a run called 'topic' of the project {commit}: #5" in found.err
    assert "Known: last, main, before" in found.err


def test_work_trees_clones_and_moved_folders_are_one_project(two: World) -> None:
    two.git("ours", "worktree", "add", "-q", "-b", "topic", str(two.root / "tree"))
    assert (two.found("tree", "main"), two.found("tree", "before")) == (2, 1)
    two.git("", "clone", "-q", "ours", "clone")
    assert (two.found("clone", "main"), two.found("clone", "before")) == (2, 1)
    two.git("ours", "worktree", "remove", str(two.root / "tree"))
    (two.root / "ours").rename(two.root / "moved")
    assert (two.found("moved", "main"), two.found("moved", "before")) == (2, 1)


def test_shallow_clones_in_different_folders_share_their_runs(world: World) -> None:
    """As in CI: ``fetch-depth: 1``, a folder of its own in each job, and one history in a cache."""
    origin = world.repository("origin")
    for name in ("one", "two"):
        if name == "two":
            (origin / "f.c").write_text(SOURCE + "/* faster */\n")
            world.git("origin", "commit", "-q", "-a", "-m", "faster")
        world.git("", "clone", "-q", "--depth", "1", f"file://{origin}", name)
        assert world.git(name, "rev-list", "--count", "HEAD") == "1"
        world.measured(name, "f.c:twice", *(["--save", "base"] if name == "one" else []))
    found = world.command("two", "compare", "base")
    assert found.code == 0, found.err
    assert "Before: #1 (saved as base)" in found.out
    assert "After:  #2 (branch main, " in found.out
    assert world.command("two", "compare", "main~1", "main").code == 0


@pytest.mark.parametrize(
    "url",
    [
        "https://github.com/ada/fir.git",
        "https://ci-token:secret@GitHub.com/ada/fir.git",
        "ssh://git@github.com:22/ada/fir",
        "git@github.com:ada/fir.git",
        "github.com:ada/fir",
        "https://github.com/ada/fir/",
    ],
)
def test_a_project_is_its_first_remote_however_it_is_reached_and_no_token_is_kept(
    world: World, url: str
) -> None:
    world.repository("ours")
    world.git("ours", "remote", "add", "origin", url)
    world.git("ours", "remote", "add", "fork", "https://github.com/eve/fir")
    run = world.measured("ours", "f.c:twice")
    assert run.project == "github.com/ada/fir"


def test_remotes_at_two_ipv6_addresses_are_two_projects() -> None:
    urls = ("ssh://git@[fd00::7]:22/me/fir", "git@[fd00::7]:me/fir.git", "https://[FD00::8]/me/fir")
    assert [*map(id_of_url, urls)] == ["[fd00::7]/me/fir", "[fd00::7]/me/fir", "[fd00::8]/me/fir"]


def test_a_project_that_gets_a_remote_keeps_its_runs(two: World) -> None:
    two.git("ours", "remote", "add", "origin", "https://github.com/ada/fir")
    assert (two.found("ours", "before"), two.found("ours", "main")) == (1, 2)
    assert two.measured("ours", "f.c:twice").project == "github.com/ada/fir"


def test_a_project_can_be_named_by_a_setting_or_the_environment(
    two: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("ours", "theirs"):
        (two.root / folder / "boardprof.toml").write_text('project = "fir"\n')
    assert two.measured("ours", "f.c:twice", "--save", "shared").project == "fir"
    assert "#5 (saved as shared)" in two.command("theirs", "history", "show", "shared").out
    monkeypatch.setenv("BOARDPROF_PROJECT", "iir")
    assert two.command("theirs", "show", "shared").code == 2
    assert two.measured("ours", "f.c:twice").project == "iir"
    (two.root / "ours" / "boardprof.toml").write_text("project = 7\n")
    refused = two.command("ours", "history")
    assert (refused.code, "project must be a string in quotes" in refused.err) == (2, True)


def test_a_run_that_was_started_in_a_project_is_its_own(two: World) -> None:
    """Of whichever sources: they may be vendored. The branch is none of the project's then."""
    (two.root / "f.c").write_text(SOURCE)
    two.save(7, "f.c", "scratch", begun_in="ours")
    assert (two.found("ours", "scratch"), two.found("theirs", "last")) == (5, 4)
    two.save(5, "theirs/f.c", "vendored", begun_in="ours")
    assert (two.found("ours", "last"), two.found("ours", "vendored")) == (6, 6)
    assert (two.found("ours", "main"), two.found("theirs", "main")) == (2, 4)


def test_a_folder_without_a_project_has_its_own_runs(two: World) -> None:
    for folder in ("one", "two"):
        (two.root / folder).mkdir()
        (two.root / folder / "f.c").write_text(SOURCE)
    two.save(7, "one/f.c", "scratch", begun_in="one")
    two.save(9, "two/f.c", "scratch", begun_in="two")
    two.save(8, "one/f.c", begun_in="two")  # whose sources are in another such folder
    assert (two.found("one", "scratch"), two.found("one", "last")) == (5, 5)
    assert (two.found("two", "scratch"), two.found("two", "last")) == (6, 7)
    assert (two.found("one", "#6"), two.found("ours", "last")) == (6, 2)
    (two.root / "link").symlink_to(two.root / "one")
    assert two.found("link", "last") == 5
    refused = two.command("ours", "compare", "scratch")
    place = str(two.root / "two")
    assert (refused.code, f"'scratch' of the project {place}: #6" in refused.err) == (2, True)


def test_a_first_run_in_a_folder_has_no_earlier_run_in_another_one(two: World) -> None:
    for folder in ("one", "two", "one/below"):
        (two.root / folder).mkdir()
        (two.root / folder / "f.c").write_text(SOURCE)
        two.save(7, f"{folder}/f.c", begun_in=folder)
    found = {
        folder: [run.id for run in History(two.history.path, folder=two.root / folder).own_runs()]
        for folder in ("one", "two", "one/below", "")
    }
    assert found == {"one": [5], "two": [6], "one/below": [7], "": []}


def test_a_folder_that_becomes_a_repository_keeps_its_runs(two: World) -> None:
    (two.root / "one").mkdir()
    (two.root / "one" / "f.c").write_text(SOURCE)
    two.save(7, "one/f.c", "scratch", begun_in="one")
    two.git("", "init", "-q", "one")
    assert two.found("one", "scratch") == 5


def test_from_outside_a_run_is_of_its_sources_project(two: World) -> None:
    run = two.measured("", "ours/f.c:twice", "--save", "outside")
    assert run.project == two.git("ours", "rev-list", "--max-parents=0", "HEAD")
    assert run.git is not None
    assert run.git.branch == "main"
    assert two.found("ours", "outside") == run.id
    assert two.command("theirs", "show", "outside").code == 2


def test_a_run_is_not_saved_as_a_branch(two: World) -> None:
    """It would hide the branch's runs for ever."""
    two.git("ours", "branch", "topic/x")
    two.git("", "clone", "-q", "ours", "clone")
    for folder, name in (("ours", "main"), ("ours", "topic/x"), ("clone", "topic/x")):
        command = ("run", "-q", "-b", "native", "f.c:twice", "x=1", "--save", name)
        refused = two.command(folder, *command)
        assert refused.code == 2
        assert f"'{name}' is a branch here: a run saved as {name} would" in refused.err
        renamed = two.command(folder, "history", "rename", "before", name)
        assert (renamed.code, "is a branch here" in renamed.err) == (2, True)
    assert len(two.history.runs()) == 4
    assert two.measured("ours", "f.c:twice", "--save", "topic").name == "topic"


def test_a_branch_that_is_called_as_a_saved_run_is_never_hidden_silently(two: World) -> None:
    two.save(5, "ours/f.c", "topic")
    two.git("ours", "checkout", "-q", "-b", "topic")
    assert two.found("ours", "topic") == 5
    two.save(6, "ours/f.c")
    found = two.command("ours", "compare", "topic", "main")
    assert found.code == 2
    told = "'topic' is ambiguous: #5 was saved as topic, and #6 is the newest clean run of the br"
    assert told in found.err
    assert (
        "Try: name:topic or branch:topic; `boardprof history rename #5 NAME` resolves it"
        in found.err
    )
    found = two.command("ours", "compare", "name:topic", "branch:topic")
    assert "Before: #5 (saved as topic)\n" in found.out
    assert "After:  #6 (branch topic, " in found.out
    assert two.command("ours", "history", "unname", "#5").code == 0
    assert two.found("ours", "topic") == 6


def test_the_list_names_the_projects_where_there_are_several(two: World) -> None:
    for name in ("ours", "theirs"):
        two.git(name, "remote", "add", "origin", f"https://github.com/ada/{name}")
    two.save(1, "ours/f.c")
    two.save(2, "theirs/f.c")
    two.command("", "history", "remove", "#1", "#2", "#3", "#4")
    lines = two.command("ours", "history").out.splitlines()
    assert lines[0].split()[:4] == ["Run", "Time", "(UTC)", "Project"]
    assert ["theirs" in line for line in lines[1:]] == [True, False]
    shown = two.command("ours", "history", "show", "last").out
    assert "Project: github.com/ada/ours\n" in shown
    line = json.loads(two.command("", "history", "--json", "--limit=1").out)
    assert line["project"] == "github.com/ada/theirs"
    two.command("", "history", "remove", "#5")
    assert "Project" not in two.command("", "history").out


def test_a_hook_of_one_repository_does_not_lead_into_it(
    two: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", str(two.root / "theirs" / ".git"))
    assert two.found("ours", "main") == 2


# -- what a run is of -------------------------------------------------------------------------


def test_a_run_has_the_commit_of_its_sources_and_not_of_the_folder(two: World) -> None:
    commit = two.git("theirs", "rev-parse", "HEAD")
    git = two.measured("ours", "../theirs/f.c:twice").git
    assert git is not None
    assert (git.commit, git.branch, git.is_dirty) == (commit, "", False)
    (two.root / "theirs" / "f.c").write_text(SOURCE + "\n")
    git = git_state([two.root / "theirs"], two.root / "ours")
    assert git is not None
    assert git.is_dirty
    (two.root / "f.c").write_text(SOURCE)
    assert two.measured("ours", "../f.c:twice").git is None


def test_a_source_that_git_does_not_track_is_a_change(world: World) -> None:
    folder = world.repository("ours")
    (folder / "new.c").write_text(SOURCE)
    (folder / "ignored.c").write_text(SOURCE)
    (folder / ".git" / "info" / "exclude").write_text("ignored.c\n*.o\n")
    (folder / "f.o").write_bytes(b"")
    world.repository("other")
    outside = world.root / "g.c"
    outside.write_text(SOURCE)

    def is_dirty(*names: str) -> bool:
        state = git_state([folder / name for name in names])
        assert state is not None
        return state.is_dirty

    assert not is_dirty("f.c")
    assert is_dirty("new.c")
    assert is_dirty("ignored.c")
    assert is_dirty("f.c", "new.c")
    assert is_dirty(".")
    assert not is_dirty("f.o")
    assert not is_dirty("f.c", "../other/f.c", "../g.c")
    assert git_state([outside], folder) is None


def test_a_header_that_git_does_not_track_is_a_change(world: World) -> None:
    folder = world.repository("ours")
    (folder / ".git" / "info" / "exclude").write_text("*.h\n")
    (folder / "f.c").write_text('#include <stddef.h>\n#include "../cfg.h"\n' + SOURCE)
    (world.root / "cfg.h").write_text("")
    world.git("ours", "commit", "-q", "-a", "-m", "with a header of elsewhere")

    def is_dirty(*words: str) -> bool:
        return world.is_dirty("ours", "f.c:twice", *words)

    assert not is_dirty()
    (folder / "f.c").write_text('#include "cfg.h"\n' + SOURCE)
    (folder / "include").mkdir()
    (folder / "include" / "cfg.h").write_text("")
    world.git("ours", "commit", "-q", "-a", "-m", "with a header of its own")
    assert is_dirty("-I", "include")
    assert is_dirty("-I", "include")  # from the cache
    world.git("ours", "add", "--force", "include/cfg.h")
    world.git("ours", "commit", "-q", "-m", "which is tracked now")
    assert not is_dirty("-I", "include")


@pytest.mark.parametrize(
    "option", ["-include {}/ign/q.h", "-include ../ign/q.h", "-isystem ../ign"]
)
def test_a_header_of_an_ignored_folder_is_a_change(world: World, option: str) -> None:
    folder = world.repository("ours")
    (folder / ".git" / "info" / "exclude").write_text("ign/\n")
    for name, text in {"src/f.c": f"#include <stdio.h>\n{SOURCE}", "ign/q.h": ""}.items():
        (folder / name).parent.mkdir()
        (folder / name).write_text(text)
    if "isystem" in option:
        (folder / "src" / "f.c").write_text(f"#include <q.h>\n{SOURCE}")
    world.git("ours", "add", "src")
    world.git("ours", "commit", "-q", "-m", "src")
    flags = f"--cflags={option.format(folder)}"
    assert world.is_dirty("ours/src", "f.c:twice", flags)
    assert world.is_dirty("ours/src", "f.c:twice", flags)  # from the cache
    world.git("ours", "add", "--force", "ign")
    world.git("ours", "commit", "-q", "-m", "which is tracked now")
    assert not world.is_dirty("ours/src", "f.c:twice", flags)


def test_of_thousands_of_headers_each_is_looked_for(world: World) -> None:
    folder = world.repository("ours")
    empty = world.git("ours", "hash-object", "-w", "/dev/null")
    names = [f"include/a_header_with_a_rather_long_name/and_a_number_{i}.h" for i in range(30_000)]
    index = ["git", "-C", str(folder), "update-index"]
    lines = "".join(f"100644 {empty}\t{name}\n" for name in names)
    subprocess.run([*index, "--index-info"], input=lines, text=True, check=True, timeout=30)
    listed = "".join(f"{name}\n" for name in names)  # they are not on the disk: nor are they gone
    subprocess.run(
        [*index, "--skip-worktree", "--stdin"], input=listed, text=True, check=True, timeout=30
    )
    world.git("ours", "commit", "-q", "-m", "headers")
    sources = [folder / name for name in names]
    clean = git_state([folder / "f.c"], sources=sources)
    assert clean is not None
    assert not clean.is_dirty
    dirty = git_state([folder / "f.c"], sources=[*sources, folder / "include" / "another.h"])
    assert dirty is not None
    assert dirty.is_dirty


def test_where_git_does_not_list_what_it_tracks_nothing_is_known(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = world.repository("ours")
    failing = world.root / "bin" / "git"
    failing.parent.mkdir()
    failing.write_text(
        f'#!/bin/sh\ncase "$1" in ls-files) exit 1;; esac\nexec {shutil.which("git")} "$@"\n'
    )
    failing.chmod(0o755)
    assert git_state([folder / "f.c"]) is not None
    monkeypatch.setenv("PATH", f"{failing.parent}:{os.environ['PATH']}")
    assert git_state([folder / "f.c"]) is None
    assert git_state([], folder) is not None


def test_names_that_are_no_utf8_are_tracked_and_kept(world: World) -> None:
    folder = world.repository("ours\udcff")
    (folder / "g\udcfe.h").write_text("")
    (folder / "f.c").write_bytes(b'#include "g\xfe.h"\n' + SOURCE.encode())
    assert world.is_dirty("ours\udcff", "f.c:twice")
    world.git("ours\udcff", "add", ".")
    world.git("ours\udcff", "commit", "-q", "-m", "g")
    run = world.measured("ours\udcff", "f.c:twice")
    assert run.git is not None
    assert not run.git.is_dirty
    assert world.found("ours\udcff", "main") == run.id


def test_a_run_that_failed_is_not_its_branchs(world: World) -> None:
    folder = world.repository("ours")
    shutil.copy(FIXTURES / "faulty.c", folder)
    world.git("ours", "add", ".")
    world.git("ours", "commit", "-q", "-m", "faulty")
    command = ("run", "-q", "-b", "native", "faulty.c:all", "--repeat=1", "--save=base")
    assert world.command("ours", *command).code == 6
    found = world.command("ours", "compare", "main")
    assert found.code == 2
    assert "There is no whole run of 'main'" in found.err
    assert "#1 is of main, and failed or was interrupted" in found.err
    whole = world.measured("ours", "f.c:twice").id
    assert world.command("ours", *command).code == 6
    assert [world.found("ours", word) for word in ("main", "last")] == [whole, 3]


def test_a_submodule_is_a_repository_of_its_own(two: World) -> None:
    command = ["-c", "protocol.file.allow=always", "submodule", "--quiet", "add"]
    two.git("ours", *command, str(two.root / "theirs"), "part")
    two.git("ours", "commit", "-q", "-m", "part")
    folder = two.root / "ours"
    own = git_state([folder / "f.c", folder / "part/f.c"], folder)
    part = git_state([folder / "part/f.c", folder / "f.c"], folder)
    assert own is not None
    assert part is not None
    assert (own.commit, own.branch) == (two.git("ours", "rev-parse", "HEAD"), "main")
    assert (part.commit, part.branch) == (two.git("theirs", "rev-parse", "HEAD"), "")
    two.save(9, "ours/part/f.c", begun_in="ours")
    assert (two.found("ours", "last"), two.found("ours", "main")) == (5, 2)


def test_a_project_that_only_a_first_commit_identifies_is_listed_by_its_folder(
    tmp_path: Path,
) -> None:
    world = World(tmp_path)
    for name in ("one", "two"):
        world.repository(name)
        world.save(100, f"{name}/f.c")
    first, second = world.command("", "history").out.splitlines()[1:]
    assert (first.split()[3], second.split()[3]) == ("two", "one")
    assert "Project: one (" in world.command("", "history", "show", "1").out
