# SPDX-License-Identifier: Apache-2.0
"""Settings of compiler flags, one after the other: what ``--sweep "-O2|-O3|-Os"`` stands for."""

from __future__ import annotations

import shlex

from boardprof.errors import UsageError

__all__ = ["effective_flags", "settings_of"]

# What stands behind these is theirs, and no level, though it may look like one.
_OPERAND = {"-Xlinker", "-Xassembler", "-Xpreprocessor", "-Xclang", "-x", "-D", "-U", "-include"}
_OPERAND |= {"-I", "-isystem", "-iquote", "-idirafter", "-imacros", "--param", "-u", "-z", "-T"}

_HINT = '--sweep "-O2|-O3|-O3 -funroll-loops"; an empty one adds nothing'


def settings_of(sweep: str, base: str) -> tuple[str, ...]:
    """Return the flags of each setting, as `effective_flags` writes them, in the given order.

    Args:
        sweep: settings with bars between; each is flags behind ``base``. An empty one is ``base``
            alone.
        base: flags of every setting, such as ``-O2``.

    Raises:
        UsageError: there is no setting, one is no flags, or two come to the same.
    """
    if not sweep.strip():
        raise UsageError("The sweep names no setting.", hint=_HINT)
    settings: dict[str, None] = {}
    for text in sweep.split("|"):
        if text.strip() and not text.strip().startswith("-"):
            raise UsageError(f"{text.strip()!r} in the sweep is not a compiler flag.", hint=_HINT)
        flags = effective_flags(f"{base} {text}")
        if flags in settings:
            raise UsageError(
                f"The sweep has {flags or 'no flags'} twice.",
                hint=f"each setting stands behind {base!r}; leave one of the two out",
            )
        settings[flags] = None
    return tuple(settings)


def effective_flags(flags: str) -> str:
    """Return ``flags`` with one blank between them, and of several ``-O`` only the last.

    A compiler goes by the last one; it comes to stand where the first one stood.

    Raises:
        UsageError: a quote is not closed.
    """
    try:
        words = shlex.split(flags)
    except ValueError as error:
        raise UsageError(f"{flags!r} cannot be split into flags: {error}.") from error
    levels = [at for at in range(len(words)) if _is_level(words, at)]
    if levels:
        words[levels[0]] = words[levels[-1]]
        words = [word for at, word in enumerate(words) if at not in levels[1:]]
    return shlex.join(words)


def _is_level(words: list[str], at: int) -> bool:
    """Return whether a word is one of ``-O``; options and their operands go in pairs."""
    begin = at
    while begin and words[begin - 1] in _OPERAND:
        begin -= 1
    return words[at].startswith("-O") and (at - begin) % 2 == 0
