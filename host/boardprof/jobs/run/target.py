# SPDX-License-Identifier: Apache-2.0
"""What to measure, as a user writes it: ``fir.c:fir``, ``dsp.cpp:k::dot``, or ``fir``.

It stands alone, because the completion of a shell needs it at once.
"""

from __future__ import annotations

import re

_LAST_COLON = re.compile(r"(?<!:):(?!:)(?=(?:[^:]|::)*$)")
"""The last colon that is not one of the two in a C++ name."""


def split_target(text: str) -> tuple[str, str]:
    """Return the path, "" if absent, and the function."""
    match = _LAST_COLON.search(text)
    return ("", text) if match is None else (text[: match.start()], text[match.end() :])
