# SPDX-License-Identifier: Apache-2.0
"""What the machine around a run may be like: noexec file systems, HOME, git that refuses."""

from __future__ import annotations

import os
import pwd
import subprocess
from pathlib import Path

import pytest

from boardprof.base.errors import BoardError, UsageError
from boardprof.base.files import check_runnable
from boardprof.results.history.report_lookup import default_file
from boardprof.target.toolchain.cache import cache_root
from boardprof.wire.transport.sockets import connect_library
from tests.cli.command import boardprof

FEW = ("-b", "native", "--repeat", "1", "--warmup", "0")


def test_a_program_on_a_file_system_without_programs_is_refused_with_the_cause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    check_runnable("/bin/sh")
    real = os.statvfs("/bin/sh")
    flags = os.ST_NOEXEC | os.ST_RDONLY  # only root can mount a file system
    monkeypatch.setattr(os, "statvfs", lambda path: os.statvfs_result([*real[:8], flags, real[9]]))
    with pytest.raises(UsageError) as raised:
        check_runnable("/bin/sh")
    assert str(raised.value) == (
        "/bin/sh cannot run: its file system is mounted noexec.\n"
        "Try: set XDG_CACHE_HOME to a folder on a file system from which programs may run"
    )


def test_a_folder_for_temporary_files_without_programs_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = tmp_path / "native.so"
    library.write_bytes(b"as good as one that the kernel does not map")
    with pytest.raises(BoardError, match="cannot be loaded as a board"):
        connect_library(library)
    real = os.statvfs(tmp_path)
    monkeypatch.setattr(
        os, "statvfs", lambda path: os.statvfs_result([*real[:8], os.ST_NOEXEC, real[9]])
    )
    with pytest.raises(UsageError, match=r"mounted noexec\.\nTry: set TMPDIR to a folder"):
        connect_library(library)


def test_an_empty_home_is_as_an_unset_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, "")
    home = Path(pwd.getpwuid(os.getuid()).pw_dir)
    assert cache_root() == home / ".cache" / "boardprof"
    assert default_file() == home / ".local" / "share" / "boardprof" / "history.sqlite"


def test_what_git_refuses_is_passed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BOARDPROF_HISTORY", str(tmp_path / "history.sqlite"))
    Path("f.c").write_text("int f(int x) { return x; }\n")
    for words in (
        ["init", "-q"],
        ["add", "f.c"],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "one"],
    ):
        subprocess.run(["git", *words], check=True, timeout=30)
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")  # git's own tests use it
    says = f"git says: detected dubious ownership in repository at '{tmp_path}'"
    remedy = f"git config --global --add safe.directory {tmp_path}"
    done = boardprof("run", *FEW, "f.c:f", "x=1")
    assert done.code == 0
    assert f"note: the run is kept without a commit: {says}. Try: {remedy}\n" in done.err
    done = boardprof("run", *FEW, "f.c:f", "x=1", "--ab-rev", "HEAD")
    assert done.code == 2
    assert done.err.endswith(
        f"error: The commits of {tmp_path} cannot be read: {says}.\nTry: {remedy}\n"
    )
    assert f"\nTry: {remedy} ({says})\n" in boardprof("compare", "HEAD", "last").err
