# SPDX-License-Identifier: Apache-2.0
"""Firmware is built for each board of the tree, with the cache that other tests use as well."""

from __future__ import annotations

from pathlib import Path

import pytest

from boardprof.target.descriptions.board import board_spec, find_boards
from tests.support import requires_compiler
from tests.unit.building import build, folder_of, shown, sizes

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", sorted(find_boards()))
def test_every_board_in_the_tree_is_built(tmp_path: Path, name: str) -> None:
    text = """\
    #include <stdint.h>
    uint32_t sum;
    uint32_t add(uint16_t n, float gain) { return sum += (uint32_t)(n * gain); }
    void add_setup(void) { sum = 0; }
    """
    folder_of(tmp_path, {"add.c": text})
    requires_compiler(board_spec(name).build.cc)
    firmware = build(board_spec(name), [tmp_path])
    assert shown(firmware) == {"add": "(n: u16, gain: f32) -> u32"}
    assert firmware.functions[0].setup == "add_setup"
    assert {"add", "bp_firmware", "bp_poll"} <= sizes(firmware).keys()
