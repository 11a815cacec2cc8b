# SPDX-License-Identifier: Apache-2.0
"""Extensions from other packages, through entry points of the groups ``boardprof.*``."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from boardprof.base.errors import UsageError
from boardprof.base.printable import escaped

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


T = TypeVar("T")

_GROUP = re.compile(rb"^\s*\[+boardprof\.", re.MULTILINE)  # in entry_points.txt


class Plugin(NamedTuple):
    """A function of another package, and where it is: ``module:name``."""

    function: Callable[..., Any]
    place: str


def entries(group: str) -> list[EntryPoint]:
    """Return the entry points of ``boardprof.GROUP``; nothing of the packages is imported."""
    if not _may_have_entries():
        return []
    # Imported here, because its parsers of mail and CSV take a tenth of a run to import.
    from importlib import metadata

    return [*metadata.entry_points(group=f"boardprof.{group}")]


def _may_have_entries() -> bool:
    """Return whether an installed package can have an entry point of ours."""
    others = (finder for finder in sys.meta_path if finder is not PathFinder)
    return any(hasattr(finder, "find_distributions") for finder in others) or any(
        os.path.isfile(place) or any(map(_GROUP.search, _entry_points(place)))  # a file is a ZIP
        for place in sys.path
    )


def _entry_points(place: str) -> Iterator[bytes]:
    """Yield each ``entry_points.txt`` of the packages that are installed in a folder."""
    with contextlib.suppress(OSError):
        for name in os.listdir(place or os.curdir):
            if name.lower().endswith("-info"):  # .dist-info, .egg-info, EGG-INFO
                with contextlib.suppress(OSError):
                    yield Path(place, name, "entry_points.txt").read_bytes()


def named_function(group: str, name: str, what: str) -> Plugin | None:
    """Return the function of the entry point with this name. None if no package has one."""
    found = sorted((e for e in entries(group) if e.name == name), key=lambda entry: entry.value)
    if not found:
        return None
    entry = found[0]
    try:
        function = entry.load()
        if not callable(function):
            raise TypeError(f"{function!r} is not a function")
    except Exception as error:  # whatever another package raises
        raise UsageError(f"{what} of {entry.value} cannot be used: {error!r}.") from error
    return Plugin(function, entry.value)


def load_plugins(group: str, what: str, use: Callable[[Any], T]) -> Iterator[tuple[T, str]]:
    """Yield ``use(object)`` and place of each entry point; warn of one that cannot be used."""
    for entry in entries(group):
        try:
            found = use(entry.load())
        except Exception as error:  # whatever another package raises
            reason = error if isinstance(error, UsageError) else repr(error)
            warnings.warn(escaped(f"{what} of {entry.value} is ignored: {reason}"), stacklevel=4)
        else:
            yield found, entry.value
