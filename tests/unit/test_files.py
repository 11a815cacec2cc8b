# SPDX-License-Identifier: Apache-2.0
"""Files that cannot be written: whose fault it is, and what is no file at all."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from boardprof.base.errors import StorageError, UsageError
from boardprof.base.files import check_is_file, no_room, read_file, unwritable, write_bytes
from boardprof.base.processes import leased
from boardprof.results.history.store import History
from boardprof.show.exporters import write_exported
from boardprof.target.toolchain.cache import Cache
from tests.support import awake


@pytest.mark.parametrize(
    "number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO], ids=errno.errorcode.get
)
def test_a_disk_without_room_is_no_mistake_of_the_user(number: int) -> None:
    error = unwritable("a.json", OSError(number, "no room"))
    assert type(error) is StorageError
    assert str(error) == (
        "a.json cannot be written: no room.\nTry: free some space, or write to another disk"
    )


@pytest.mark.parametrize(
    "number", [errno.EACCES, errno.EISDIR, errno.ENOENT, errno.EROFS], ids=errno.errorcode.get
)
def test_a_file_that_may_not_be_written_is_one(number: int) -> None:
    error = unwritable("a.json", OSError(number, "not this one"))
    assert type(error) is UsageError
    assert str(error) == "a.json cannot be written: not this one."


@pytest.mark.parametrize(
    "line",
    [
        "f.c:3:1: fatal error: closing dependency file /c/depfile: No space left on device",
        "/tmp/a.s: Fatal error: can't write 4 bytes to section .text of f.o: 'Disk quota exceeded'",
        "ld: final link failed: No space left on device",
        "objcopy: f.o: Input/output error",
        "cc1: error: writing f.s: File too large",
    ],
)
def test_a_tool_whose_file_has_no_room_says_so_in_the_c_librarys_words(line: str) -> None:
    assert no_room(f"In function f:\n{line}\ncompilation terminated.\n") == line


def test_code_that_speaks_of_full_disks_does_not_fail_for_that() -> None:
    assert no_room("f.c:1:2: error: #error No space left on device\n    1 | #error No") is None
    assert no_room('f.c:2: error: expected ";"\n  2 | puts(": No space left on device")\n') is None


def test_a_name_that_ends_in_a_slash_is_a_folders(tmp_path: Path) -> None:
    check_is_file(str(tmp_path / "new"))
    for name in (f"{tmp_path}/new/", f"{tmp_path}"):
        with pytest.raises(UsageError, match="cannot be written: it is a folder"):
            check_is_file(name)


@contextmanager
def longest_file(size: int) -> Iterator[None]:
    """Let no file of this process grow beyond so many bytes."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_a_cache_without_room_is_named_and_keeps_no_half_file(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    with longest_file(10), pytest.raises(StorageError, match=r"The cache .* cannot be written"):
        cache.write("more than ten bytes", "place", "file")
    assert cache.read("place", "file") is None
    assert os.listdir(tmp_path / "tmp") == []


def test_a_file_or_folder_that_finds_no_room_is_left_as_it_was(tmp_path: Path) -> None:
    page, old, new = tmp_path / "page.html", tmp_path / "old", tmp_path / "new"
    page.write_bytes(b"old")
    write_exported({"metadata": b"1", "stream": b"2"}, old)
    with longest_file(10):
        for content, place in (
            (b"more than ten bytes", page),
            ({"metadata": b"3", "stream": b"more than ten bytes"}, old),
            ({"metadata": b"4", "stream": b"more than ten bytes"}, new),
        ):
            with pytest.raises(StorageError, match=f"{place} cannot be written: File too large"):
                write_exported(content, place)
    assert page.read_bytes() == b"old"
    assert {each.name: each.read_bytes() for each in old.iterdir()} == {
        "metadata": b"1",
        "stream": b"2",
    }
    assert sorted(os.listdir(tmp_path)) == ["old", "page.html"]


def test_a_regular_file_is_read_up_to_its_limit(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12345678")
    assert read_file(tmp_path / "file", 8) == b"12345678"
    with pytest.raises(OSError, match="it has more than 7 bytes"):
        read_file(tmp_path / "file", 7)
    os.truncate(tmp_path / "file", 1 << 40)  # takes no room
    with pytest.raises(OSError, match="it has more than 2,147,483,648 bytes"):
        read_file(tmp_path / "file")


def test_what_may_never_end_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/dev/zero")
    for name in (tmp_path / "pipe", tmp_path / "link", "/dev/zero", "/dev/null"):
        with pytest.raises(OSError, match="it is not a regular file"):
            read_file(name)
    with pytest.raises(IsADirectoryError):
        read_file(tmp_path)


def test_a_pipe_that_this_process_has_open_is_read_up_to_the_limit() -> None:
    for size, is_read in ((8, True), (7, False)):
        reading, writing = os.pipe()
        with open(writing, "wb") as end:
            end.write(b"12345678")
        try:
            if is_read:
                assert read_file(f"/dev/fd/{reading}", size) == b"12345678"
            else:
                with pytest.raises(OSError, match="it has more than 7 bytes"):
                    read_file(f"/dev/fd/{reading}", size)
        finally:
            os.close(reading)


# -- other users --------------------------------------------------------------------------------


def modes(*paths: Path) -> list[str]:
    return [f"{path.stat().st_mode & 0o7777:o}" for path in paths]


def test_other_users_cannot_enter_the_folders_that_boardprof_makes_for_itself(
    tmp_path: Path,
) -> None:
    cache, leases, data = (tmp_path / name for name in ("c", "l", "d"))
    (tmp_path / "l").mkdir(mode=0o755)
    Cache(cache / "boardprof").write("text", "names", "x")
    with leased(leases / "boardprof" / "leases", "native", 1.0):
        pass
    History(data / "boardprof" / "history.sqlite").upgrade()
    made = modes(cache, cache / "boardprof", leases / "boardprof", data, data / "boardprof")
    assert made == ["700"] * 5
    assert modes(leases) == ["755"], "somebody else has made it"


@pytest.mark.parametrize(("mask", "mode"), [(0o022, "644"), (0o027, "640"), (0o077, "600")])
def test_a_file_has_the_mode_of_the_umask_which_is_not_changed_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mask: int, mode: str
) -> None:
    """Another thread's file would be open to everybody while the mask is 0."""
    before = os.umask(mask)
    try:
        monkeypatch.setattr(os, "umask", lambda mask: pytest.fail(f"the mask became {mask:o}"))
        write_bytes(b"new", str(tmp_path / "report.json"))
    finally:
        monkeypatch.undo()
        os.umask(before)
    assert modes(tmp_path / "report.json") == [mode]


def test_links_in_a_circle_are_replaced_by_the_file(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    write_bytes(b"new", str(tmp_path / "a"))
    assert (tmp_path / "a").read_bytes() == b"new"


def test_a_pipe_that_nobody_reads_is_given_up_in_time(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with awake() as clock:
        with pytest.raises(UsageError, match="cannot be written: nobody reads this pipe"):
            write_bytes(b"abc", str(pipe))
        assert clock() < 20.0
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_bytes(b"abc", str(pipe))
        assert os.read(reader, 9) == b"abc"
    finally:
        os.close(reader)
