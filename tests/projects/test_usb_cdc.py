# SPDX-License-Identifier: Apache-2.0
"""examples/usb_cdc on a UART that stands in for TinyUSB, which no package has."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from boardprof.measure.connect import connect
from boardprof.target.descriptions.board import board_spec
from tests.firmware import build
from tests.projects.firmware import requires_board
from tests.support import ROOT

BOARD = "qemu-cortex-m3"
STAND_IN = Path(__file__).parent / "fixtures" / "tinyusb"
ARRAYS = ROOT / "tests" / "link" / "fixtures" / "arrays.c"

pytestmark = pytest.mark.board(BOARD)


def test_arrays_go_through_the_ports_two_functions_and_come_back(tmp_path: Path) -> None:
    requires_board(BOARD)
    own = board_spec(BOARD)
    folder = Path(shutil.copytree(own.folder, tmp_path / own.name))
    for file in (*STAND_IN.iterdir(), ROOT / "examples" / "usb_cdc" / "usb_cdc.c"):
        shutil.copy(file, folder)
    spec = replace(own, folder=folder, build=replace(own.build, sources=("port.c", "usb_cdc.c")))
    with connect(spec, image=build(spec, [ARRAYS]).image) as board:
        x = np.arange(3_000, dtype=np.int32)
        board.functions.count_up(x, 3_000)
        assert (x == np.arange(1, 3_001)).all()
