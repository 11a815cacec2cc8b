# SPDX-License-Identifier: Apache-2.0
"""Arguments as the command line writes them: ``256``, ``@x.npy``, ``int16[64]:random(7)``.

A text is read in two steps. Before anything is built, its form is checked and its file is opened.
Once the parameter's type is known, it becomes a value for each board.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from boardprof.base.errors import UsageError
from boardprof.target.arguments.array_text import ArrayText, array_text
from boardprof.target.arguments.dtypes import element_dtype, mismatch, struct_dtype
from boardprof.target.arguments.passing import Keep, Out
from boardprof.target.arguments.struct_value import StructText, unquoted
from boardprof.target.cfunction import CHAR, Pointer, Scalar, Struct

if TYPE_CHECKING:  # numpy takes a while to import: only calls with arrays need it
    import numpy.typing as npt

_NULL = ("NULL", "nullptr")
_SUFFIXES = ("out", "keep")
_FILES = (".npy", ".bin", "")
"""Kinds of files: numpy's, and raw bytes. A name without a suffix says nothing about its format."""
_WRITERS = "numpy.save writes one; plain bytes are read from a file called .bin"
_MAGIC = b"\x93NUMPY"
_SHOWN = 16
"""Number of bytes shown of a file with another format."""


@dataclass(frozen=True, eq=False)
class ArgumentText:
    """An argument on the command line, before the type of its parameter is known.

    A text without ``array`` and ``made`` is a number or NULL.
    """

    name: str
    text: str
    array: npt.NDArray[Any] | None = None
    is_raw: bool = False  # the file is plain bytes of elements of the parameter's type
    made: ArrayText | None = None  # the array to make for the parameter's type
    suffix: str = ""

    def value(self, pointer: Pointer | None, arena_bytes: int = 0) -> object:
        """Return the value to pass for a parameter; ``arena_bytes``: 0 if unknown."""
        is_array = self.array is not None or self.made is not None
        if pointer is None or pointer.is_function:
            if pointer is not None and not is_array:
                return None if self.text in _NULL else self.text
            if is_array or self.text in _NULL:
                raise UsageError(
                    f"{self.name}={self.text} is an array, but the parameter is a number.",
                    hint=f"{self.name}=NUMBER",
                )
            return self.text
        if not is_array:
            if self.text in _NULL:
                return None
            is_quoted = self.text.startswith('"')
            if pointer.element == CHAR or (is_quoted and pointer.element_size == 1):
                text = unquoted(self.text)
                is_read = pointer.const and pointer.element == CHAR
                return text if is_read else bytearray(text.encode() + b"\0")
            raise UsageError(
                f"{self.name}={self.text} is not an array; the parameter's type is {pointer.text}.",
                hint=_forms(self.name, pointer),
            )
        array = self._array_for(pointer, arena_bytes)
        if isinstance(array, StructText) and self.suffix:
            raise UsageError(
                f"{self.name}={self.text}: a struct with pointers, enums or bit-fields is in and "
                "out.",
                hint=f"leave out :{self.suffix}",
            )
        return Out(array) if self.suffix == "out" else Keep(array) if self.suffix else array

    def _array_for(self, pointer: Pointer, arena_bytes: int) -> object:
        if self.made is not None:
            made = self.made.make(f"{self.name}={self.text}", pointer, arena_bytes)
            if isinstance(made, StructText):
                return made
            self._check(made, pointer)
            return made
        assert self.array is not None
        if self.is_raw:
            return self._typed(self.array, pointer)
        array = _pairs(self.array, pointer)
        self._check(array, pointer)
        return array.copy()

    def _check(self, array: npt.NDArray[Any], pointer: Pointer) -> None:
        """Refuse an array with wrong elements before anything is sent; hint what to change."""
        why = mismatch(array, pointer)
        if why is None:
            return
        element = pointer.element
        if not isinstance(element, Scalar):
            hint = _forms(self.name, pointer)
        elif self.text.startswith("@"):
            file, wanted = self.text[1:].partition(":")[0], element_dtype(element).name
            hint = f"numpy.save({file!r}, x.astype({wanted!r}))"
        else:
            hint = f"{self.name}={element_dtype(element).name}[{self.text.partition('[')[2]}"
        raise UsageError(f"{self.name}={self.text} {why}.", hint=hint)

    def _typed(self, raw: npt.NDArray[Any], pointer: Pointer) -> object:
        """Return a file's bytes as elements, little-endian; structs and ``void`` stay bytes."""
        if pointer.element_size and raw.size % pointer.element_size:
            raise UsageError(
                f"{self.name}={self.text} has {raw.size:,} bytes; an element of {pointer.text} has "
                f"{pointer.element_size}."
            )
        if not isinstance(pointer.element, Scalar):
            return bytearray(raw.tobytes())
        return raw.view(element_dtype(pointer.element)).copy()


