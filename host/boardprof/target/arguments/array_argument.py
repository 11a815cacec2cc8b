# SPDX-License-Identifier: Apache-2.0
"""An argument for a pointer: the bytes sent to the board, and the bytes that come back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from boardprof.base.errors import UsageError
from boardprof.target.arguments.dtypes import element_dtype, mismatch, struct_dtype, type_and_shape
from boardprof.target.arguments.passing import (
    Block,
    BoardPointer,
    Keep,
    Out,
    Passing,
    arena_reference,
    place_text,
)
from boardprof.target.arguments.signature import scalar_packer
from boardprof.target.arguments.struct_value import (
    Link,
    StructText,
    lengthened,
    members_of,
    members_text,
    pointer_paths,
    structs_bytes,
    text_bytes,
)
from boardprof.target.cfunction import CHAR, Pointer, Scalar, Struct

Array = npt.NDArray[Any]
ByteOrder = Literal["little", "big"]

_BUFFERS = (bytes, bytearray, memoryview)
_MOST_SHOWN = 40  # characters of a text in Reports


@dataclass(frozen=True, eq=False)
class Target:
    """What a pointer in an array of structs points to."""

    offset: int  # of the pointer, bytes from the beginning of its array
    array: ArrayArgument | None = None  # that it points into; None if not an array of the call
    at: int = 0  # bytes from the beginning of ``array``
    reference: bytes = b""  # what it points to instead, as on the wire
    value: object = None


@dataclass(eq=False)
class ArrayArgument:
    """The argument for a pointer.

    An array that is only sent is put back, too, if the function may write it through a pointer in a
    struct.
    """

    name: str
    passing: Passing
    shape_text: str  # as Reports show it: ``int16[256]``
    array: Array | None = None  # the caller's memory; None for a block and for NULL
    wire: np.dtype[Any] | None = None  # type of an element on the board, with its byte order
    block: Block | None = None
    is_const: bool = False
    reference: bytes | None = None  # memory that the board knows, as on the wire
    struct: Struct | None = None  # None if not a struct with known members
    links: tuple[Link, ...] = ()
    targets: list[Target] = field(default_factory=list)
    origins: tuple[dict[str, Any], ...] = ()  # the caller's dicts, to be updated
    stored: dict[int, BoardPointer | None] = field(default_factory=dict)  # by offset

    @property
    def pointer_offsets(self) -> list[int]:
        """The offset of each pointer in it, bytes."""
        if self.struct is None:
            return []
        offsets = [offset for offset, _ in self.struct.pointers]
        return [at + offset for at in range(0, self.size, self.struct.size) for offset in offsets]

    @property
    def size(self) -> int:
        """Its size in the arena, in bytes."""
        return 0 if self.array is None else self.array.nbytes

    @property
    def is_returned(self) -> bool:
        """Whether its bytes come back."""
        return self.passing in (Passing.IN_OUT, Passing.OUT, Passing.KEEP)

    @property
    def is_kept(self) -> bool:
        """Whether each call sees what the previous call has written."""
        return self.passing is Passing.KEEP or (self.passing is Passing.STAYS and not self.is_const)

    def content(self) -> bytes:
        """Return its bytes in the board's layout, in C order."""
        assert self.array is not None
        return self.array.astype(self.wire, order="C", copy=False).tobytes()

    def take(self, content: bytes) -> Array:
        """Write bytes from the board into the caller's memory; return them as an array."""
        assert self.array is not None
        assert self.wire is not None
        array = self.array
        if not array.nbytes:
            return array.copy()
        content = self._with_pointers(content)
        received = np.frombuffer(content, self.wire).reshape(array.shape)
        if not array.flags.writeable:
            pass  # written through a pointer in a struct; the caller's own stays as it is
        elif array.flags.c_contiguous and array.dtype == self.wire:
            # Byte by byte: the padding of a struct must be copied too.
            array.reshape(-1).view(np.uint8)[:] = np.frombuffer(content, np.uint8)
        else:
            array[...] = received
        for index, origin in enumerate(self.origins):
            members = self.members(index)
            origin.clear()
            origin.update(members)
        return received.astype(received.dtype.newbyteorder("="))

    def _with_pointers(self, content: bytes) -> bytes:
        """Return the content with all bits set in each pointer that is not NULL."""
        if self.struct is None or not any(self.stored.values()):
            return content
        sizes = {offset: pointer.size for offset, pointer in self.struct.pointers}
        marked = bytearray(content)
        for at, found in self.stored.items():
            size = sizes[at % self.struct.size]
            marked[at : at + size] = (b"\xff" if found is not None else b"\0") * size
        return bytes(marked)

    def members(self, index: int = 0) -> dict[str, Any]:
        """Return the members of a struct by name, as they are now."""
        assert self.array is not None
        assert self.wire is not None
        assert self.struct is not None
        size = self.struct.size
        content = self.content()[index * size : (index + 1) * size]
        members = members_of(content, self.struct, _byte_order(self.wire))
        for offset, path in pointer_paths(self.struct).items():
            found = self.stored.get(index * size + offset)
            given = [t for t in self.targets if t.offset == index * size + offset]
            is_same = found is not None and given and _is_unchanged(given[0], found)
            origin = None if found is None else found.origin
            at: Any = members
            for step in path[:-1]:
                at = at[step]
            at[path[-1]] = given[0].value if is_same else found if origin is None else origin
        return members


