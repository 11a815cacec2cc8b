# SPDX-License-Identifier: Apache-2.0
"""Files that the user names to be written: what is none, and what it means that one cannot be."""

from __future__ import annotations

import errno
import os
import re

from boardprof.errors import BoardprofError, StorageError, UsageError

__all__ = ["check_is_file", "no_room", "unwritable"]

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
_TOLD = re.compile(rf"^.*: '?({'|'.join(map(os.strerror, _NO_ROOM))})'?$", re.MULTILINE)


def check_is_file(name: str) -> None:
    """See that a name is not that of a folder, be it there or not.

    Raises:
        UsageError: it is.
    """
    if name.endswith(os.sep) or os.path.isdir(name):
        raise UsageError(
            f"{name} cannot be written: it is a folder.",
            hint=f"name a file in it, such as {os.path.join(name, 'report')}",
        )


def unwritable(what: object, error: OSError, hint: str | None = None) -> BoardprofError:
    """Return what it means that ``what``, a file or what holds several, cannot be written.

    Returns:
        StorageError where another disk would have taken it; else UsageError.
    """
    message = f"{what} cannot be written: {error.strerror or error}."
    if error.errno in _NO_ROOM:
        return StorageError(message, hint=hint or "make room, or write to another disk")
    return UsageError(message, hint=hint)


def no_room(words: str) -> str | None:
    """Return the line in which a program says, as the C library does, that a file has no room.

    None if it does not: what failed it is something else.
    """
    found = _TOLD.search(words)
    return None if found is None else found[0].strip()
