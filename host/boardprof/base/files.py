# SPDX-License-Identifier: Apache-2.0
"""Files: the folders of the boards and of the agent's C sources, and files that users ask for.

An installed wheel has these folders inside the package, as ``boardprof/data``. In a checkout, and
in an editable install of one, they stand at the top of the tree.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import time
from contextlib import suppress
from typing import IO, TYPE_CHECKING

from boardprof.base.errors import BoardprofError, BuildError, StorageError, UsageError

try:
    import pwd
except ModuleNotFoundError:  # not a POSIX system: nothing tells whose a file is
    pwd = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path  # imported later: `boardprof --version` needs no files

_OPEN_FILES = ("/dev/stdin", "/dev/fd/", "/proc/self/fd/")
"""Names of files that this process already has open, such as the shell's ``<(command)``."""

_LONGEST = 1 << 31
_LONGEST_TEXT = 1 << 24

_READER_S = 5.0

_NO_WAIT = getattr(os, "O_NONBLOCK", 0)  # for the writer of a pipe
_BINARY = getattr(os, "O_BINARY", 0)

_FOR_EVERYBODY = stat.S_ISVTX | stat.S_IWOTH

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


def open_file(file: str | os.PathLike[str]) -> IO[bytes]:
    """Open a regular file that somebody has named, or a pipe that this process has as its input.

    Raises:
        OSError: also if it is something else, which may never end.
    """
    name = os.fspath(file)
    handle = os.open(name, os.O_RDONLY | _NO_WAIT | _BINARY)
    try:
        mode = os.fstat(handle).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
        if stat.S_ISFIFO(mode) and name.startswith(_OPEN_FILES):
            os.set_blocking(handle, True)
        elif not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "it is not a regular file", name)
    except OSError:
        os.close(handle)
        raise
    return os.fdopen(handle, "rb")


def read_file(file: str | os.PathLike[str], longest: int = _LONGEST) -> bytes:
    """Read a file as `open_file` opens it; OSError also if it has more than ``longest`` bytes."""
    with open_file(file) as opened:
        size = os.fstat(opened.fileno()).st_size  # 0: a pipe, or a file of procfs
        content = None if size > longest else opened.read() if size else _read(opened, longest)
    if content is None:
        raise OSError(errno.EFBIG, f"it has more than {longest:,} bytes", os.fspath(file))
    return content


def _read(opened: IO[bytes], longest: int) -> bytes | None:
    """Return all that comes; None if it is too much."""
    content = bytearray()
    while part := opened.read(1 << 20):
        content += part
        if len(content) > longest:
            return None
    return bytes(content)


def read_short_text(file: str | os.PathLike[str]) -> str:
    """Read a text such as settings in UTF-8; errors are those of `read_file`."""
    return read_file(file, _LONGEST_TEXT).decode()


# -- other users of this machine ----------------------------------------------------------------


def our_users() -> set[int]:
    """Return root, this process's user, and who became root by sudo."""
    if pwd is None:
        return {0}  # what each file's owner is said to be
    user = os.geteuid()
    sudo = os.environ.get("SUDO_UID", "") if user == 0 else ""
    return {0, user, *([int(sudo)] if sudo.isascii() and sudo.isdigit() else [])}


def check_owner(path: Path, hint: str = "name a place in a folder of your own") -> None:
    """Refuse a path through what another user made where everybody may, such as in /tmp.

    It could be a link to a file of ours, or be replaced while it is used. The kernel has such
    rules for links and files that are opened (proc_sys_fs(5)), not for those that are replaced.
    """
    for place in dict.fromkeys((path.absolute(), _real(path))) if pwd is not None else ():
        for part in (place, *place.parents[:-1]):
            try:
                owner, around = part.lstat().st_uid, part.parent.stat()
            except OSError:  # it is not there yet; whoever uses it meets other errors
                continue
            is_shared = around.st_mode & _FOR_EVERYBODY == _FOR_EVERYBODY
            if is_shared and owner not in {*our_users(), around.st_uid}:
                raise UsageError(f"{part} belongs to another user.", hint=hint)


def _real(path: Path) -> Path:
    """Return a path without links, also if they go round in a circle."""
    return type(path)(os.path.realpath(path))


def make_private(folder: Path) -> None:
    """Make a folder, with those around it, that other users cannot enter.

    Raises UsageError as `check_owner`, OSError.
    """
    for each in reversed(folder.parents):
        try:
            each.mkdir(mode=0o700)
        except OSError:
            if not each.exists():
                raise
    folder.mkdir(mode=0o700, exist_ok=True)
    check_owner(folder, "set XDG_CACHE_HOME or XDG_DATA_HOME to a folder of your own")