def array_argument(
    function: str, name: str, pointer: Pointer, value: object, order: ByteOrder = "little"
) -> ArrayArgument:
    """Turn a Python value into the argument for a pointer.

    ``value``: a numpy array of any shape with the parameter's element type; bytes, bytearray or
    memoryview for elements of one byte, structs and ``void*``; a list of numbers for ``const T*``;
    a `Block`; None for NULL; or an array or buffer in `Out` or `Keep`.
    """
    where = _Where(function, name, pointer)
    passing = Passing.IN if pointer.const else Passing.IN_OUT
    if isinstance(value, BoardPointer) and not pointer.by_value:
        reference, is_const = where.reference(value), pointer.const
        return ArrayArgument(
            name, Passing.STAYS, f"{value}", reference=reference, is_const=is_const
        )
    if isinstance(value, Out | Keep):
        passing = Passing.OUT if isinstance(value, Out) else Passing.KEEP
        value = value.array
        where.check_passing(passing, value)
    if value is None and not pointer.by_value:
        return ArrayArgument(name, Passing.NULL, "NULL")
    if isinstance(value, Block) and not pointer.by_value:
        return _block(where, value)
    if isinstance(value, str) and pointer.element == CHAR:
        return where.text(value, passing)
    if pointer.inner is not None and isinstance(value, list | tuple) and not _has_members(value):
        value = [{"to": each} for each in value]
    if isinstance(pointer.element, Struct) and _has_members(value):
        return where.structs(value, passing, order)
    array = where.array_of(value, order)
    wire = array.dtype if isinstance(value, _BUFFERS) else array.dtype.newbyteorder(order)
    where.check_element(array)
    if not pointer.const and not array.flags.writeable:
        raise UsageError(
            f"{where} is read-only, and {function} may write it: the parameter is {pointer.text}.",
            hint="pass a bytearray, which takes the result"
            if isinstance(value, bytes | memoryview)
            else f"{name} = {name}.copy(), or declare the parameter `const` in the source",
        )
    element = pointer.element
    struct = element if isinstance(element, Struct) and element.fields else None
    made = ArrayArgument(name, passing, where.shape_text(array), array, wire, struct=struct)
    where.check_pointers(made)
    return made


def _has_members(value: object) -> bool:
    """Tell whether a value names the members of structs."""
    if isinstance(value, list | tuple) and value:
        return all(isinstance(each, Mapping) for each in value)
    return isinstance(value, Mapping | StructText)


def _byte_order(wire: np.dtype[Any]) -> ByteOrder:
    while wire.names:
        wire = wire[0]
        wire = wire if wire.subdtype is None else wire.subdtype[0]
    return "big" if wire.str[0] == ">" else "little"


def _is_unchanged(target: Target, found: BoardPointer) -> bool:
    if target.array is not None:
        return found.text == place_text(target.array.name, target.at)
    if target.reference and found.token is not None:
        return target.reference == found.token.to_bytes(4, "little")
    return False


def _block(where: _Where, block: Block) -> ArrayArgument:
    element = where.pointer.element_size
    if block.size % element:
        raise UsageError(
            f"{where} is a block of {block.size:,} bytes; an element of {where.pointer.text} has "
            f"{element}.",
            hint=f"reserve a multiple of {element} bytes",
        )
    shape_text, is_const = f"block[{block.size}]", where.pointer.const
    return ArrayArgument(where.name, Passing.STAYS, shape_text, block=block, is_const=is_const)


