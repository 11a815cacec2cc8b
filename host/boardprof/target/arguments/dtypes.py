# SPDX-License-Identifier: Apache-2.0
"""The numpy types of numbers and structs, as the board's compiler lays them out."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, cast

from boardprof.base.errors import UnknownNameError, UsageError
from boardprof.target.cfunction import CHAR, SCALARS, CFunction, Pointer, Scalar, Struct

if TYPE_CHECKING:  # numpy takes a while to import: only calls with arrays need it
    import numpy as np
    import numpy.typing as npt

ByteOrder = Literal["little", "big"]
_KINDS = {"i": "i", "u": "u", "f": "f", "b": "?", "c": "u"}  # c: char


def element_dtype(element: Scalar | Struct | Pointer, order: ByteOrder = "little") -> np.dtype[Any]:
    """Return the numpy type of a pointer's or an array's elements; of a pointer, its bits."""
    import numpy as np

    if isinstance(element, Pointer):
        return np.dtype(f"u{element.size}").newbyteorder(order)
    if isinstance(element, Struct):
        return struct_dtype(element, order)
    kind = _KINDS[element.text[0]]
    text = kind if kind == "?" else f"{kind}{element.size}"
    return np.dtype(text).newbyteorder(order)


def struct_dtype(struct: Struct, order: ByteOrder = "little") -> np.dtype[Any]:
    """Return the numpy type with a struct's offsets and size, padding included.

    The members of anonymous structs and unions are members of the enclosing struct, as in C. A
    struct without known fields, with bit-fields, or with two members of the same name (a class and
    its base) is plain bytes (``V24``). A pointer is an unsigned number, which is 0 for NULL.
    """
    import numpy as np

    fields = struct.named_fields
    if not fields or struct.has_bits or len({field.name for field in fields}) < len(fields):
        return np.dtype(f"V{struct.size}")
    # Cast, because numpy's annotations of this form ask for more than needed.
    layout: Any = {
        "names": [field.name for field in fields],
        "formats": [(element_dtype(field.type, order), field.shape) for field in fields],
        "offsets": [field.offset for field in fields],
        "itemsize": struct.size,
    }
    return cast("np.dtype[Any]", np.dtype(layout))


def type_and_shape(array: npt.NDArray[Any]) -> str:
    """Return the element type and shape of an array as text: ``int16[256]``."""
    name = "struct" if array.dtype.names else array.dtype.name
    return f"{name}[{','.join(map(str, array.shape))}]"


def mismatch(array: npt.NDArray[Any], pointer: Pointer) -> str | None:
    """Return why an array cannot be passed for a pointer, to follow its name; None if it can."""
    element, dtype = pointer.element, array.dtype
    if dtype.hasobject:
        return "holds Python objects, not numbers"
    if element is None:
        return None
    if isinstance(element, Struct):
        return _struct_mismatch(array, element, pointer.text)
    if _fits(dtype, element):
        return None
    given, wanted = type_and_shape(array), element_dtype(element).name
    return f"is {given}; the parameter's type is {pointer.text}, which needs {wanted}"


def _struct_mismatch(array: npt.NDArray[Any], struct: Struct, text: str) -> str | None:
    dtype = array.dtype
    if dtype.kind == "V" and dtype.itemsize == struct.size:
        are_known = dtype.names and struct.fields and not struct.has_bits
        why = _misplaced_member(dtype, struct) if are_known else None
        return why and f"has different members from {text}: {why}"
    is_bytes = dtype.kind == "S" or (dtype.kind == "u" and dtype.itemsize == 1)
    if is_bytes and struct.size and array.nbytes % struct.size == 0:
        return None
    what = f"is {type_and_shape(array)}"
    if is_bytes:
        what = f"has {array.nbytes:,} bytes"
    elif dtype.kind == "V":
        what = f"has elements of {dtype.itemsize} bytes"
    return f"{what}; the parameter's type is {text}: structs of {struct.size} bytes"


def _fits(dtype: np.dtype[Any], element: Scalar) -> bool:
    """Tell whether an array of ``dtype`` can be passed for a pointer to ``element``.

    Text (``S``) can be passed for every one-byte integer, and both int8 and uint8 for
    ``char``.
    """
    wanted = element_dtype(element)
    kinds = {wanted.kind}
    if element.size == 1 and wanted.kind != "b":
        kinds |= {"S", "i", "u"} if element == CHAR else {"S"}
    return dtype.kind in kinds and (dtype.kind == "S" or dtype.itemsize == wanted.itemsize)


@lru_cache(maxsize=64)
def _misplaced_member(dtype: np.dtype[Any], struct: Struct) -> str | None:
    """Return where a structured type differs from a struct of the same size; None if nowhere.

    Names and byte order may differ. Plain bytes (``V4``) match any member, and padding may hold
    anything. Where members overlap, matching one is enough.
    """
    wanted: dict[int, list[Scalar]] = defaultdict(list)
    due = bytearray(struct.size)  # 1: a byte of a member whose type is known
    for offset, _, kind in struct.leaves(numbers=True):
        scalar = SCALARS[f"u{8 * kind.size}"] if isinstance(kind, Pointer) else kind
        wanted[offset].append(scalar)
        due[offset : offset + scalar.size] = b"\1" * scalar.size
    there = bytearray(struct.size)
    for name, offset, leaf in _leaves(dtype, ""):
        end = offset + leaf.itemsize
        there[offset:end] = b"\1" * leaf.itemsize
        if leaf.kind == "V" or not any(due[offset:end]):
            continue
        if not any(_fits(leaf, scalar) for scalar in wanted[offset]):
            has = " or ".join(scalar.text for scalar in wanted[offset]) or "no member"
            return f"{name} is {leaf.name} at byte {offset}, where {struct.name} has {has}"
    for offset, scalars in wanted.items():
        if not all(there[offset : offset + min(scalar.size for scalar in scalars)]):
            return f"nothing is at byte {offset}, where {struct.name} has {scalars[0].text}"
    return None


def _leaves(
    dtype: np.dtype[Any], name: str, begin: int = 0
) -> Iterator[tuple[str, int, np.dtype[Any]]]:
    """Yield name, offset and type of each number; a text is a sequence of single bytes."""
    import numpy as np

    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        for index in range(math.prod(shape)):
            yield from _leaves(base, f"{name}[{index}]", begin + index * base.itemsize)
    elif dtype.names is not None and dtype.fields is not None:
        for field in dtype.names:
            inner, offset = dtype.fields[field][:2]
            yield from _leaves(inner, f"{name}.{field}" if name else field, begin + offset)
    elif dtype.kind == "S":
        for index in range(dtype.itemsize):
            yield name, begin + index, np.dtype("S1")
    else:
        yield name, begin, dtype


class Dtypes(Mapping[str, "np.dtype[Any]"]):
    """The structs that a board's functions point to, as numpy types, by the structs' names.

    ``np.zeros(4, board.dtypes["fir_state"])`` makes an array of one. Only the structs of firmware
    that was built here, or whose image with debug information is known, are known.
    """

    def __init__(
        self,
        functions: Mapping[str, CFunction],
        order: ByteOrder = "little",
        learn: Callable[[], None] | None = None,
    ) -> None:
        """Provide the structs of functions."""
        self._functions = functions
        self._order = order
        self._learn = learn

    def __getitem__(self, name: str) -> np.dtype[Any]:
        """Return the type of the struct called ``name``.

        Raises:
            UnknownNameError: no function points to such a struct.
            UsageError: several structs have the name.
        """
        found = self._structs().get(name, {})
        if not found and self._learn is not None:
            self._learn()
            found = self._structs().get(name, {})
        if not found:
            raise UnknownNameError(
                "struct that functions of the board point to",
                name,
                list(self),
                hint="only structs of firmware opened with boardprof.build(...).open() are known",
            )
        if len(found) > 1:
            raise UsageError(
                f"{len(found)} different structs of the sources are called {name}.",
                hint="give each of them a different name",
            )
        return struct_dtype(next(iter(found)), self._order)

    def __contains__(self, name: object) -> bool:
        """Tell whether a function points to a struct of that name."""
        return name in self._structs()

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names."""
        return iter(self._structs())

    def __len__(self) -> int:
        """Return how many names there are."""
        return len(self._structs())

    def _structs(self) -> dict[str, dict[Struct, None]]:
        structs: dict[str, dict[Struct, None]] = {}
        for function in self._functions.values():
            types = [*(parameter.type for parameter in function.parameters), function.result]
            found = [each.element for each in types if isinstance(each, Pointer)]
            for struct in (*found, *function.structs):
                if isinstance(struct, Struct):
                    structs.setdefault(struct.name, {})[struct] = None
        return structs


