# SPDX-License-Identifier: Apache-2.0
"""What other packages bring, through entry points of the groups ``boardprof.*``."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from importlib import metadata
from typing import Any, NamedTuple, TypeVar

from boardprof.errors import UsageError

__all__ = ["Brought", "brought", "entries", "named_function"]

T = TypeVar("T")


class Brought(NamedTuple):
    """A function of another package, and where it is: ``module:name``."""

    function: Callable[..., Any]
    place: str


def entries(group: str) -> metadata.EntryPoints:
    """Return the entry points of ``boardprof.GROUP``; nothing of the packages is imported."""
    return metadata.entry_points(group=f"boardprof.{group}")


def named_function(group: str, name: str, what: str) -> Brought | None:
    """Return the function that an entry point of this name has; None: no package has one.

    Raises:
        UsageError: it cannot be used; ``what`` it is, for the message.
    """
    found = sorted(entries(group).select(name=name), key=lambda entry: entry.value)
    if not found:
        return None
    entry = found[0]
    try:
        function = entry.load()
        if not callable(function):
            raise TypeError(f"{function!r} is no function")
    except Exception as error:  # whatever another package raises
        raise UsageError(f"{what} of {entry.value} cannot be used: {error!r}.") from error
    return Brought(function, entry.value)


def brought(group: str, what: str, use: Callable[[Any], T]) -> Iterator[tuple[T, str]]:
    """Yield what ``use`` makes of each entry point's object, and where that is.

    One that cannot be used is left out with a warning: it must not hide the others.
    """
    for entry in entries(group):
        try:
            found = use(entry.load())
        except Exception as error:  # whatever another package raises
            reason = error if isinstance(error, UsageError) else repr(error)
            warnings.warn(f"{what} of {entry.value} is left out: {reason}", stacklevel=4)
        else:
            yield found, entry.value
