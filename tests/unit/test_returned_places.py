# SPDX-License-Identifier: Apache-2.0
"""Names of the places that returned pointers point to."""

from __future__ import annotations

import subprocess
from pathlib import Path

from boardprof.target.elf.addresses import anchored_symbols
from tests.support import requires_tool


def test_a_place_in_the_heap_is_the_heap_and_others_have_their_distance(tmp_path: Path) -> None:
    (tmp_path / "f.c").write_text(
        "char bp_firmware[16]; char table[16];\n"
        "char *more(int n) { static char heap[64]; return heap + n; }\n"
    )
    gcc = requires_tool("arm-none-eabi-gcc", "gcc-arm-none-eabi")
    command = [gcc, "-mcpu=cortex-m4", "-O1", "-g", "-nostdlib", "-fno-common", "-Wl,-e,0"]
    subprocess.run([*command, "-o", "f.elf", "f.c"], cwd=tmp_path, check=True, timeout=60)
    nm = requires_tool("arm-none-eabi-nm", "binutils-arm-none-eabi")
    shown = subprocess.run([nm, "f.elf"], cwd=tmp_path, check=True, capture_output=True, text=True)
    places = {name: int(at, 16) for at, _, name in map(str.split, shown.stdout.splitlines())}
    heap = next(name for name in places if name.startswith("heap."))
    symbol_at = anchored_symbols(tmp_path / "f.elf")
    assert symbol_at(1, places["table"] + 3 - places["bp_firmware"]) == "table+3"
    for distance in (0, 40):
        assert symbol_at(1, places[heap] + distance - places["bp_firmware"]) == "heap"
