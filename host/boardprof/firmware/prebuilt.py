# SPDX-License-Identifier: Apache-2.0
"""What is changed in the user's objects before they are linked: main, and static functions."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from boardprof.boards.board_file import BoardSpec
from boardprof.errors import BuildError, UnknownNameError, UsageError
from boardprof.firmware.user_flags import UserFlags
from boardprof.toolchain.cache import Cache
from boardprof.toolchain.toolchain import Compiler, Object

if TYPE_CHECKING:
    from elftools.elf.elffile import ELFFile

__all__ = ["check_constructors", "check_kept", "edited"]

_CONSTRUCTORS = (".preinit_array", ".init_array", ".ctors")  # names of sections


def edited(
    compiler: Compiler,
    objects: Sequence[Object],
    flags: UserFlags,
    kept: Sequence[Sequence[str]] = (),
) -> list[Object]:
    """Return objects and libraries with their main out of the way, and kept functions global.

    One that needs neither is returned as it is.

    Args:
        compiler: whose objcopy is taken.
        objects: the user's.
        flags: the user's.
        kept: for each of the first objects, the static functions that become global: it was
            compiled so that anybody can call them. In others the compiler may have made them for
            their callers alone.

    Raises:
        UsageError: functions are to be kept, and the linker compiles once more.
        BuildError: objcopy fails.
    """
    if flags.keep and flags.lto:
        raise UsageError(
            f"{flags.keep[0]} cannot be kept when the linker compiles once more.",
            hint="leave -flto out",
        )
    found = []
    for index, made in enumerate(objects):
        options = list(_options(made, kept[index] if index < len(kept) else ()))
        found.append(compiler.edit(made, *options) if options else made)
    return found


def _options(made: Object, keep: Sequence[str]) -> Iterator[str]:
    content = made.path.read_bytes()
    # In the table of names; the end of a longer name may stand for it, and then it does no harm.
    if b"main\0" in content:
        yield f"--redefine-sym=main=bp_user_main_{made.sha256[:16]}"
    for name in keep:
        if name.encode() + b"\0" in content:
            yield f"--globalize-symbol={name}"


def check_kept(
    flags: UserFlags,
    files: Sequence[Path],
    offered: Collection[str],
    hidden: Mapping[str, str],
    brought: Sequence[Path] = (),
) -> None:
    """See that each function that shall be kept is there.

    Args:
        flags: the user's.
        files: the sources.
        offered: the functions that the sources offer now.
        hidden: those that they do not: name -> source.
        brought: objects and libraries that were compiled elsewhere.

    Raises:
        UsageError: it is to be of a file that is not built.
        UnknownNameError: there is no such function.
        BuildError: it could not be kept.
    """
    for each in flags.keep:
        at, _, name = each.rpartition(":")
        if at and not any(flags.is_of(each, file) for file in files):
            raise UsageError(
                f"{name} cannot be kept of {at}: no source is called so.",
                hint=f"the sources are {', '.join(map(str, files))}",
            )
        if name in hidden:
            for path in brought:
                if name.encode() + b"\0" in path.read_bytes():
                    raise BuildError(
                        f"{name} cannot be kept: {path.name} was compiled elsewhere, and its "
                        "static functions may be fit for their own callers alone.",
                        hint=f"name {hidden[name]} instead, or call {name} from a function of "
                        "your own there",
                    )
            raise BuildError(
                f"{name} in {hidden[name]} cannot be compiled out of line.",
                hint="it is always_inline, or of C++, or not named in the source: "
                "take that from it, or call it from a function of your own",
            )
        if name not in offered:
            raise UnknownNameError("function to keep", name, [*offered, *hidden])


def check_constructors(
    spec: BoardSpec,
    cache: Cache,
    image: Path,
    inputs: Sequence[Object],
    offered: Collection[str],
) -> None:
    """See that an image asks for no code to run before main where nothing runs it.

    Args:
        spec: the board.
        cache: remembers that an image does not.
        image: in the cache.
        inputs: the user's objects and libraries.
        offered: functions that the image calls.

    Raises:
        BuildError: it does.
    """
    place = ("constructors", image.parent.name)
    if not spec.build.freestanding or cache.read(*place) is not None:
        return
    # Many a link script lets such sections be thrown away: in the image there is nothing to see.
    found = _constructing([made.path for made in inputs], offered)
    if not found and not _constructing([image], ()):
        cache.write("", *place)
        return
    raise BuildError(
        f"{found[0] if found else image.name} has constructors of static objects, "
        f"and {spec.name} runs none.",
        hint="make the objects constinit, or construct them in NAME_setup()",
    )


def _constructing(paths: Sequence[Path], offered: Collection[str]) -> list[str]:
    """Return the files with constructors, and those members of libraries that are needed."""
    # Here, because pyelftools takes a while to import.
    from boardprof.elf.object_file import images, read_image
    from boardprof.elf.symbols import global_names

    needed, found = set(offered), []
    for image in (image for path in paths for image in images(path)):
        names = read_image(image, lambda elf: list(global_names(elf)))
        needed.update(name for name, is_here in names if not is_here)
        if read_image(image, _has_constructors):
            own = {name for name, is_here in names if is_here}
            found.append((image.label, own if image.in_library else None))
    return [label for label, own in found if own is None or own & needed]


def _has_constructors(elf: ELFFile) -> bool:
    return any(
        section.data_size and f"{section.name}.".startswith(f"{kind}.")
        for section in elf.iter_sections()
        for kind in _CONSTRUCTORS
    )