# -- contents --------------------------------------------------------------------------------------

_CONTENT = r"zeros|ones|random(?:\((?P<seed>\d+)\))?"


def is_content(text: str) -> bool:
    """Tell whether a text is ``zeros``, ``ones``, ``random`` or ``random(SEED)``."""
    return re.fullmatch(_CONTENT, text) is not None


def filled(dtype: np.dtype[Any], shape: tuple[int, ...], content: str) -> npt.NDArray[Any]:
    """Return a new array; in structs each member has the content, and padding is zeros."""
    import numpy as np

    array = np.zeros(shape, dtype)
    match = re.fullmatch(_CONTENT, content)
    assert match is not None
    if content == "ones":
        _fill(array, lambda dtype, shape: np.ones(shape, dtype))
    elif content != "zeros":
        generator = np.random.Generator(np.random.PCG64(int(match["seed"] or 0)))
        if dtype.names is None and dtype.kind != "V":
            return _random(generator, dtype, shape)
        _fill(array, lambda dtype, shape: _random(generator, dtype, shape))
    return array


def _fill(array: npt.NDArray[Any], make: Any) -> None:
    """Set each number of an array to what ``make`` returns, in the order of the members."""
    if array.dtype.names is None:
        if array.dtype.kind == "V":
            raise ValueError("the types of its members are not known.")
        array[...] = make(array.dtype, array.shape)
        return
    for name in array.dtype.names:
        _fill(array[name], make)


def _random(
    generator: np.random.Generator, dtype: np.dtype[Any], shape: tuple[int, ...]
) -> npt.NDArray[Any]:
    """Return integers of the whole range, bools, or floats in [-1, 1) that double exactly."""
    import numpy as np

    if dtype.kind == "f":
        kind: Any = dtype.type
        return np.asarray(generator.random(shape, dtype=kind) * kind(2) - kind(1))
    low, high = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    drawn = generator.integers(low, high, shape, dtype=dtype.type, endpoint=True)
    return np.asarray(drawn, dtype)
