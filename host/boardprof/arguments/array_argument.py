# SPDX-License-Identifier: Apache-2.0
"""An argument for a pointer: the bytes sent to the board, and the bytes that come back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from boardprof.arguments.dtypes import element_dtype, mismatch, struct_dtype, type_and_shape
from boardprof.arguments.passing import Block, Keep, Out, Passing
from boardprof.arguments.signature import scalar_packer
from boardprof.cfunction import CHAR, Pointer, Scalar, Struct
from boardprof.errors import UsageError

Array = npt.NDArray[Any]
ByteOrder = Literal["little", "big"]

_BUFFERS = (bytes, bytearray, memoryview)


@dataclass(frozen=True, eq=False)
class ArrayArgument:
    """The argument for a pointer.

    Attributes:
        name: of the parameter.
        passing: its direction.
        shape_text: as Reports show it: ``int16[256]``.
        array: the caller's memory; None for a block and for NULL.
        wire: type of an element on the board, with the board's byte order.
        block: the caller's block, which stays on the board.
        is_const: whether the function only reads it.
    """

    name: str
    passing: Passing
    shape_text: str
    array: Array | None = None
    wire: np.dtype[Any] | None = None
    block: Block | None = None
    is_const: bool = False

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
        received = np.frombuffer(content, self.wire).reshape(array.shape)
        if array.flags.c_contiguous and array.dtype == self.wire:
            # Byte by byte: the padding of a struct must be copied too.
            array.reshape(-1).view(np.uint8)[:] = np.frombuffer(content, np.uint8)
        else:
            array[...] = received
        return received.astype(received.dtype.newbyteorder("="))


def array_argument(
    function: str, name: str, pointer: Pointer, value: object, order: ByteOrder = "little"
) -> ArrayArgument:
    """Turn a Python value into the argument for a pointer.

    Args:
        function: for messages.
        name: of the parameter.
        pointer: the parameter's type.
        value: a numpy array of any shape with the parameter's element type; bytes, bytearray or
            memoryview for elements of one byte, structs and ``void*``; a list of numbers for
            ``const T*``; a `Block`; None for NULL; or an array or buffer in `Out` or `Keep`.
        order: byte order of the board.

    Raises:
        UsageError: it has another type or does not fit; the message says what is needed.
    """
    where = _Where(function, name, pointer)
    passing = Passing.IN if pointer.const else Passing.IN_OUT
    if isinstance(value, Out | Keep):
        passing = Passing.OUT if isinstance(value, Out) else Passing.KEEP
        value = value.array
        where.check_passing(passing, value)
    if value is None:
        return ArrayArgument(name, Passing.NULL, "NULL")
    if isinstance(value, Block):
        return _block(where, value)
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
    return ArrayArgument(name, passing, where.shape_text(array), array, wire)


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
                is_text = isinstance(number, str)
                what = (
                    f"{number!r:.60} in it is not a number"
                    if is_text
                    else "its rows have different lengths"
                )
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
