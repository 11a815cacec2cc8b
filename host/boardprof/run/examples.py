# SPDX-License-Identifier: Apache-2.0
"""What a parameter's argument may look like on the command line."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from boardprof.arguments.signature import Signature, in_order, parse_signature
from boardprof.cfunction import CHAR, Struct
from boardprof.errors import UsageError

__all__ = ["check_arguments"]

_LENGTH = 64
"""Of the arrays, and the number in their examples, so that the examples fit each other."""


def check_arguments(function: str, signature: str, given: AbstractSet[str]) -> None:
    """See that each parameter has an argument; the error shows what those lacking may look like.

    Raises:
        UsageError: one has none.
        UnknownNameError: there is no such parameter.
    """
    parsed = parse_signature(signature)
    missing = [name for name, _ in parsed.parameters if name not in given]
    if missing and given <= {name for name, _ in parsed.parameters}:
        examples = " ".join(f"{name}={_example(parsed, name)}" for name in missing)
        raise UsageError(
            f"{function} was called without {', '.join(missing)}.",
            hint=f"{function}{signature}; e.g. {examples}",
        )
    in_order(function, parsed, (), dict.fromkeys(given))


def _example(signature: Signature, name: str) -> str:
    pointer = signature.pointers.get(name)
    if pointer is None:
        kind = dict(signature.parameters)[name]
        return {"bool": "true", "f32": "1.5", "f64": "1.5"}.get(kind, f"{_LENGTH}")
    if isinstance(pointer.element, Struct):
        return "zeros"
    if pointer.element is CHAR:
        return f"'[{_LENGTH}]:zeros'"
    return f"'{'uint8' if pointer.element is None else ''}[{_LENGTH}]:random(7)'"