def _forms(name: str, pointer: Pointer) -> str:
    """Return the forms in which an array for a parameter can be written."""
    match pointer.element:
        case Struct(fields=fields, size=size):
            member = next((field.name for field in fields if field.name), None)
            literal = "" if member is None else f"{name}='{{{member}=..., ...}}', "
            return (
                f"{name}=zeros, {name}=[3]:zeros for three, {literal}{name}=@{name}.bin or "
                f"{name}=uint8[{size}]:ones for the bytes, a structured {name}=@{name}.npy, or "
                f"{name}=NULL"
            )
        case Scalar() as scalar:
            dtype = element_dtype(scalar).name
        case _:
            dtype = "uint8"
    text = f"{name}=TEXT, " if pointer.element == CHAR else ""
    return (
        f"{text}{name}='[1, 2, 3]', {name}={dtype}[64]:zeros, with :ones, :random, :random(7) or "
        f":out for :zeros, {name}=@{name}.npy, {name}=@{name}.bin, or {name}=NULL"
    )


def _pairs(array: npt.NDArray[Any], pointer: Pointer) -> npt.NDArray[Any]:
    """Return complex numbers in C's form: pairs of floats, or structs of two."""
    if array.dtype.kind != "c":
        return array
    import numpy as np

    part = np.dtype(f"f{array.dtype.itemsize // 2}")
    match pointer.element:
        case Scalar() as scalar if element_dtype(scalar) == part:
            return np.ascontiguousarray(array)[..., np.newaxis].view(part)
        case Struct(size=size, fields=fields) as struct if (
            size == array.dtype.itemsize
            and [(field.type.size, field.shape) for field in fields] == [(part.itemsize, ())] * 2
        ):
            return np.ascontiguousarray(array).view(struct_dtype(struct))
    return array


def read_argument(name: str, text: str) -> ArgumentText:
    """Parse a value of the command line and read its file, if it names one."""
    if len(text) > 1 and text[0] == text[-1] == '"':
        return ArgumentText(name, text)
    head, colon, suffix = text.rpartition(":")
    if not colon or suffix not in _SUFFIXES:
        head, suffix = text, ""
    if text.startswith("@"):
        path = head[1:]
        kind = Path(path).suffix.lower()
        if kind not in _FILES:
            raise UsageError(
                f"{name}={text}: {path} is neither a .npy file nor a .bin file.",
                hint="numpy.save writes a .npy file; give a file of raw bytes the name NAME.bin",
            )
        is_raw = kind != ".npy"
        array = _load_raw(name, path) if is_raw else load_array(path, f"{name}={text}")
        return ArgumentText(name, text, array, is_raw, suffix=suffix)
    made = array_text(f"{name}={text}", head, has_suffix=bool(suffix) or text == "out")
    return ArgumentText(name, text, made=made, suffix="out" if text == "out" else suffix)


def load_array(path: str | Path, what: str, hint: str = _WRITERS) -> npt.NDArray[Any]:
    """Read a ``.npy`` file; one that holds Python objects is refused."""
    import numpy as np

    try:
        array = np.load(path, allow_pickle=False)
    except OSError as error:
        raise UsageError(f"{what}: {path} cannot be read: {error.strerror or error}.") from error
    except (ValueError, EOFError) as error:
        raise UsageError(
            f"{what}: {path} is not a .npy file of numbers: {_what_instead(path, error)}.",
            hint=hint,
        ) from error
    if not isinstance(array, np.ndarray):  # an .npz file that is named .npy
        array.close()
        raise UsageError(f"{what}: {path} holds several arrays.", hint="numpy.save writes one")
    return array


def _what_instead(path: str | Path, error: Exception) -> str:
    """Describe the format of a file; numpy takes every unknown format for a pickle."""
    with open(path, "rb") as file:
        head = file.read(_SHOWN)
    if not head:
        return "it is empty"
    if head.startswith(_MAGIC):
        return "it holds Python objects" if "allow_pickle" in str(error) else f"{error}".rstrip(".")
    line = head.decode(errors="replace").splitlines()[0][:-1]  # the last may be cut in two
    if line.replace("\t", " ").isprintable() and "\ufffd" not in line:
        return "it is text"
    return f"it begins with the bytes {head.hex(' ')}"


def _load_raw(name: str, path: str) -> npt.NDArray[Any]:
    import numpy as np

    try:
        return np.frombuffer(Path(path).read_bytes(), np.uint8)
    except OSError as error:
        raise UsageError(f"{name}=@{path} cannot be read: {error.strerror}.") from error
