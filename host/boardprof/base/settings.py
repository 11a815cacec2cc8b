# SPDX-License-Identifier: Apache-2.0
"""Settings from files: a project's, and the user's own.

The project's file is the nearest one, from the working folder up: a ``boardprof.toml``, or a
``pyproject.toml`` that has ``[tool.boardprof]``. The user's is ``boardprof/config.toml`` in
``~/.config``. Keys are the long names of options; ``[profile.NAME]`` has those of a profile::

    board = "qemu-rv32"
    repeat = 20

    [profile.desk]
    board = "netduinoplus2"
    port = "/dev/ttyACM0"

The project's file may also have ``[[benchmark]]``, see `jobs.run.benchmarks`.
The user's file may also have ``trusted``: folders whose project file is read whoever owns it.
"""

from __future__ import annotations

import os
import stat
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from boardprof.base.errors import UnknownNameError, UsageError
from boardprof.base.files import check_owner, home_folder, our_users, read_file, read_short_text

PROJECT_FILE = "boardprof.toml"
_PYPROJECT = "pyproject.toml"
_PROFILE = "profile"
BENCHMARK, BENCHMARKS = "benchmark", "benchmarks"
"""An array of tables in the project's file, and a table with what they have in common."""

_TRUSTED = "trusted"
_PROJECT_VARIABLE = "BOARDPROF_PROJECT"

_project_name = ""


