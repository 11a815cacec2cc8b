# SPDX-License-Identifier: Apache-2.0
"""Images of another machine are told before anything is started with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from boardprof.base.errors import UsageError
from boardprof.measure.connect import connect
from boardprof.target.build.sources import names_one_of
from boardprof.target.descriptions.board import board_spec
from boardprof.target.elf.object_file import check_image

# e_ident, e_type and e_machine: System V ABI, chapter 4, and the processors' supplements.
ARM = b"\x7fELF\1\1\1" + bytes(9) + b"\2\0\x28\0"
RISCV = b"\x7fELF\1\1\1" + bytes(9) + b"\2\0\xf3\0"
POWERPC = b"\x7fELF\1\2\1" + bytes(9) + b"\0\2\0\x14"


def image(folder: Path, content: bytes) -> Path:
    path = folder / "fw.elf"
    path.write_bytes(content)
    return path


def test_an_image_of_the_board_s_machine_is_taken(tmp_path: Path) -> None:
    name_of_the_agent = b"bp.describe\0"
    check_image(image(tmp_path, ARM + name_of_the_agent), board_spec("qemu-cortex-m3"))
    check_image(image(tmp_path, RISCV + name_of_the_agent), board_spec("qemu-rv32"))


@pytest.mark.parametrize(
    ("content", "board", "message"),
    [
        (RISCV, "qemu-cortex-m3", "is for RISC-V; qemu-cortex-m3 is Arm"),
        (ARM, "qemu-rv32", "is for Arm; qemu-rv32 is RISC-V"),
        (RISCV, "native", "is for RISC-V; native is "),
        (POWERPC, "qemu-rv32", "is for PowerPC; qemu-rv32 is RISC-V"),
        (b"\x7fEL", "qemu-rv32", "is not a firmware image"),
        (b":10000000", "qemu-rv32", "is not a firmware image"),
    ],
)
def test_any_other_is_refused_and_not_started(
    tmp_path: Path, content: bytes, board: str, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        connect(board, image=image(tmp_path, content))


def test_what_is_not_a_regular_file_is_not_called_absent(tmp_path: Path) -> None:
    for path in (tmp_path, Path("/dev/null")):
        with pytest.raises(UsageError, match=f"^The firmware image {path} is not a regular file"):
            check_image(path, board_spec("qemu-rv32"))
    with pytest.raises(UsageError, match=r"fw\.elf does not exist"):
        check_image(tmp_path / "fw.elf", board_spec("qemu-rv32"))


def test_the_boards_that_it_may_be_for_are_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"with -b, such as .*qemu-rv32"):
        connect("qemu-cortex-m3", image=image(tmp_path, RISCV))


def test_a_source_mentions_a_name_in_utf_8_and_never_one_that_utf_8_has_no_form_for() -> None:
    source = "int café(void);".encode()
    assert names_one_of(source, ["x", "café"])
    assert not names_one_of(source, ["caf", "caf\udce9", "\ud800"])
