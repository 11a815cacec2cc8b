# SPDX-License-Identifier: Apache-2.0
"""Arguments as the command line writes them: ``256``, ``@x.npy``, ``int16[64]:random(7)``.

A text is read in two steps. What it says by itself is read, and its file opened, before anything is
built; with the type of the parameter, on each board, it becomes a value.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from boardprof.arguments.passing import Keep, Out
from boardprof.cfunction import Pointer, Scalar
from boardprof.errors import UsageError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = ["ArgumentText", "load_array", "read_argument"]

_FORMS = "a number, @x.npy, @x.bin, int16[64]:zeros, :ones, :random, :random(7) or :out, or NULL"
_GENERATED = re.compile(r"(?P<dtype>\w+)\[(?P<shape>[\d, ]*)\](?P<rest>(?::.*)?)")
_RANDOM = re.compile(r"random(?:\((?P<seed>\d+)\))?")
_NULL = ("NULL", "nullptr")
_KINDS = {"i": "int", "u": "uint", "f": "float"}
_SHORT_NAME = re.compile(r"(?P<kind>[iuf])(?P<bits>8|16|32|64)")
_NAMES = frozenset(
    ["bool", "float32", "float64", *(f"{k}int{b}" for k in ("", "u") for b in (8, 16, 32, 64))]
)


@dataclass(frozen=True, eq=False)
class ArgumentText:
    """What a text on the command line says by itself.

    Attributes:
        name: of the parameter.
        text: the whole value.
        array: what the file holds or was generated; None for a number and for NULL. It is copied
            for each board, so that all begin with the same.
        is_raw: the file is plain bytes, which are elements of the parameter's own type.
        suffix: ``out``, ``keep`` or "".
    """

    name: str
    text: str
    array: npt.NDArray[Any] | None = None
    is_raw: bool = False
    suffix: str = ""

    def value(self, pointer: Pointer | None) -> object:
        """Return what is passed for a parameter.

        Args:
            pointer: the parameter's type; None for a scalar.

        Raises:
            UsageError: the text is of no use for a parameter of that type.
        """
        if pointer is None:
            if self.array is not None or self.text in _NULL:
                raise UsageError(
                    f"{self.name}={self.text} is an array, and the parameter is none.",
                    hint=f"{self.name}=NUMBER",
                )
            return self.text
        if self.array is None:
            if self.text in _NULL:
                return None
            raise UsageError(
                f"{self.name}={self.text} is no array; the parameter's type is {pointer.text}.",
                hint=_FORMS,
            )
        array: object
        if self.is_raw:
            array = self._typed(self.array, pointer)
        else:
            self._check(self.array, pointer)
            array = self.array.copy()
        return Out(array) if self.suffix == "out" else Keep(array) if self.suffix else array

    def _check(self, array: npt.NDArray[Any], pointer: Pointer) -> None:
        """Refuse another element type here already, where what to do is another thing."""
        if not isinstance(pointer.element, Scalar):
            return
        from boardprof.arguments.struct_dtype import element_dtype, fits

        dtype, wanted = array.dtype, element_dtype(pointer.element)
        if fits(dtype, pointer.element):
            return
        if self.text.startswith("@"):
            hint = f"numpy.save({self.text[1:].partition(':')[0]!r}, x.astype({wanted.name!r}))"
        else:
            hint = f"{self.name}={wanted.name}[{self.text.partition('[')[2]}"
        raise UsageError(
            f"{self.name}={self.text} is {dtype.name}; the parameter's type is {pointer.text}, "
            f"which needs {wanted.name}.",
            hint=hint,
        )

    def _typed(self, raw: npt.NDArray[Any], pointer: Pointer) -> object:
        """Return a file's bytes as elements, little-endian; structs and ``void`` stay bytes."""
        if not isinstance(pointer.element, Scalar):
            return bytearray(raw.tobytes())
        if raw.size % pointer.element_size:
            raise UsageError(
                f"{self.name}={self.text} has {raw.size:,} bytes; an element of {pointer.text} has "
                f"{pointer.element_size}."
            )
        from boardprof.arguments.struct_dtype import element_dtype

        return raw.view(element_dtype(pointer.element)).copy()


