# SPDX-License-Identifier: Apache-2.0
"""A call's arguments: packed scalars, and arrays checked for overlap. Nothing is sent yet."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any, Literal, cast

from boardprof.base.errors import UnknownNameError, UsageError
from boardprof.target.arguments.passing import (
    BoardPointer,
    Keep,
    Out,
    Passing,
    Same,
    arena_reference,
)
from boardprof.target.arguments.signature import Signature, in_order, scalar_text
from boardprof.target.arguments.struct_value import Link, unquoted
from boardprof.target.cfunction import CHAR, Pointer, Struct

if TYPE_CHECKING:  # numpy takes a while to import: only calls with arrays need it
    import numpy.typing as npt

    from boardprof.target.arguments.array_argument import ArrayArgument, Target


RETURN = "return"
"""Name of a returned struct among the arrays; no parameter can have it."""

_ADDRESS = re.compile(r"&(?P<name>\w+)(?:\[(?P<index>\d+)\])?")

_GIVEN = (Passing.IN, Passing.IN_OUT, Passing.KEEP)

FunctionIds = Callable[[str], int]
"""From a function's name to its id on the board."""


@dataclass(frozen=True, eq=False)
class Arguments:
    """Arguments of one function, in order."""

    function: str
    parts: tuple[bytes | ArrayArgument, ...]  # the last may be the place of a returned struct
    text: str
    extras: tuple[ArrayArgument, ...] = ()
    is_packed: bool = False  # all parts are within one argument of the call

    @property
    def arrays(self) -> tuple[ArrayArgument, ...]:
        """The arrays that are passed as pointers, and those that they point to."""
        return (*(part for part in self.parts if not isinstance(part, bytes)), *self.extras)

    def put_back(self) -> dict[str, bytes]:
        """Return the content of the arrays that are restored between the calls of a measurement."""
        return {each.name: each.content() for each in self.arrays if each.passing is Passing.IN_OUT}

    def inputs_crc32(self) -> str:
        """Return the CRC-32 of what the function finds in its arrays; "" without such an array.

        It is 8 hexadecimal digits, of names, bytes on the board and places that pointers lead to.
        Arrays that are only written do not count, nor do blocks, whose bytes are not on the host.
        """
        given = [each for each in self.arrays if each.array is not None and each.passing in _GIVEN]
        crc = 0
        for array in given:
            crc = zlib.crc32(array.name.encode() + b"\0", crc)
            crc = zlib.crc32(array.content(), crc)
            for each in array.targets:
                name = "" if each.array is None else each.array.name
                crc = zlib.crc32(f"{each.offset} {name} {each.at}".encode(), crc)
        return f"{crc:08x}" if given else ""


def referred(texts: Iterable[str]) -> set[str]:
    """Return the names of arrays that texts of arguments point to: ``{taps=&h}``."""
    return {match["name"] for text in texts for match in _ADDRESS.finditer(text)}


def bind(
    function: str,
    signature: Signature,
    args: Sequence[object],
    named: Mapping[str, object],
    order: Literal["little", "big"] = "little",
    function_id: FunctionIds | None = None,
) -> Arguments:
    """Give each parameter its value; ``named`` also has arrays that pointers in structs name."""
    binder = _Binder(function, signature, named, order, function_id)
    values = in_order(function, signature, args, binder.of_parameters)
    parts: list[bytes | ArrayArgument] = []
    texts: list[str] = []
    parameters = zip(signature.parameters, signature.packers, values, strict=True)
    binder.bind_first(values)
    for (name, kind), pack, value in parameters:
        pointer = signature.pointers.get(name)
        if pointer is None:
            parts.append(pack(function, value))
            names = signature.numbers[name].names if name in signature.numbers else ()
            texts.append(f"{name}={scalar_text(kind, value, names)}")
        elif pointer.is_function:
            reference, text = binder.function_pointer(name, value)
            parts.append(bytes([_BIN_8, len(reference)]) + reference)
            texts.append(f"{name}={text}")
        else:
            array = binder.arrays.get(name) or binder.of_parameter(name, pointer, value)
            parts.append(array)
            texts.append(f"{name}={array.shape_text}")
    if signature.returns is not None and signature.returns_struct:
        parts.append(binder.returned(signature.returns))
    arrays = [part for part in parts if not isinstance(part, bytes)]
    binder.bind_links([*arrays, *binder.extras.values()])
    extras = tuple(binder.extras.values())
    texts += [f"{array.name}={array.shape_text}" for array in extras]
    bound = Arguments(function, tuple(parts), ", ".join(texts), extras, signature.is_packed)
    for one, other in combinations(bound.arrays, 2):
        check_overlap(function, one, other)
    return bound