@dataclass(frozen=True)
class _Where:
    """The parameter that a value is for: checks values and names itself in messages."""

    function: str
    name: str
    pointer: Pointer

    def __str__(self) -> str:
        return f"{self.name} of {self.function}"

    def reference(self, value: BoardPointer) -> bytes:
        """Return a pointer that the board knows, as on the wire."""
        if value.token is not None:
            return value.token.to_bytes(4, "little")
        if value.block is None:
            raise UsageError(
                f"{self} is {value}, a pointer into an array of an earlier call.",
                hint="use a block of board.memory, which stays on the board",
            )
        return arena_reference(value.block, value.offset)

    def text(self, value: str, passing: Passing) -> ArrayArgument:
        """Return a text with the zero that ends it."""
        if "\0" in value:
            raise UsageError(
                f"{self}: the text contains a zero character.", hint="pass bytes instead"
            )
        if passing is not Passing.IN:
            raise UsageError(
                f"{self} is a text, and {self.function} may write it ({self.pointer.text}): what "
                "it writes would be lost.",
                hint=f'{self.name} = bytearray(b"...\\0")',
            )
        array = np.frombuffer(text_bytes(self.name, value) + b"\0", np.uint8)
        shown = value if len(value) <= _MOST_SHOWN else value[: _MOST_SHOWN - 3] + "..."
        return ArrayArgument(self.name, passing, json.dumps(shown), array, array.dtype)

    def structs(self, value: object, passing: Passing, order: ByteOrder) -> ArrayArgument:
        """Return structs from their members by name."""
        struct = self.pointer.element
        assert isinstance(struct, Struct)
        origins: tuple[dict[str, Any], ...] = ()
        if isinstance(value, StructText):
            struct = lengthened(struct, value.structs)
            content, links = structs_bytes(value.where, value.structs, struct, order)
        else:
            values = [value] if isinstance(value, Mapping) else list(value)  # type: ignore[call-overload]
            struct = lengthened(struct, values)
            content, links = structs_bytes(str(self), values, struct, order)
            origins = tuple(each for each in values if isinstance(each, dict))
            origins = origins if len(origins) == len(values) else ()
        wire = struct_dtype(struct, order)
        array = np.frombuffer(content, wire)
        if self.pointer.by_value:
            self.check_single(array)
        shown = members_text(members_of(bytes(content), struct, order)) if not links else ""
        if not self.pointer.by_value or not 0 < len(shown) <= _MOST_SHOWN:
            is_longer = struct is not self.pointer.element
            shown = f"{struct.name}[1]" if is_longer else self.shape_text(array)
        made = ArrayArgument(self.name, passing, shown, array, wire, struct=struct)
        made.links, made.origins = tuple(links), origins
        return made

    def check_single(self, array: Array) -> None:
        size = self.pointer.element_size
        if array.nbytes != size:
            raise UsageError(
                f"{self} is a struct of {size} bytes; the array has {array.nbytes} bytes.",
                hint="give one element",
            )

    def check_pointers(self, made: ArrayArgument) -> None:
        """Refuse pointers that are numbers: no address of this machine means anything there."""
        struct = made.struct
        if struct is not None and struct.pointers:
            content = made.content()
            sizes = {at: pointer.size for at, pointer in struct.pointers}
            for offset in made.pointer_offsets:
                if any(content[offset : offset + sizes[offset % struct.size]]):
                    raise UsageError(
                        f"{self}: the array has a pointer that is not NULL, at byte {offset}.",
                        hint="give a dict with the members' names; a pointer takes an array",
                    )
        if self.pointer.by_value and made.array is not None:
            self.check_single(made.array)

    def check_passing(self, passing: Passing, value: object) -> None:
        word = "Out" if passing is Passing.OUT else "Keep"
        if self.pointer.const:
            raise UsageError(
                f"{self} is {self.pointer.text}: the function does not write it, so there is "
                f"nothing to {'return' if passing is Passing.OUT else 'keep'}.",
                hint=f"pass it without {word}",
            )
        if value is None or isinstance(value, Block | Out | Keep):
            raise UsageError(
                f"{self}: {word} is for arrays, not for {_kind(value)}.",
                hint="NULL and blocks of board.memory are passed as they are",
            )

    def array_of(self, value: object, order: ByteOrder) -> Array:
        """Return a value's memory as an array, or a new array of a list's numbers."""
        if isinstance(value, np.ndarray):
            return np.asarray(value)
        if isinstance(value, _BUFFERS):
            return self._bytes(value)
        if isinstance(value, list | tuple | range):
            return self._numbers(value, order)
        try:
            assert not isinstance(value, np.generic)
            return np.asarray(memoryview(value))  # type: ignore[arg-type]
        except (AssertionError, TypeError) as error:
            raise UsageError(
                f"{self} is {_kind(value)}; the parameter's type is {self.pointer.text}.",
                hint=f"{self._example()}, or None for NULL",
            ) from error

    def _bytes(self, value: bytes | bytearray | memoryview) -> Array:
        view = memoryview(value)
        if view.format == "B" and view.c_contiguous:
            array = np.frombuffer(view, np.uint8)
            element = self.pointer.element
            if isinstance(element, Scalar) and element.size == 1:
                return array.view(element_dtype(element))
            return array
        return np.asarray(view)

    def _numbers(self, values: Iterable[object], order: ByteOrder) -> Array:
        element = self.pointer.element
        if not self.pointer.const:
            raise UsageError(
                f"{self} is {_kind(values)}, and {self.function} may write it "
                f"({self.pointer.text}): what it writes would be lost.",
                hint=self._example(),
            )
        if not isinstance(element, Scalar):
            raise UsageError(
                f"{self} is {_kind(values)}; {self.pointer.text} does not say which type the "
                "numbers have.",
                hint=self._example(),
            )
        nested = np.array(values, dtype=object)
        for index, number in enumerate(nested.ravel()):  # as strictly as scalar arguments
            if isinstance(number, list | tuple | range | str):
                what = "its rows have different lengths"
                if isinstance(number, str):
                    what = f"{number!r:.60} in it is not a number"
                raise UsageError(f"{self}: {what}.", hint=self._example())
            kind = "u8" if element == CHAR else element.text
            scalar_packer(f"{self.name}[{index}]", kind)(self.function, number)
        return nested.astype(element_dtype(element, order))

    def check_element(self, array: Array) -> None:
        """Refuse an array whose elements are not what the pointer points to."""
        why = mismatch(array, self.pointer)
        if why is not None:
            raise UsageError(f"{self} {why}.", hint=self._remedy(array))

    def _remedy(self, array: Array) -> str:
        """Return what to do about an array of other elements."""
        element, dtype = self.pointer.element, array.dtype
        if isinstance(element, Scalar) and not dtype.hasobject:
            return f"{self.name} = {self.name}.astype(numpy.{_numpy_name(element_dtype(element))})"
        if not isinstance(element, Struct) or not element.size:
            return self._example()
        if dtype.names and element.fields and dtype.itemsize == element.size:
            return f"{self._example()}, which is {struct_dtype(element)}"
        rest = array.nbytes % element.size if dtype.kind in "Su" else 0
        pad = f"pad it to {array.nbytes - rest + element.size} bytes, or " if rest else ""
        return pad + self._example()

    def _example(self) -> str:
        """Return Python code that makes a value of the right type."""
        match self.pointer.element:
            case None:
                return f"{self.name} = numpy.zeros(16, dtype=numpy.uint8), or any other type"
            case Struct(fields=fields) as struct:
                if fields:
                    return f"{self.name} = numpy.zeros(1, dtype=board.dtypes[{struct.name!r}])"
                return (
                    f"a structured numpy array whose itemsize is {struct.size}, or a bytearray of "
                    f"a multiple of {struct.size} bytes"
                )
            case scalar:
                dtype = _numpy_name(element_dtype(scalar))
                return f"{self.name} = numpy.array([...], dtype=numpy.{dtype})"

    def shape_text(self, array: Array) -> str:
        """Return ``int16[256]``, ``float32[4,4]`` or ``fir_state[2]``."""
        element = self.pointer.element
        if isinstance(element, Struct):
            if array.dtype.itemsize != element.size:
                return f"{element.name}[{array.nbytes // max(1, element.size)}]"
            return f"{element.name}[{','.join(map(str, array.shape))}]"
        return type_and_shape(array)


def _numpy_name(dtype: np.dtype[Any]) -> str:
    return "bool_" if dtype.kind == "b" else dtype.name


def _kind(value: object) -> str:
    if value is None:
        return "None"
    if isinstance(value, str):
        return f"the text {value!r:.60}"
    if isinstance(value, int | float | np.generic):
        return f"the number {value}"
    name = type(value).__name__
    return f"an {name}" if name[0] in "aeiouAEIOU" else f"a {name}"
