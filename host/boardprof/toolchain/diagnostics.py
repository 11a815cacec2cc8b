# SPDX-License-Identifier: Apache-2.0
"""What a compiler says, in the order in which one reads it."""

from __future__ import annotations

import re

__all__ = ["errors_first"]

# GCC's and Clang's begin alike: FILE:LINE:COLUMN: KIND: TEXT. Notes belong to what they follow.
_BEGIN = re.compile(r"^\S.*?: (fatal error|error|warning): ")
_INCLUDED = re.compile(r"^(In file included from|                 from) ")
_FUNCTION = re.compile(r"^\S.*: (In|At) .*:$")


def errors_first(text: str) -> str:
    """Return a compiler's messages with the errors in front of the warnings.

    Each keeps the lines below it, and those above it that say where it is: the function, and the
    files that include it. Text without an error or a warning stays as it is.
    """
    head: list[str] = []
    errors: list[str] = []
    warnings: list[str] = []
    block, above, function = head, [], ""
    told = {id(errors): "", id(warnings): ""}  # the function that was named last
    for line in text.splitlines():
        begin = _BEGIN.match(line)
        if _INCLUDED.match(line):
            above.append(line)
        elif _FUNCTION.match(line):
            function = line
        elif begin is not None:
            block = warnings if begin[1] == "warning" else errors
            if function != told[id(block)]:
                above.append(function)
                told[id(block)] = function
            block += [*above, line]
            above = []
        else:
            block += [*above, line]
            above = []
    return "\n".join([*head, *errors, *warnings, *above]) if errors or warnings else text