_BIN_8 = 0xC4


class _Binder:
    """Makes arrays of the values of pointers, also of those within structs."""

    def __init__(
        self,
        function: str,
        signature: Signature,
        named: Mapping[str, object],
        order: Literal["little", "big"],
        function_id: FunctionIds | None,
    ) -> None:
        self._function = function
        self._signature = signature
        self._order = order
        self._function_id = function_id
        self.arrays: dict[str, ArrayArgument] = {}
        self._same: dict[int, ArrayArgument] = {}
        self.extras: dict[str, ArrayArgument] = {}
        known = {name for name, _ in signature.parameters}
        wanted = referred(_texts_in(named.values()))
        self._others = {
            name: value for name, value in named.items() if name in wanted and name not in known
        }
        self.of_parameters = {n: value for n, value in named.items() if n not in self._others}

    def array(self, name: str, pointer: Pointer, value: object) -> ArrayArgument:
        from boardprof.target.arguments.array_argument import array_argument

        array = array_argument(self._function, name, self._whole(pointer), value, self._order)
        if isinstance(value, dict):
            self._same[id(value)] = array
        return array

    def bind_first(self, values: Sequence[object]) -> None:
        """Make the arrays that ``&NAME`` for other parameters names."""
        wanted = {value.name for value in values if isinstance(value, Same)}
        for (name, _), value in zip(self._signature.parameters, values, strict=True):
            if name in wanted and name in self._signature.pointers and not isinstance(value, Same):
                self.of_parameter(name, self._signature.pointers[name], value)

    def of_parameter(self, name: str, pointer: Pointer, value: object) -> ArrayArgument:
        """Make the array of a parameter, which may be that of another one."""
        same = value
        if isinstance(same, Same):
            found = self._pointed_to(same.name, name, pointer)
            if found.array is None or (found.passing is Passing.OUT and pointer.const):
                is_out = "is only written, with :out" if found.array is not None else "has no array"
                raise UsageError(
                    f"{name}={same.text} of {self._function}: {same.name} {is_out}.",
                    hint=f"give {same.name} an array with values, such as [64]:zeros",
                )
            value = found.array
            ways = {Passing.OUT: Out, Passing.KEEP: Keep}
            if found.passing in ways and not pointer.const:
                value = ways[found.passing](value)
        array = self.arrays[name] = self.array(name, pointer, value)
        if isinstance(same, Same):
            array.shape_text = same.text
        return array

    def _pointed_to(self, name: str, by: str, pointer: Pointer) -> ArrayArgument:
        """Return the array of another parameter, or of an argument of its own."""
        if name in self.arrays:
            return self.arrays[name]
        if name in dict(self._signature.parameters):
            raise UsageError(
                f"{by}=&{name} of {self._function}: {name} is not an array of its own.",
                hint=f"give one of the two an array, such as {name}=[64]:zeros",
            )
        found = self.arrays[name] = self.extras[name] = self._named(name, pointer, by)
        return found

    def _whole(self, pointer: Pointer) -> Pointer:
        """Return a pointer with the members of its struct."""
        element = pointer.element
        if not isinstance(element, Struct) or element.fields:
            return pointer
        whole = self._signature.structs.get((element.name, element.size), element)
        return replace(pointer, element=whole)

    def returned(self, pointer: Pointer) -> ArrayArgument:
        """Return the place of the result, which the function writes."""
        import numpy as np

        from boardprof.target.arguments.array_argument import array_argument
        from boardprof.target.arguments.dtypes import struct_dtype

        assert isinstance(pointer.element, Struct)
        array = np.zeros(1, struct_dtype(pointer.element, self._order))
        place = replace(pointer, const=False, by_value=False)
        return array_argument(self._function, RETURN, place, Out(array), self._order)

    def bind_links(self, arrays: Sequence[ArrayArgument]) -> None:
        """Find what each pointer in the arrays points to, and in the arrays found so."""
        todo = list(arrays)
        while todo:
            array = todo.pop(0)
            for link in array.links:
                target = self._target(array, link)
                array.targets.append(target)
                found = target.array
                if found is None:
                    continue
                if found.passing is Passing.IN and not link.pointer.const:
                    found.passing = Passing.IN_OUT  # const for its parameter, not for this pointer
                if found.name not in self.arrays:
                    self.arrays[found.name] = self.extras[found.name] = found
                    todo.append(found)

    def _target(self, owner: ArrayArgument, link: Link) -> Target:
        from boardprof.target.arguments.array_argument import Target

        value, name = link.value, f"{owner.name}.{link.name}"
        if name in self.arrays:  # of another struct of the same array
            name = f"{name}@{link.offset}"
        if link.pointer.is_function:
            return Target(link.offset, reference=self.function_pointer(name, value)[0], value=value)
        match = _ADDRESS.fullmatch(value) if isinstance(value, str) else None
        if match is not None:
            found = self._named(match["name"], link.pointer, name)
            at = int(match["index"] or 0) * link.pointer.element_size
            if at > found.size:
                raise UsageError(f"{name}={value} is behind the end of {match['name']}.")
        elif isinstance(value, dict) and id(value) in self._same:
            found, at = self._same[id(value)], 0
        else:
            value = unquoted(value) if isinstance(value, str) else value
            found, at = self._extra(name, link.pointer, value), 0
        if found.array is not None:
            return Target(link.offset, found, at, value=value)
        reference = found.reference or b""
        if found.block is not None:
            reference = arena_reference(found.block, at)
        return Target(link.offset, reference=reference, value=value)

    def _extra(self, name: str, pointer: Pointer, value: object) -> ArrayArgument:
        if isinstance(value, str) and pointer.element == CHAR:
            pointer = replace(pointer, const=True)  # nobody wants it back
        return self.array(name, pointer, value)

    def _named(self, name: str, pointer: Pointer, by: str) -> ArrayArgument:
        """Return the array that a text names."""
        if name in self.arrays:
            return self.arrays[name]
        if name not in self._others:
            known = [*self.arrays, *self._others]
            raise UnknownNameError(
                f"array for {by}", name, known, hint=f"also give {name}=..., such as [64]:zeros"
            )
        value = self._others[name]
        whole = self._whole(pointer)
        if hasattr(value, "value"):  # a text of the command line, whose type is now known
            value = value.value(whole)
        return self._extra(name, pointer, value)

    def function_pointer(self, name: str, value: object) -> tuple[bytes, str]:
        """Return a function pointer as on the wire, and as Reports show it."""
        if value is None or value in ("NULL", "nullptr"):
            return b"", "NULL"
        if isinstance(value, BoardPointer) and value.token is not None:
            return value.token.to_bytes(4, "little"), value.text
        wanted = getattr(getattr(value, "info", value), "name", value)
        if not isinstance(wanted, str) or self._function_id is None:
            raise UsageError(
                f"{name} of {self._function} is {value!r:.60}; it is a pointer to a function.",
                hint=f"{name}=FUNCTION, the name of a function on the board",
            )
        return self._function_id(wanted).to_bytes(4, "little"), wanted


