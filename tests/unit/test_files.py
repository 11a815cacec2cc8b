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
from boardprof.base.files import check_is_file, no_room, unwritable
from boardprof.target.toolchain.cache import Cache


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
