# SPDX-License-Identifier: Apache-2.0
"""What is promised of each board that comes with boardprof, by name."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from boardprof.base.metrics import Count, Duration
from boardprof.measure.connect import connect
from boardprof.target.descriptions.board import board_spec
from tests.boards.conftest import WORKLOADS, available
from tests.firmware import build

PAGES = 64

TOUCH_PAGES = f"""
#include <stddef.h>
#include <sys/mman.h>
enum {{ PAGE = 4096, PAGES = {PAGES} }};
static unsigned char *memory;
void touch_setup(void);
void touch(void);
void touch_setup(void) {{
    if (memory != NULL) {{
        munmap(memory, (size_t)PAGE * PAGES);
    }}
    memory = mmap(NULL, (size_t)PAGE * PAGES, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(memory, (size_t)PAGE * PAGES, MADV_NOHUGEPAGE);
}}
void touch(void) {{
    for (size_t i = 0; i < PAGES; i++) {{
        ((volatile unsigned char *)memory)[i * PAGE] = 1;
    }}
}}
"""


def test_qemu_rv32_has_instructions_and_says_why_it_has_no_cycles() -> None:
    spec = available("qemu-rv32")
    with connect(spec, image=build(spec, [WORKLOADS / "crc32.c"]).image) as board:
        assert board.device.unsupported == {
            "cycles": "QEMU has no cycle model: mcycle counts instructions"
        }
        report = board.profile("crc32", repeat=2)
    assert isinstance(report.calls[0]["instructions"], Count)
    assert "simulated" in str(report.configuration["qemu-rv32 clock"])
    assert "no cycle model" in str(report.configuration["qemu-rv32 unsupported"])


def test_qemu_cortex_m3_shows_instructions_and_lists_the_cycle_counter_as_unsupported() -> None:
    spec = available("qemu-cortex-m3")
    with connect(spec, image=build(spec, [WORKLOADS / "crc32.c"]).image) as board:
        report = board.profile("crc32", repeat=2)
    (row, _) = report.calls
    assert isinstance(row["ticks"], Count)
    assert row["ticks"].value > 0
    assert "cycles" not in row
    assert row["instructions"] == Count(28_682)  # as the recorder counts, and QEMU's plugin
    assert "Duration (us)" not in row
    assert "simulated" in str(report.configuration["qemu-cortex-m3 clock"])
    unsupported = str(report.configuration["qemu-cortex-m3 unsupported"])
    assert "cycles" in unsupported
    assert "DWT" in unsupported
    assert "does not advance" in unsupported


@pytest.mark.parametrize("name", ["native", "linux"])
def test_page_faults_are_one_for_each_page_that_is_touched_first(name: str, tmp_path: Path) -> None:
    source = tmp_path / "touch.c"
    source.write_text(TOUCH_PAGES)
    spec = available(name)
    with connect(spec, image=build(spec, [source]).image) as board:
        reason = board.device.unsupported.get("page-faults")
        if reason is not None:
            pytest.skip(f"the kernel refuses page-faults: {reason}")
        report = board.profile("touch", warmup=1, repeat=5)
    assert [row["page-faults"] for row in report.calls] == [Count(PAGES)] * 5


@pytest.mark.parametrize("name", ["native", "linux"])
def test_a_sleep_takes_wall_time_and_no_cpu_time(name: str, tmp_path: Path) -> None:
    source = tmp_path / "nap.c"
    source.write_text(
        "#include <time.h>\nvoid nap(void);\nvoid nap(void) {"
        " struct timespec t = {0, 20000000}; nanosleep(&t, (struct timespec *)0); }\n"
    )
    spec = available(name)
    with connect(spec, image=build(spec, [source]).image) as board:
        (row,) = board.profile("nap", warmup=0, repeat=1).calls
    wall, cpu = row["Duration (us)"], row["task-clock (us)"]
    assert isinstance(wall, Duration)
    assert isinstance(cpu, Duration)
    assert wall.microseconds >= 20000.0
    assert cpu.microseconds < 10000.0


REFUSED = """
import os, resource
from boardprof.target.descriptions.board import board_spec
from tests.firmware import build
from boardprof.measure.connect import connect

spec = board_spec("native")
board = connect(spec, image=build(spec).image)
init = board.dictionary.function("faults.init").id
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
board.session.call(init)
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
PAGE_FAULTS = bytes([3, 0])  # bp.describe: section 3, counter 0
name, *_, status, error = board.session.call(0, PAGE_FAULTS, 2).value
board.close()
print(name, status, os.strerror(error))
"""


def test_a_counter_that_the_kernel_refuses_is_unsupported_with_the_kernels_reason() -> None:
    """perf_event_open(2) fails for real: the process may have no more file descriptors."""
    done = subprocess.run(
        [sys.executable, "-c", REFUSED], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stderr == ""
    assert done.stdout == "page-faults 3 Too many open files\n"  # 3: CounterStatus.REFUSED


def test_a_second_thread_waits_and_is_not_given_the_first_ones_answer(tmp_path: Path) -> None:
    source = tmp_path / "meet.c"
    source.write_text(
        "#include <unistd.h>\nint meet(int tells, int hears);\nint meet(int tells, int hears) {"
        ' char c = 0; return write(tells, "!", 1) == 1 && read(hears, &c, 1) == 1 ? c : -1; }\n'
    )
    spec = available("native")
    with connect(spec, image=build(spec, [source]).image) as board:
        (ears, tells), (hears, mouth) = pipes = os.pipe(), os.pipe()
        meet = board.functions.meet
        thread = threading.Thread(target=meet, args=(tells, hears))
        thread.start()
        assert os.read(ears, 1) == b"!"  # it is within the call
        answers: list[object] = []
        second = threading.Thread(target=lambda: answers.append(meet(tells, hears)))
        second.start()
        second.join(0.2)
        assert answers == []
        os.write(mouth, b"a")
        thread.join(30)
        os.write(mouth, b"b")
        second.join(30)
        assert answers == [ord("b")]
    for end in (*pipes[0], *pipes[1]):
        os.close(end)


def test_exactly_one_board_is_the_default() -> None:
    assert board_spec("native").default
