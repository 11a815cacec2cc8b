# SPDX-License-Identifier: Apache-2.0
"""The ELF images in a file that a user names: an object, a program, or a library of objects."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from boardprof.elf.archive import MAGIC, THIN_MAGIC, members
from boardprof.errors import BoardprofError, UsageError

if TYPE_CHECKING:
    from elftools.elf.elffile import ELFFile

__all__ = ["Image", "images", "read_image"]

_ELF = b"\x7fELF"
_BITCODE = (b"BC\xc0\xde", b"\xde\xc0\x17\x0b")  # LLVM's, bare and wrapped
_T = TypeVar("_T")


@dataclass(frozen=True)
class Image:
    """An ELF image.

    Attributes:
        label: the file's name; of a member of a library, ``libfir.a(fir.o)``.
        path: the file, as it was given.
        content: the image.
        in_library: whether the linker takes it only when something else needs it.
    """

    label: str
    path: Path
    content: bytes
    in_library: bool


def images(path: Path) -> Iterator[Image]:
    """Yield the ELF images in a file.

    Raises:
        UsageError: it is no ELF file and no library that has any.
    """
    with path.open("rb") as file:
        magic = file.read(8)
    if magic in (MAGIC, THIN_MAGIC):
        yield from _library(path)
    elif magic.startswith(_ELF):
        yield Image(path.name, path, path.read_bytes(), in_library=False)
    else:
        raise _no_object(path, magic)


def read_image(image: Image, reader: Callable[[ELFFile], _T]) -> _T:
    """Return what ``reader`` makes of an image.

    Raises:
        UsageError: the image is damaged.
    """
    from elftools.elf.elffile import ELFFile  # takes a while to import

    try:
        return reader(ELFFile(io.BytesIO(image.content)))
    except BoardprofError:
        raise
    except Exception as error:
        # pyelftools raises more than its own errors: of a damaged file, asserts and KeyErrors.
        raise UsageError(
            f"{image.path} cannot be read as an ELF file"
            f"{f' ({image.label})' if image.in_library else ''}: "
            f"{type(error).__name__}: {error}.",
            hint="if it is not damaged, compile it with -g -gdwarf-4, or decompress it: "
            "objcopy --decompress-debug-sections",
        ) from error


def _library(path: Path) -> Iterator[Image]:
    found = False
    for member in members(path):
        if member.content.startswith(_ELF):
            found = True
            yield Image(f"{path.name}({member.name})", path, member.content, in_library=True)
    if not found:
        raise UsageError(f"{path} is a library without any ELF object.")


def _no_object(path: Path, magic: bytes) -> UsageError:
    if magic.startswith(_BITCODE):
        return UsageError(
            f"{path} cannot be read as an ELF file: it is LLVM bitcode.",
            hint="compile it without -flto",
        )
    return UsageError(
        f"{path} cannot be read as an ELF file, and is no library of them.",
        hint="give an object (.o), a static library (.a), a shared library or a program",
    )