def read_argument(name: str, text: str) -> ArgumentText:
    """Read a value of the command line: its form, and its file if it names one.

    Args:
        name: of the parameter, for messages.
        text: behind the ``=``.

    Raises:
        UsageError: it has no form that is known, or its file cannot be read.
    """
    if text.startswith("@"):
        path, suffix = _split_suffix(text[1:])
        is_raw = Path(path).suffix != ".npy"
        array = _load_raw(name, path) if is_raw else load_array(path, f"{name}={text}")
        return ArgumentText(name, text, array, is_raw, suffix)
    match = _GENERATED.fullmatch(text)
    if match is None:
        if "[" in text or "@" in text or ":" in text:
            raise UsageError(f"{name}={text} is no argument that is known.", hint=_FORMS)
        return ArgumentText(name, text)
    shape = _shape(name, text, match["shape"])
    words = match["rest"].split(":")[1:]
    suffix = words.pop() if words and words[-1] in ("out", "keep") else ""
    content = words.pop(0) if words else "zeros"
    if words:
        raise UsageError(f"{name}={text} says more than one content.", hint=_FORMS)
    array = _generated(name, text, _dtype(name, text, match["dtype"]), shape, content)
    return ArgumentText(name, text, array, suffix=suffix)


def _split_suffix(path: str) -> tuple[str, str]:
    head, colon, suffix = path.rpartition(":")
    return (head, suffix) if colon and suffix in ("out", "keep") else (path, "")


def load_array(path: str | Path, what: str) -> npt.NDArray[Any]:
    """Read a ``.npy`` file; one that holds Python objects is refused.

    Raises:
        UsageError: it cannot be read, or is no such file; the message begins with ``what``.
    """
    import numpy as np

    try:
        array = np.load(path, allow_pickle=False)
    except OSError as error:
        raise UsageError(f"{what}: {path} cannot be read: {error.strerror or error}.") from error
    except (ValueError, EOFError) as error:
        raise UsageError(
            f"{what}: {path} is no .npy file of numbers: {error}",
            hint="numpy.save writes one; plain bytes are read from a file called .bin",
        ) from error
    if not isinstance(array, np.ndarray):  # an .npz under the name of an .npy
        array.close()
        raise UsageError(f"{what}: {path} holds several arrays.", hint="numpy.save writes one")
    return array


def _load_raw(name: str, path: str) -> npt.NDArray[Any]:
    import numpy as np

    try:
        return np.frombuffer(Path(path).read_bytes(), np.uint8)
    except OSError as error:
        raise UsageError(f"{name}=@{path} cannot be read: {error.strerror}.") from error


def _dtype(name: str, text: str, dtype: str) -> np.dtype[Any]:
    import numpy as np

    short = _SHORT_NAME.fullmatch(dtype)
    long = _KINDS[short["kind"]] + short["bits"] if short else dtype
    if long not in _NAMES:
        raise UsageError(
            f"{name}={text}: there is no element type {dtype!r}.",
            hint="bool, int8 to int64, uint8 to uint64, float32, float64; or i8 to f64",
        )
    return np.dtype(long)


def _shape(name: str, text: str, shape: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in shape.split(",")) if shape.strip() else ()
    except ValueError as error:
        raise UsageError(
            f"{name}={text}: [{shape}] is no shape.", hint="e.g. int16[64] or float32[16,16]"
        ) from error


def _generated(
    name: str, text: str, dtype: np.dtype[Any], shape: tuple[int, ...], content: str
) -> npt.NDArray[Any]:
    """Make an array; the same on every machine and for every board."""
    import numpy as np

    match = _RANDOM.fullmatch(content)
    try:
        if match is not None:
            return _random(dtype, shape, int(match["seed"] or 0))
        if content in ("zeros", "ones"):
            return np.full(shape, content == "ones", dtype)
    except (MemoryError, ValueError, OverflowError) as error:
        raise UsageError(f"{name}={text} cannot be made: {error}") from error
    raise UsageError(f"{name}={text}: {content!r} is no content.", hint=_FORMS)


def _random(dtype: np.dtype[Any], shape: tuple[int, ...], seed: int) -> npt.NDArray[Any]:
    """Return integers over the whole range of their type, floats from -1 up to below 1, or bools.

    Each float is a multiple of the spacing below 1, so that doubling and shifting is exact.
    """
    import numpy as np

    generator = np.random.Generator(np.random.PCG64(seed))
    if dtype.kind == "f":
        kind: Any = dtype.type
        return np.asarray(generator.random(shape, dtype=kind) * kind(2) - kind(1))
    low, high = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    drawn = generator.integers(low, high, shape, dtype=dtype.type, endpoint=True)
    return np.asarray(drawn, dtype)
