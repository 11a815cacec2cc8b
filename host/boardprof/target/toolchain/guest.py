# SPDX-License-Identifier: Apache-2.0
"""A virtual machine that runs Linux: its kernel, and the file system with the agent in it."""

from __future__ import annotations

import lzma
import stat
import struct
from collections.abc import Iterator
from pathlib import Path

from boardprof.base.errors import MissingToolError
from boardprof.target.descriptions.tables import GuestSpec, find_kernel
from boardprof.target.toolchain.cache import Cache, FileHashes, digest

_FORMAT = 1  # of the file system: raise it when its content changes
_CONSOLE = (5, 1)  # device of /dev/console: Documentation/admin-guide/devices.txt of Linux
_ZIMAGE_TABLE = 0x38
_XZ = b"\xfd7zXZ\0"
_UIMAGE_MAGIC = 0x27051956
_LINUX_ON_ARM = (5, 2, 2, 0)  # system, architecture, a kernel, not compressed

_ALIGNMENT = 4
_MAGIC = b"070701"


def guest_values(spec: GuestSpec, image: Path) -> dict[str, str]:
    """Return the files that start a guest whose first process is ``image``, by placeholder.

    Raises:
        MissingToolError: the kernel is not installed.
    """
    kernel = find_kernel(spec)
    if kernel is None:
        raise MissingToolError(
            spec.kernel,
            spec.package,
            message=f"There is no Linux kernel for the virtual machine: {spec.kernel} is missing.",
            hint="run make setup, or install the package that this command lists: "
            f"apt-cache pkgnames {spec.package.partition('*')[0]}, here {spec.package}",
        )
    cache = Cache()
    place = ("guests", digest(_FORMAT, FileHashes().of(image)))
    initramfs = cache.made("initramfs", lambda file: _write(file, image), *place)
    tree = {"device_tree": str(kernel.parent / spec.device_tree)} if spec.device_tree else {}
    if (ram := spec.ram) is not None:
        zimage, place = kernel, ("guests", digest(_FORMAT, ram, FileHashes().of(kernel)))
        kernel = cache.made("kernel", lambda file: _unpack(file, zimage, ram), *place)
    return {"kernel": str(kernel), "initramfs": str(initramfs), **tree}


def _unpack(file: Path, zimage: Path, ram: int) -> None:
    """Write a zImage of Arm as a uImage: to unpack it in the guest takes most of a start.

    zImage: arch/arm/boot/compressed/head.S and vmlinux.lds.S of Linux. uImage: include/image.h of
    U-Boot; QEMU checks no CRC of it.
    """
    packed = zimage.read_bytes()
    (table,) = struct.unpack_from("<I", packed, _ZIMAGE_TABLE)
    end, _, offset = struct.unpack_from("<3I", packed, table + 8)
    start = packed.rfind(_XZ, 0, end)
    if start < 0:  # packed in another way, which the guest can unpack
        file.write_bytes(packed)
        return
    kernel, entry = lzma.decompress(packed[start:end]), ram + offset
    head = (_UIMAGE_MAGIC, 0, 0, len(kernel), entry, entry, 0, *_LINUX_ON_ARM)
    file.write_bytes(struct.pack(">7I4B32x", *head) + kernel)


def _write(file: Path, image: Path) -> None:
    file.write_bytes(b"".join(_archive(image.read_bytes())))


def _archive(program: bytes) -> Iterator[bytes]:
    """Yield a cpio archive of the form newc (Documentation/driver-api/early-userspace of Linux)."""
    yield _entry("dev", stat.S_IFDIR | 0o755)
    yield _entry("dev/console", stat.S_IFCHR | 0o600, device=_CONSOLE)
    yield _entry("boardprof-guest", stat.S_IFREG | 0o444)
    yield _entry("init", stat.S_IFREG | 0o755, program)
    yield _entry("TRAILER!!!", 0)


def _entry(
    name: str, mode: int, content: bytes = b"", *, device: tuple[int, int] = (0, 0)
) -> bytes:
    # inode, mode, owner, group, links, time, size, device of the file, device itself, name, sum
    fields = (0, mode, 0, 0, 1, 0, len(content), 0, 0, *device, len(name) + 1, 0)
    head = _MAGIC + b"".join(b"%08x" % field for field in fields) + name.encode() + b"\0"
    return _padded(head) + _padded(content)


def _padded(content: bytes) -> bytes:
    return content + bytes(-len(content) % _ALIGNMENT)
