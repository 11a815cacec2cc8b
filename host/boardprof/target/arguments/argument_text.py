# SPDX-License-Identifier: Apache-2.0
"""Arguments as the command line writes them: ``256``, ``@x.npy``, ``int16[64]:random(7)``.

A text is read in two steps. Before anything is built, its form is checked and its file is opened.
Once the parameter's type is known, it becomes a value for each board.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

from boardprof.base.errors import UnknownNameError, UsageError, agent_option, option
from boardprof.base.files import open_file, read_file
from boardprof.target.arguments.dtypes import (
    element_dtype,
    filled,
    is_content,
    mismatch,
    struct_dtype,
)
from boardprof.target.arguments.passing import Keep, Out, Same
from boardprof.target.arguments.struct_value import (
    Filled,
    StructText,
    lengthened,
    number_of,
    structs_bytes,
    text_bytes,
    unquoted,
)
from boardprof.target.cfunction import CHAR, Pointer, Scalar, Struct

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


_NULL = ("NULL", "nullptr")
_NUMBER = re.compile(r"-?(0[xX][\da-fA-F]+|\d*\.?\d+)")
_SCOPED = re.compile(r"(?:\w+::)+\w+")  # a value of an enum class
_ADDRESS = re.compile(r"&\w+(\[\d+\])?")
_SUFFIXES = ("out", "keep")
_FILES = (".npy", ".bin", "")
"""Kinds of files: numpy's, and raw bytes. A name without a suffix says nothing about its format."""
_WRITERS = "numpy.save writes one; plain bytes are read from a file called .bin"
_MAGIC = b"\x93NUMPY"
_SHOWN = 16  # number of bytes shown of a file with another format


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
    refused: UsageError | None = None  # it is not an array or struct, so it can only be a text

    def value(self, pointer: Pointer | None, arena_bytes: int = 0) -> object:
        """Return the value to pass for a parameter; ``arena_bytes``: 0 if unknown."""
        is_array = self.array is not None or self.made is not None
        if self.refused is not None and (pointer is None or pointer.element != CHAR):
            raise self.refused
        if pointer is None or pointer.is_function:
            if pointer is not None and not is_array:
                return None if self.text in _NULL else self.text
            if is_array or self.text in _NULL:
                raise UsageError(
                    f"{self.name}={self.text} is an array, but the parameter is a number.",
                    hint=f"{self.name}=NUMBER",
                )
            return self.text.rpartition("::")[2] if _SCOPED.fullmatch(self.text) else self.text
        if not is_array:
            if self.text in _NULL:
                return None
            if self.text.startswith("&") and self.text[1:].isidentifier():
                return Same(self.text[1:])
            is_quoted = self.text.startswith('"')
            if pointer.element == CHAR or (is_quoted and pointer.element_size == 1):
                text = unquoted(self.text)
                is_read = pointer.const and pointer.element == CHAR
                return text if is_read else bytearray(text_bytes(self.name, text) + b"\0")
            forms = _forms(self.name, pointer)
            if isinstance(pointer.element, Scalar) and _NUMBER.fullmatch(self.text):
                forms = f"{self.name}='[{self.text}]' points to this number. For an array: {forms}"
            raise UsageError(
                f"{self.name}={self.text} is not an array; the parameter's type is {pointer.text}.",
                hint=forms,
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
            try:
                array = self.made.make(f"{self.name}={self.text}", pointer, arena_bytes)
            except UsageError as error:
                if pointer.element == CHAR and self.made.values is not None:
                    error.hint = f"as a text, in double quotes: {self.name}='\"{self.text}\"'"
                raise
            if isinstance(array, StructText):
                return array
        else:
            assert self.array is not None
            if self.is_raw:
                return self._typed(self.array, pointer)
            array = _pairs(self.array, pointer).copy()
        self._check(array, pointer)
        return array

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
        """Return a file's bytes as elements, little-endian; structs and ``void`` stay bytes.

        A file with another suffix may be a table of numbers, so it is taken for bytes and text
        only.
        """
        path = self.text[1:].removesuffix(f":{self.suffix}")
        if Path(path).suffix.lower() not in _FILES:
            if isinstance(pointer.element, Struct) or pointer.element_size > 1:
                raise UsageError(
                    f"{self.name}={self.text}: {path} is neither a .npy file nor a .bin file.",
                    hint="numpy.save writes a .npy file; give a file of raw bytes the name "
                    "NAME.bin",
                )
            if pointer.element == CHAR:
                return bytearray(raw.tobytes() + b"\0")
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
    if pointer.inner is not None:
        examples = "'[a, NULL]'"
        if pointer.inner.element == CHAR:
            examples = """'["one", "two"]'"""
        elif isinstance(pointer.inner.element, Scalar) and not pointer.inner.is_function:
            examples = f"'[[1, 2], [3, 4]]', {name}='[&a, NULL]' with a=[8]:zeros"
        elif pointer.inner.is_function:
            examples = "'[FUNCTION, NULL]'"
        return f"{name}={examples}, or {name}=NULL"
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
        is_raw = Path(path).suffix.lower() != ".npy"
        array = _load_raw(name, path) if is_raw else load_array(path, f"{name}={text}")
        return ArgumentText(name, text, array, is_raw, suffix=suffix)
    try:
        made = array_text(f"{name}={text}", head, has_suffix=bool(suffix) or text == "out")
    except UsageError as error:
        if text[:1] == "{" or (text[:1] == "[" and text[-1] != "]"):  # JSON, or a pattern
            return ArgumentText(name, text, refused=error)
        raise
    return ArgumentText(name, text, made=made, suffix="out" if text == "out" else suffix)


def load_array(path: str | Path, what: str, hint: str = _WRITERS) -> npt.NDArray[Any]:
    """Read a ``.npy`` file; one that holds Python objects is refused."""
    import numpy as np

    try:
        with open_file(path) as file:
            array = np.load(file, allow_pickle=False)
    except OSError as error:
        raise UsageError(f"{what}: {path} cannot be read: {error.strerror or error}.") from error
    except MemoryError as error:
        raise UsageError(f"{what}: {path} needs more memory than this machine has.") from error
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
    with open_file(path) as file:
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
        return np.frombuffer(read_file(path), np.uint8)
    except OSError as error:
        raise UsageError(f"{name}=@{path} cannot be read: {error.strerror}.") from error


# -- arrays and structs of a text --------------------------------------------------------------


_FORMS = (
    "a number, '[1, 2, 3]', @x.npy, @x.bin, int16[64]:zeros, :ones, :random, :random(7) or :out, "
    "NULL; for structs zeros, [3]:zeros or '{NAME=NUMBER}'; for char* TEXT, or '\"TEXT\"' with "
    "special characters"
)
_CONTENTS = ("zeros", "ones", "random", "out")
_GENERATED = r"(?P<dtype>\w*)\[(?P<shape>[\d, ]*)\](?P<rest>(?::.*)?)"
_KINDS = {"i": "int", "u": "uint", "f": "float"}
_SHORT_NAME = r"(?P<kind>[iuf])(?P<bits>8|16|32|64)"
_NAMES = frozenset(
    ["bool", "float32", "float64", *(f"{k}int{b}" for k in ("", "u") for b in (8, 16, 32, 64))]
)
# Matches names that look like a number type, not like a struct.
_LIKE_A_NUMBER = (
    r"(u?int|float|complex|[iuf])\d*(_t)?|bool|double|char|short|long|unsigned|signed|void|half"
)
_TOKEN = r"""\s*([{}\[\],=]|"(?:[^"\\]|\\.)*"|&\w+\[\d+\]|[^\s{}\[\],="]+)\s*"""
_BRACKETS = {"{": 1, "[": 1, "}": -1, "]": -1}
_DEEPEST = 50

Tree = dict[str, "Tree"] | list["Tree"] | Filled | str


@dataclass(frozen=True, eq=False)
class ArrayText:
    """An array that is made once the type of the parameter is known."""

    type_name: str = ""  # numpy's name or a struct's; "" takes the parameter's
    shape: tuple[int, ...] | None = None  # None for one element
    content: str = "zeros"
    structs: list[dict[str, Tree]] | None = None  # from a text with members
    values: list[Tree] | None = None  # from a text with numbers

    def make(
        self, where: str, pointer: Pointer, arena_bytes: int = 0
    ) -> npt.NDArray[Any] | StructText:
        """Return a new array, or the members of structs that are more than numbers."""
        if self.structs is not None:
            if not isinstance(pointer.element, Struct):
                raise UsageError(
                    f"{where} is a struct; the parameter's type is {pointer.text}.",
                    hint="a name, a shape and a content, such as int16[64]:zeros",
                )
            struct = lengthened(pointer.element, self.structs)
            if not struct.is_plain or pointer.by_value or struct is not pointer.element:
                return StructText(where, self.structs)
            return _struct_array(where, self.structs, struct)
        if self.values is not None and pointer.inner is not None:
            targets = (_target_of(where, each, pointer.inner) for each in self.values)
            return StructText(where, [{"to": each} for each in targets])
        dtype = self._dtype(where, pointer)
        if self.values is not None:
            return _values_array(where, self.values, pointer)
        if self.shape is None and not isinstance(pointer.element, Struct):
            raise UsageError(
                f"{where} does not say how many elements; the parameter's type is {pointer.text}.",
                hint=f"{where.partition('=')[0]}=[64]:{self.content}",
            )
        shape = (1,) if self.shape is None else self.shape
        size = dtype.itemsize * math.prod(shape)
        if 0 < arena_bytes < size:
            raise UsageError(
                f"{where} takes {size:,} bytes; the board's arena has {arena_bytes:,} bytes.",
                hint=f"pass a smaller array, or compile the agent with a larger "
                f"{agent_option('arena')}",
            )
        return _checked(where, lambda: filled(dtype, shape, self.content))

    def _dtype(self, where: str, pointer: Pointer) -> np.dtype[Any]:
        import numpy as np

        if self.type_name in _NAMES:
            return np.dtype(self.type_name)
        match pointer.element:
            case Struct(name=name) as struct if self.type_name in ("", name):
                return element_dtype(struct)
            case Scalar() as scalar if not self.type_name:
                return element_dtype(scalar)
        if self.type_name:
            raise _no_type(where, self.type_name, pointer)
        raise UsageError(
            f"{where} does not say which type; the parameter's is {pointer.text}.",
            hint="put the type before it, such as uint8[64]:zeros",
        )


def array_text(where: str, text: str, *, has_suffix: bool) -> ArrayText | None:
    """Read a text without its suffix; None if it does not describe an array."""
    if text.startswith("{") or text.startswith("[{"):
        return ArrayText(structs=_structs(where, text))
    if is_content(text):
        return ArrayText(content=text)
    if text == "out":
        return ArrayText()
    if text.startswith("[") and text.endswith("]") and not has_suffix:
        tree = _tree(where, text, "a list of numbers", "[1, 2, 3], or [64]:zeros for 64 zeros")
        assert isinstance(tree, list), "it begins with a bracket"
        return ArrayText(values=tree)
    match = re.fullmatch(_GENERATED, text)
    if match is None:
        is_scoped = _SCOPED.fullmatch(text) is not None
        if (any(mark in text for mark in "[@:{") and not is_scoped) or has_suffix:
            raise UsageError(f"{where} is not a known form of argument.", hint=_FORMS)
        return None
    words = match["rest"].split(":")[1:] or ["zeros"]
    if len(words) > 1 and is_content(words[0]):
        raise UsageError(f"{where} has more than one content.", hint=_FORMS)
    if not is_content(words[0]):
        near = _proposal(words[0], _CONTENTS)
        raise UsageError(f"{where}: {words[0]!r} is not a content{near}", hint=_FORMS)
    shape = _shape(where, match["shape"])
    type_name = match["dtype"]
    if short := re.fullmatch(_SHORT_NAME, type_name):
        type_name = _KINDS[short["kind"]] + short["bits"]
    if type_name not in _NAMES and re.fullmatch(_LIKE_A_NUMBER, type_name):
        raise _no_type(where, type_name)
    if type_name in _NAMES:  # is there memory for it? Better known before anything is built.
        import numpy as np

        _checked(where, lambda: np.empty(shape, type_name))
    return ArrayText(type_name, shape, words[0])


def _checked(where: str, make: Callable[[], npt.NDArray[Any]]) -> npt.NDArray[Any]:
    try:
        return make()
    except (MemoryError, ValueError, OverflowError) as error:
        message = f"{where} cannot be made: {error}".rstrip(".")
        raise UsageError(f"{message}.", hint="a smaller array") from error


def _no_type(where: str, name: str, pointer: Pointer | None = None) -> UsageError:
    of = f"; the parameter's type is {pointer.text}" if pointer is not None else ""
    return UsageError(
        f"{where}: the element type {name!r} is not known{of}{_proposal(name, sorted(_NAMES))}",
        hint="bool, int8 to int64, uint8 to uint64, float32, float64; or i8 to f64; or the "
        "parameter's own, without a name: [64]:zeros",
    )


def _proposal(name: str, known: Iterable[str]) -> str:
    nearest = UnknownNameError.nearest(name, known)
    return "." if nearest is None else f"; did you mean {nearest!r}?"


def _shape(where: str, shape: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in shape.split(","))
    except ValueError as error:
        raise UsageError(
            f"{where}: [{shape}] is not a shape.", hint="e.g. int16[64] or float32[16,16]"
        ) from error


# -- values ------------------------------------------------------------------------------------


def _target_of(where: str, value: Tree, pointer: Pointer) -> object:
    """Return what one of several pointers points to: an array of a list's numbers, or the text."""
    if isinstance(value, list):
        return _values_array(where, value, pointer)
    is_number = isinstance(pointer.element, Scalar) and not pointer.is_function
    is_text = isinstance(value, str) and value not in _NULL and not _ADDRESS.fullmatch(value)
    if is_text and is_number and pointer.element != CHAR:
        raise UsageError(
            f"{where}: {value} is not an array; each pointer is {pointer.text}.",
            hint="'[[1, 2], [3, 4]]', or '[&a, NULL]' with a=[8]:zeros",
        )
    return value


def _values_array(where: str, values: list[Tree], pointer: Pointer) -> npt.NDArray[Any]:
    import numpy as np

    nested = np.array(values, dtype=object)
    if not nested.size or not all(isinstance(each, str) for each in nested.flat):
        raise UsageError(f"{where}: its rows are not alike, or empty.", hint="[[1, 2], [3, 4]]")
    kind = pointer.element
    if not isinstance(kind, Scalar):
        raise UsageError(
            f"{where} has numbers; the parameter's type is a struct.",
            hint=_forms(where.partition("=")[0], pointer),
        )
    numbers = [number_of(where, f"[{i}]", kind, each) for i, each in enumerate(nested.flat)]
    return np.array(numbers, element_dtype(kind)).reshape(nested.shape)


# -- structs -----------------------------------------------------------------------------------


def _structs(where: str, text: str) -> list[dict[str, Tree]]:
    """Return the structs of a text as their members' texts: one, or several in brackets."""
    hint = "'{NAME=NUMBER, NAME=[NUMBER, NUMBER]}', in quotes"
    tree = _tree(where, text, "a struct", hint)
    structs = tree if isinstance(tree, list) else [tree]
    if not all(isinstance(each, dict) for each in structs):
        raise UsageError(f"{where} is not a struct.", hint=hint)
    return structs  # type: ignore[return-value]  # just seen


def _tree(where: str, text: str, what: str, hint: str) -> Tree:
    tokens = re.findall(_TOKEN, text)
    if max(accumulate(_BRACKETS.get(token, 0) for token in tokens), default=0) > _DEEPEST:
        raise UsageError(f"{where} is nested too deeply: at most {_DEEPEST} levels are allowed.")
    try:
        tree = _value(tokens)
        if tokens:
            raise ValueError
    except (ValueError, IndexError) as error:
        raise UsageError(f"{where} is not {what}.", hint=hint) from error
    return tree


def _value(tokens: list[str]) -> Tree:
    token = tokens.pop(0)
    if token == "[":
        items = _items(tokens, "]", _value)
        if not tokens or not tokens[0].startswith(":"):
            return items
        content = tokens.pop(0)[1:]
        if len(items) != 1 or not is_content(content):
            raise ValueError(content)
        return Filled(int(items[0]), content)
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


def _struct_array(where: str, structs: list[dict[str, Tree]], struct: Struct) -> npt.NDArray[Any]:
    """Return structs as an array; unnamed members are zeros, as in C."""
    import numpy as np

    dtype = struct_dtype(struct)
    if dtype.names is None:
        raise UsageError(
            f"{where}: the members of {struct.name} are not known, or have no names of their own.",
            hint=f"uint8[{struct.size}]:zeros, or @FILE.bin with {struct.size} bytes each; for a "
            f"board with firmware of its own, {option('--image')} ELF, which has the members",
        )
    content, _ = structs_bytes(where, structs, struct)
    return np.frombuffer(content, dtype)
