# SPDX-License-Identifier: Apache-2.0
"""Which of the metrics that are wanted of several boards one of them has."""

from __future__ import annotations

from collections.abc import Iterable

from boardprof.board.planning import Offer
from boardprof.errors import UnknownNameError, UsageError

__all__ = ["lack_text", "split_by_offer"]


def split_by_offer(
    offer: Offer, names: Iterable[str]
) -> tuple[tuple[str, ...], dict[str, UsageError]]:
    """Return those that a board has, and by name the errors of those that it lacks."""
    found: list[str] = []
    lacking: dict[str, UsageError] = {}
    for name in names:
        try:
            offer.passes([name])
        except UsageError as error:
            lacking[name] = error
        else:
            found.append(name)
    return tuple(found), lacking


def lack_text(name: str, error: UsageError) -> str:
    """Return why a board lacks a metric, behind the names of both."""
    if isinstance(error, UnknownNameError):
        return "it has no metric of that name"
    return error.message.partition(f"{name}: ")[2].removesuffix(".") or error.message