def _texts_in(values: Iterable[object]) -> Iterator[str]:
    """Yield the texts in values: of the command line, and in dicts."""
    todo, seen = list(values), set[int]()
    while todo:
        value = todo.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, Mapping | list | tuple):
            if id(value) not in seen:  # structs may point to each other
                seen.add(id(value))
                todo += value.values() if isinstance(value, Mapping) else value
        elif isinstance(text := getattr(value, "where", getattr(value, "text", None)), str):
            yield text


def is_same_memory(one: ArrayArgument, other: ArrayArgument) -> bool:
    """Tell whether two arguments are the same array, so that C gets one pointer twice."""
    a, b = one.array, other.array
    if a is None or b is None:
        return False
    return a is b or (
        a.nbytes > 0
        and a.__array_interface__["data"][0] == b.__array_interface__["data"][0]
        and (a.strides, a.shape, a.dtype) == (b.strides, b.shape, b.dtype)
    )


def check_overlap(function: str, one: ArrayArgument, other: ArrayArgument) -> None:
    """Refuse two arrays that share memory, if one of them is written.

    The same array may be passed twice, unless it is passed in two contradicting ways.
    """
    if one.array is None or other.array is None:
        return
    both = f"{one.name} and {other.name} of {function}"
    if is_same_memory(one, other):
        ways = {each.passing for each in (one, other)} - {Passing.IN}
        if len(ways) > 1 or (ways == {Passing.OUT} and Passing.IN in (one.passing, other.passing)):
            raise UsageError(
                f"{both} are the same array, passed in different ways.",
                hint="wrap both in the same way, or neither",
            )
    elif (one.is_returned or other.is_returned) and _shares(one.array, other.array):
        raise UsageError(
            f"{both} overlap in memory, and one of them is written.",
            hint=f"pass the same array for both, or {other.name} = {other.name}.copy()",
        )


def _shares(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> bool:
    import numpy as np

    if not np.may_share_memory(a, b):
        return False
    try:
        # numpy's annotations know only two values. This one is the maximum number of candidates.
        return bool(np.shares_memory(a, b, max_work=cast("Any", 1_000_000)))
    except np.exceptions.TooHardError:
        return True
