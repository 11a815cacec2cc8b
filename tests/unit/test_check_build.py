# SPDX-License-Identifier: Apache-2.0
"""What a board's build id is compared with, and what is said if one of the two is missing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from boardprof.base.errors import BuildMismatchError
from boardprof.measure.board.image import check_build
from boardprof.results.record import Device
from tests.support import AGENT, requires_tool, run

ONE, OTHER, ZEROS = "0102030405060708", "0102030405060709", "0000000000000000"


def device(build_id: str) -> Device:
    return Device("my-board", "declared", False, "/dev/ttyUSB0", "1.0", build_id, 1, {})


def image(tmp_path: Path, build_id: str) -> Path:
    """Return a program with a table as in docs/firmware.md, written by hand."""
    digits = ", ".join(f"0x{byte:02x}" for byte in bytes.fromhex(build_id))
    source, made = tmp_path / "table.c", tmp_path / "fw.elf"
    source.write_text(
        '#include "boardprof/bp.h"\n'
        f'const bp_firmware_t bp_firmware = {{.board = "b", .build_id = {{{digits}}}}};\n'
        "int main(void) { return bp_firmware.function_count; }\n"
    )
    gcc = requires_tool("gcc", "gcc")
    run([gcc, f"-I{AGENT / 'include'}", source, "-o", made])
    return made


def checked(runs: str, file: Path, built: str | None = None) -> list[str]:
    notes: list[str] = []
    check_build(device(runs), file, bytes.fromhex(built) if built else None, notes.append)
    return notes


def test_the_same_build_says_nothing(tmp_path: Path) -> None:
    assert checked(ONE, image(tmp_path, ONE)) == []


@pytest.mark.parametrize(
    ("runs", "file", "message"),
    [
        (ONE, OTHER, "runs build 0102030405060708; {} is build 0102030405060709."),
        ("", OTHER, "has no build id; {} is build 0102030405060709."),
        (ONE, ZEROS, "runs build 0102030405060708; {} has no build id."),
    ],
)
def test_another_build_is_refused(tmp_path: Path, runs: str, file: str, message: str) -> None:
    made = image(tmp_path, file)
    with pytest.raises(BuildMismatchError) as caught:
        checked(runs, made)
    assert caught.value.message == f"The board at /dev/ttyUSB0 {message.format(made)}"
    assert caught.value.exit_code == 4


def test_two_tables_without_an_id_and_a_file_without_a_table_are_noted(tmp_path: Path) -> None:
    made = image(tmp_path, ZEROS)
    note = (
        f"{made} has no build id, so boardprof cannot check that the board at /dev/ttyUSB0 runs it"
    )
    assert checked("", made) == [
        f"The board at /dev/ttyUSB0 has no build id, so boardprof cannot check that it runs {made}"
    ]
    run([requires_tool("strip", "binutils"), made])
    assert checked(ONE, made) == [note]


def test_sources_are_compared_by_the_id_of_their_build_alone(tmp_path: Path) -> None:
    stripped = tmp_path / "none.elf"
    assert checked(ONE, stripped, built=ONE) == []
    for runs, found in ((OTHER, "runs build 0102030405060709"), ("", "has no build id")):
        text = f"The board at /dev/ttyUSB0 {found}; these sources produce build 0102030405060708."
        with pytest.raises(BuildMismatchError, match=re.escape(text)):
            checked(runs, stripped, built=ONE)
