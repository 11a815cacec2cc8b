# SPDX-License-Identifier: Apache-2.0
"""Files: the folders of the boards and of the agent's C sources, and files that users ask for.

An installed wheel has these folders inside the package, as ``boardprof/data``. In a checkout, and
in an editable install of one, they stand at the top of the tree.
"""

from __future__ import annotations

import errno
import os
import re
from typing import TYPE_CHECKING

from boardprof.base.errors import BoardprofError, BuildError, StorageError, UsageError

if TYPE_CHECKING:
    from pathlib import Path  # imported later: `boardprof --version` needs no files

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
_TOLD = rf"(?m)^.*: '?({'|'.join(map(os.strerror, _NO_ROOM))})'?$"


def boards_dir() -> Path:
    """Return the folder with one folder per board."""
    return _resource("boards")


def runtime_dir() -> Path:
    """Return the folder with the agent's C sources, ``device_runtime_c``."""
    return _resource("device_runtime_c")


def _resource(name: str) -> Path:
    from pathlib import Path

    package = Path(__file__).resolve().parents[1]
    places = [package / "data" / name, package.parents[1] / name]
    for place in places:
        if place.is_dir():
            return place
    raise BuildError(
        f"This installation of boardprof has no folder {name}: "
        f"{' and '.join(map(str, places))} do not exist.",
        hint="install boardprof again from its wheel",
    )


def check_is_file(name: str) -> None:
    """Check that a name is not the name of a folder. The file need not exist."""
    if name.endswith(os.sep) or os.path.isdir(name):
        raise UsageError(
            f"{name} cannot be written: it is a folder.",
            hint=f"name a file in it, such as {os.path.join(name, 'report')}",
        )


def write_bytes(content: bytes, file: str) -> None:
    """Write a file; a regular file completely or not at all."""
    from pathlib import Path

    path = Path(file)
    try:
        if is_appended_to(file):
            with path.open("ab") as summary:
                summary.write(content)
        elif path.exists() and not path.is_file():  # a pipe or a device: it must not be replaced
            path.write_bytes(content)
        else:
            _replace(path.resolve(), content)
    except OSError as error:
        raise unwritable(file, error) from error


def _replace(path: Path, content: bytes) -> None:
    import tempfile

    with tempfile.NamedTemporaryFile(
        dir=path.parent, prefix=f".{path.name}.", delete=False
    ) as temporary:
        try:
            temporary.write(content)
            temporary.flush()
            os.chmod(temporary.name, 0o666 & ~_umask())
            os.replace(temporary.name, path)
        except OSError:
            os.unlink(temporary.name)
            raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def is_appended_to(file: object) -> bool:
    """Return whether a file is the summary of a GitHub Actions step, which has several writers."""
    return f"{file}" == os.environ.get("GITHUB_STEP_SUMMARY")


def unwritable(what: object, error: OSError, hint: str | None = None) -> BoardprofError:
    """Return StorageError if the disk is full or similar; otherwise UsageError."""
    message = f"{what} cannot be written: {error.strerror or error}."
    if error.errno in _NO_ROOM:
        return StorageError(message, hint=hint or "free some space, or write to another disk")
    return UsageError(message, hint=hint)


def no_room(words: str) -> str | None:
    """Return the line of a program's output that says that the disk is full; None if absent."""
    found = re.search(_TOLD, words)
    return None if found is None else found[0].strip()