@dataclass(frozen=True)
class SettingsFile:
    """A file that was read."""

    file: Path
    path: tuple[str, ...]  # tables with the settings: ``("tool", "boardprof")`` or ``()``
    content: dict[str, Any]

    @property
    def profiles(self) -> dict[str, Any]:
        """The profiles by name."""
        return self._table(_PROFILE, self.content.get(_PROFILE, {}))

    @property
    def trusted(self) -> list[str]:
        """Folders whose settings are read whoever owns them; only the user's own file counts."""
        found = self.content.get(_TRUSTED, []) if self.file == user_file() else []
        if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
            raise UsageError(
                f"{self.file}: {_TRUSTED} is not a list of folders.", hint='trusted = ["/srv/lab"]'
            )
        return found

    def values(self, profile: str | None) -> Iterator[Setting]:
        """Yield the settings outside of profiles, or those of one profile."""
        where = self.path if profile is None else (*self.path, _PROFILE, profile)
        profiles = self.profiles
        table = self.content if profile is None else profiles.get(profile, {})
        own = {_TRUSTED} if self.file == user_file() else {BENCHMARK, BENCHMARKS}
        others = {_PROFILE, *own}
        for key, value in self._table(".".join(where), table).items():
            if profile is not None or key not in others:
                yield Setting(key, value, self.file, where)

    def _table(self, name: str, value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise UsageError(f"{self.file}: {name} is not a table.", hint="[profile.NAME]")
        return value


@dataclass(frozen=True)
class Setting:
    """One key of a file."""

    key: str  # a long name of an option, without its dashes
    value: Any
    file: Path
    path: tuple[str, ...]  # the tables that contain it

    @property
    def place(self) -> str:
        """File and line."""
        from boardprof.base.toml_table import line_of  # later: only errors name a line

        line = line_of(self.file.read_text(encoding="utf-8"), *self.path, self.key)
        return f"{self.file}:{line}" if line else f"{self.file}"


def user_file() -> Path:
    """Return the path of the user's own settings, which need not exist."""
    base = os.environ.get("XDG_CONFIG_HOME") or home_folder() / ".config"
    return Path(base) / "boardprof" / "config.toml"


def find_settings(folder: Path, tell: Callable[[str], None] = warnings.warn) -> list[SettingsFile]:
    """Return the project's file and then the user's; ``tell`` of those that are ignored."""
    check_owner(user_file(), "set XDG_CONFIG_HOME to a folder of your own")
    own = read_settings(user_file()) if _is_there(user_file()) else None
    project = _project_file(folder, [] if own is None else own.trusted, tell)
    return [each for each in (project, own) if each is not None]


def read_settings(file: Path) -> SettingsFile:
    """Read a file of settings; of a ``pyproject.toml``, the table ``[tool.boardprof]``."""
    from boardprof.base.toml_table import parsed  # later: most runs have no settings

    try:
        content = parsed(read_short_text(file), file)
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{file} is not valid TOML: {error}.") from error
    if file.name != _PYPROJECT:
        return SettingsFile(file, (), content)
    tool = content.get("tool")
    ours = tool.get("boardprof") if isinstance(tool, dict) else None
    if not isinstance(ours, dict):
        raise UsageError(f"{file} has no table [tool.boardprof].")
    return SettingsFile(file, ("tool", "boardprof"), ours)


def all_settings(files: list[SettingsFile]) -> list[Setting]:
    """Return all settings in the files, including those of profiles that are not used."""
    return [
        setting
        for each in files
        for part in (None, *each.profiles)
        for setting in each.values(part)
    ]


def settings_of(files: list[SettingsFile], profile: str | None) -> dict[str, Setting]:
    """Return the effective settings by key: a profile overrides, and earlier files override."""
    if profile is not None and not any(profile in each.profiles for each in files):
        raise UnknownNameError("profile", profile, sorted({p for f in files for p in f.profiles}))
    holding: dict[str, Setting] = {}
    for each in reversed(files):
        for part in (None, profile) if profile is not None else (None,):
            holding |= {setting.key: setting for setting in each.values(part)}
    return holding


def set_project_name(name: str) -> None:
    """Set the value of the setting ``project``; "" if absent."""
    global _project_name
    _project_name = name


def project_name() -> str:
    """Return the project's name from the environment, or else the settings; "" if not set."""
    chosen = os.environ.get(_PROJECT_VARIABLE)
    return (_project_name if chosen is None else chosen).strip()


def _project_file(
    folder: Path, trusted: Sequence[str], tell: Callable[[str], None]
) -> SettingsFile | None:
    for each in (folder, *folder.parents):
        for file in (each / PROJECT_FILE, each / _PYPROJECT):
            if not _is_there(file):
                continue
            owner = _foreign_owner(file, trusted)
            if owner is None:
                return read_settings(file)
            tell(
                f"{file} is ignored: it belongs to {owner}, and settings can run commands.\n"
                f'Try: {_TRUSTED} = ["{each}"] in {user_file()}, if you trust it'
            )
    return None


def _is_there(file: Path) -> bool:
    """Tell whether the file exists and has settings of boardprof."""
    try:
        if not stat.S_ISREG(file.stat().st_mode):
            return False
        return file.name != _PYPROJECT or b"tool.boardprof" in read_file(file)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}.") from error


_ANYWHERE = "*"


def _foreign_owner(file: Path, trusted: Sequence[str]) -> str | None:
    """Return the owner of a file that must not be read. None if it may be read.

    It may be read if it belongs to the user or to root, or is in a git repository that does, or in
    a trusted folder (``*`` is all of them).
    """
    if _is_ours(file) or _is_trusted(file, trusted):
        return None
    project = next((each for each in file.parents if os.path.lexists(each / ".git")), None)
    if project is not None and _is_ours(project) and _is_ours(project / ".git"):
        return None
    return _name(next(uid for uid in _owners(file) if uid not in our_users()))


def _is_ours(path: Path) -> bool:
    return all(uid in our_users() for uid in _owners(path))


def _owners(path: Path) -> list[int]:
    """Return the owner of a file and, if it is a link, the owner of the link."""
    return [path.lstat().st_uid, path.stat().st_uid]


def _is_trusted(file: Path, trusted: Sequence[str]) -> bool:
    folders = (Path(each).expanduser() for each in trusted if each != _ANYWHERE)
    return _ANYWHERE in trusted or any(file.is_relative_to(folder) for folder in folders)


def _name(uid: int) -> str:
    import pwd  # here, since only POSIX has users with numbers

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"