# -- writing ------------------------------------------------------------------------------------


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
            check_owner(path)
            with _opened_device(path) as device:
                device.write(content)
        else:
            check_owner(path.parent)
            target = _real(path.parent) / path.name
            if target.is_symlink():
                check_owner(target)
                target = _real(target)
            _replace({target: content})
    except OSError as error:
        raise unwritable(file, error) from error


def _opened_device(path: Path) -> IO[bytes]:
    """Open a pipe or a device; OSError if nobody reads a pipe for some seconds."""
    deadline = time.monotonic() + _READER_S
    while True:
        try:
            handle = os.open(path, os.O_WRONLY | _NO_WAIT | _BINARY)
        except OSError as error:
            if error.errno != errno.ENXIO or not path.is_fifo():
                raise
            if time.monotonic() > deadline:
                raise OSError(errno.ENXIO, "nobody reads this pipe", f"{path}") from error
            time.sleep(0.05)
        else:
            os.set_blocking(handle, True)
            return os.fdopen(handle, "wb")


def write_folder(content: Mapping[str, bytes], folder: Path) -> None:
    """Write the files of a folder that has no others: all of them, or none."""
    try:
        is_new = not folder.exists()
        folder.mkdir(exist_ok=True)
        check_owner(folder)
        others = sorted({each.name for each in folder.iterdir()} - set(content))
        if others:
            raise UsageError(
                f"{folder} cannot be written: the folder has other files, such as {others[0]}.",
                hint="name a folder that is empty, or one that is not there yet",
            )
        try:
            _replace({folder.resolve() / name: each for name, each in content.items()})
        except OSError:
            if is_new:
                folder.rmdir()
            raise
    except OSError as error:
        raise unwritable(folder, error) from error


def _replace(content: Mapping[Path, bytes]) -> None:
    """Replace files only when the new ones are all written."""
    import tempfile

    written: dict[Path, str] = {}
    try:
        for path, each in content.items():
            with tempfile.NamedTemporaryFile(
                dir=path.parent, prefix=f".{path.name}.", delete=False
            ) as temporary:
                written[path] = temporary.name
                temporary.write(each)
                temporary.flush()
                os.chmod(temporary.name, 0o666 & ~_umask())
        for path in content:
            os.replace(written[path], path)
            del written[path]
    finally:
        for name in written.values():
            os.unlink(name)


def _umask() -> int:
    """Return the mask; to set it and back would leave files of other threads open to everybody."""
    with open("/proc/self/status", encoding="utf-8", errors="replace") as status:
        found = re.search(r"(?m)^Umask:\s*([0-7]+)$", status.read())
    return int(found[1], 8) if found else 0o077


def is_appended_to(file: object) -> bool:
    """Return whether a file is the summary of a GitHub Actions step, which has several writers."""
    return f"{file}" == os.environ.get("GITHUB_STEP_SUMMARY")


def unwritable(what: object, error: OSError, hint: str | None = None) -> BoardprofError:
    """Return StorageError if the disk is full or similar; otherwise UsageError."""
    message = f"{what} cannot be written: {error.strerror or error}."
    if error.errno in _NO_ROOM:
        return StorageError(message, hint=hint or "free some space, or write to another disk")
    return UsageError(message, hint=hint)


def home_folder() -> Path:
    """Return the user's home folder; an empty ``HOME`` is as an unset one."""
    from pathlib import Path

    if os.environ.get("HOME") or pwd is None:
        return Path.home()
    try:
        return Path(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError as error:
        raise UsageError(
            "This user has no home folder.", hint="set HOME, or XDG_CACHE_HOME and XDG_DATA_HOME"
        ) from error


def check_runnable(program: str | Path, variable: str = "XDG_CACHE_HOME") -> None:
    """Refuse a program or plugin of ours on a file system from which nothing may run.

    ``variable`` of the environment sets its folder.
    """
    with suppress(OSError):
        if os.statvfs(program).f_flag & os.ST_NOEXEC:
            raise UsageError(
                f"{program} cannot run: its file system is mounted noexec.",
                hint=f"set {variable} to a folder on a file system from which programs may run",
            )


def no_room(words: str) -> str | None:
    """Return the line of a program's output that says that the disk is full; None if absent."""
    found = re.search(_TOLD, words)
    return None if found is None else found[0].strip()
