# SPDX-License-Identifier: Apache-2.0
"""Names of C++ functions as their sources have them, by binutils' c++filt."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable

_TIMEOUT_S = 10.0
MANGLED = "_Z"
"""What names begin with (Itanium C++ ABI, 5.1.2)."""


def demangled(names: Iterable[str]) -> dict[str, str]:
    """Return each name as the source has it, without parameters; unchanged if nothing can tell.

    A clone of the compiler's keeps its end: ``fir<int>.isra.0``.
    """
    found = {name: name for name in names}
    mangled = [name for name in found if name.startswith(MANGLED)]
    if not mangled:
        return found
    bases = [name.partition(".")[0] for name in mangled]
    try:
        done = subprocess.run(
            ["c++filt", "-p"],
            input="".join(f"{base}\n" for base in bases),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return found  # a long name is better than none
    plain = done.stdout.splitlines()
    if len(plain) == len(mangled):
        ends = (name[len(base) :] for name, base in zip(mangled, bases, strict=True))
        found |= {name: p + e for name, p, e in zip(mangled, plain, ends, strict=True)}
    return found
