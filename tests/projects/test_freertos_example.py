# SPDX-License-Identifier: Apache-2.0
"""examples/freertos in QEMU, with a stand-in for the kernel, which is not ours to bring.

The stand-in runs only the agent's task. With FreeRTOS itself the example has been run by hand, as
docs/rtos.md says; do that again after a change of the example.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from boardprof.measure.connect import connect
from tests.projects.firmware import command, requires_board, shell
from tests.support import ROOT

BOARD = "qemu-cortex-m3"
KERNEL = Path(__file__).parent / "fixtures" / "freertos"
MAKEFILE = ROOT / "examples" / "freertos" / "Makefile"

pytestmark = pytest.mark.board(BOARD)


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    requires_board(BOARD)
    folder = tmp_path_factory.mktemp("freertos")
    options = [f"BOARD={BOARD}", f"KERNEL={KERNEL}", f"BOARDPROF={command(folder)}"]
    shell(["make", "-j2", "-f", MAKEFILE, *options], folder)
    return folder / "firmware.elf"


def test_the_receive_interrupt_and_the_ring_bring_all_that_the_host_sends(image: Path) -> None:
    with connect(BOARD, image=image) as board:
        data = bytes(range(256)) * 16
        block = board.memory.alloc(len(data))
        board.memory.write(block, data)
        assert board.memory.read(block) == data


def test_stack_is_that_of_the_task_and_interrupts_are_masked_on_request(image: Path) -> None:
    values = np.arange(64, dtype=np.int32)
    with connect(BOARD, image=image) as board:
        report = board.profile("variance", values, 64, warmup=1, repeat=2, mask_interrupts=True)
        assert report.configuration[f"{BOARD} interrupts"] == "masked in each sample"
        assert [row["Stack (bytes)"].value for row in report.calls] == [8, 8]  # push {r4, r5}
        # Around 31.5, the variance of 0..63 is (64 * 64 - 1) / 12 = 341.25. Here it is around 31.
        assert board.functions.variance(values, 64) == 341


def test_without_a_kernel_the_makefile_says_what_to_give(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="KERNEL=/path/of/FreeRTOS-Kernel"):
        shell(["make", "-f", MAKEFILE, f"BOARDPROF={command(tmp_path)}"], tmp_path)


def test_a_board_that_the_example_does_not_know_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="BOARD=qemu-rv64 is not supported") as caught:
        shell(["make", "-f", MAKEFILE, "BOARD=qemu-rv64", f"KERNEL={KERNEL}"], tmp_path)
    assert "one of qemu-cortex-m3 qemu-cortex-m4 qemu-rv32" in str(caught.value)
