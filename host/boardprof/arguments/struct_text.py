# SPDX-License-Identifier: Apache-2.0
"""A struct as the command line writes it: ``{gain=2.5, taps=[1, 2, 3], at={x=1, y=2}}``."""

from __future__ import annotations

import re
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from boardprof.arguments.dtypes import struct_dtype
from boardprof.arguments.signature import to_integer
from boardprof.cfunction import Struct
from boardprof.errors import UnknownNameError, UsageError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_TOKEN = r"\s*([{}\[\],=]|[^\s{}\[\],=]+)\s*"
_BRACKETS = {"{": 1, "[": 1, "}": -1, "]": -1}
_DEEPEST = 50

Tree = dict[str, "Tree"] | list["Tree"] | str


def parse_struct_text(where: str, text: str) -> list[dict[str, Tree]]:
    """Return the structs of a text as their members' texts: one, or several in brackets.

    Args:
        where: for messages.
        text: ``{...}`` or ``[{...}, {...}]``.

    Raises:
        UsageError: it has another form, or is nested too deeply.
    """
    tokens = re.findall(_TOKEN, text)
    if max(accumulate(_BRACKETS.get(token, 0) for token in tokens), default=0) > _DEEPEST:
        raise UsageError(f"{where} is nested too deeply: at most {_DEEPEST} levels are allowed.")
    try:
        tree = _value(tokens)
        structs = tree if isinstance(tree, list) else [tree]
        if tokens or not all(isinstance(each, dict) for each in structs):
            raise ValueError
    except (ValueError, IndexError) as error:
        raise UsageError(
            f"{where} is not a struct.", hint="'{NAME=NUMBER, NAME=[NUMBER, NUMBER]}', in quotes"
        ) from error
    return structs  # type: ignore[return-value]  # just seen


def _value(tokens: list[str]) -> Tree:
    token = tokens.pop(0)
    if token == "[":
        return [value for value in _items(tokens, "]", _value)]
    if token == "{":
        members: dict[str, Tree] = {}
        for name, value in _items(tokens, "}", _member):
            if name in members:
                raise ValueError(name)
            members[name] = value
        return members
    if token in "}],=":
        raise ValueError(token)
    return token


def _member(tokens: list[str]) -> tuple[str, Tree]:
    name = tokens.pop(0)
    if not name.isidentifier() or tokens.pop(0) != "=":
        raise ValueError(name)
    return name, _value(tokens)


def _items(tokens: list[str], end: str, item: Any) -> list[Any]:
    items: list[Any] = []
    while tokens[0] != end:
        items.append(item(tokens))
        if tokens[0] == ",":
            tokens.pop(0)
        elif tokens[0] != end:
            raise ValueError(tokens[0])
    tokens.pop(0)
    return items


def struct_array(where: str, structs: list[dict[str, Tree]], struct: Struct) -> npt.NDArray[Any]:
    """Return structs as an array; unnamed members are zeros, as in C.

    Args:
        where: for messages.
        structs: from `parse_struct_text`.
        struct: their type.

    Raises:
        UnknownNameError: it has no such member.
        UsageError: its members are not known, or a value does not fit its member.
    """
    import numpy as np

    dtype = struct_dtype(struct)
    if dtype.names is None:
        raise UsageError(
            f"{where}: the members of {struct.name} are not known, or have no names of their own.",
            hint=f"uint8[{struct.size}]:zeros, or @FILE.bin with {struct.size} bytes each",
        )
    array = np.zeros(len(structs), dtype)
    for index, members in enumerate(structs):
        _set(where, array[index : index + 1], members, struct.name)
    return array


def _set(where: str, array: npt.NDArray[Any], tree: Tree, name: str) -> None:
    """Set an array of one element; its other dimensions are those of the member."""
    dtype, shape = array.dtype, array.shape[1:]
    if shape:
        if not isinstance(tree, list) or len(tree) > shape[0]:
            raise UsageError(
                f"{where}: {name} is an array of {shape[0]} elements.", hint=f"{name}=[NUMBER, ...]"
            )
        for index, each in enumerate(tree):
            _set(where, array[:, index], each, f"{name}[{index}]")
    elif dtype.names is not None:
        if not isinstance(tree, dict):
            raise UsageError(f"{where}: {name} is a struct.", hint=f"{name}={{NAME=NUMBER}}")
        for member, each in tree.items():
            if member not in dtype.names:
                raise UnknownNameError(f"member of {name}", member, dtype.names, hint=where)
            _set(where, array[member], each, member)
    else:
        if not isinstance(tree, str) or dtype.kind == "V":
            raise UsageError(f"{where}: the member {name} does not take this value.")
        array[...] = _number(where, tree, dtype, name)


def _number(where: str, text: str, dtype: np.dtype[Any], name: str) -> Any:
    import numpy as np

    try:
        if dtype.kind == "f":
            return _float(where, text, dtype, name)
        number = to_integer(text)
    except ValueError as error:
        needed = "a number" if dtype.kind == "f" else "an integer"
        raise UsageError(f"{where}: {name}={text} is not {needed}.") from error
    low, high = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    if not low <= number <= high:
        raise UsageError(f"{where}: {name}={text} is out of range: {dtype} is {low} to {high}.")
    return number


def _float(where: str, text: str, dtype: np.dtype[Any], name: str) -> float:
    """Return a number in the member's range; it is infinite only if the text is ``inf``."""
    import numpy as np

    number = float(text)
    with np.errstate(over="ignore"):
        is_infinite = np.isinf(dtype.type(number))
    if is_infinite and any(character.isdigit() for character in text):
        raise UsageError(f"{where}: {name}={text} is out of range of its type {dtype}.")
    return number
