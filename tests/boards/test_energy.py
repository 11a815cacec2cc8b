# SPDX-License-Identifier: Apache-2.0
"""Energy per call of an emulated board with a marker, by ppk2lab's simulator of a PPK2."""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

from boardprof.base.errors import DeviceFaultError
from boardprof.base.metrics import Count
from boardprof.results.report.report import Report
from boardprof.target.descriptions.board import board_spec
from tests.boards import power_bench
from tests.boards.conftest import available
from tests.firmware import build
from tests.support import ROOT

SPIN = """\
#include <stdint.h>
void spin(uint32_t n) {
#ifdef TWICE
    n += n;
#endif
    __asm__ volatile("1: subs %0, #1\\n bne 1b" : "+r"(n) : : "cc");
}
void trap(void) { __asm__ volatile("udf #0"); }
"""
CALLS = 19_531
"""39,062 instructions of 256 ns are 10.0 ms: 1000 samples of the meter."""


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    available("qemu-cortex-m4")
    (tmp_path / "spin.c").write_text(SPIN)
    monkeypatch.setenv("WIRE", str(tmp_path / "wire"))
    return power_bench.add_board(tmp_path, tmp_path / "wire")


def column(report: Report, name: str) -> list[int]:
    return [each.value for row in report.calls if isinstance(each := row[name], Count)]


def test_joules_per_call_are_those_of_the_known_waveform(bench: Path) -> None:
    firmware = build(board_spec(str(bench)), [bench.parent / "spin.c"])
    with firmware.open() as board, power_bench.connect("bench", 1) as meter:
        one = board.profile("spin", CALLS, repeat=5, meter=meter)
        four = board.profile("spin", CALLS, repeat=2, number=4, meter=meter)
        with pytest.raises(DeviceFaultError):
            board.profile("trap", meter=meter)
        again = board.profile("spin", CALLS, repeat=2, meter=meter)
        short = board.profile("spin", 117, repeat=2, meter=meter)  # 60 us
    # 3 V x (4 ms x 12 mA + 6 ms x 4 mA), and 3 V x (4 ms x 12 mA + 36 ms x 4 mA) for four calls.
    # The agent's own part of a window, and an edge, are some samples of 120 nJ.
    for report, nanojoules, count in ((one, 216_000, 5), (four, 576_000, 2), (again, 216_000, 2)):
        assert column(report, "energy (nJ)") == [pytest.approx(nanojoules, abs=700)] * count
    found = re.fullmatch(
        "by simulated PPK2 at 3.000 V, nothing subtracted; "
        "spin ± (.*) nJ per call at most, in 5 of 5 windows",
        str(one.configuration["marked-m4 energy"]),
    )
    assert found is not None
    # 10 % of 216 uJ; 3 V x (50 uA x 4 ms + 5 uA x 6 ms) of resolution; a sample of 0.36 uJ.
    error = float(found[1].replace(",", ""))
    assert error == pytest.approx(21_600 + 690 + 360, abs=100)
    assert column(short, "instructions") == [235, 235]
    assert "energy (nJ)" not in short.calls.names
    assert str(short.configuration["marked-m4 energy"]).endswith(
        "; spin unknown, in 0 of 2 windows, 2 left out: it is shorter than 100 us"
    )


def test_the_marker_adds_no_instruction_to_the_count(bench: Path) -> None:
    counts = []
    for spec in (board_spec("qemu-cortex-m4"), board_spec(str(bench))):
        with build(spec, [bench.parent / "spin.c"]).open() as board:
            counts.append(column(board.profile("spin", CALLS, repeat=2), "instructions"))
    # The loop, and the return.
    assert counts == [[39_063, 39_063]] * 2


def test_the_command_shows_gates_and_keeps_energy_like_any_metric(bench: Path) -> None:
    folder = bench.parent
    (folder / "bench-1.0.dist-info").mkdir()
    (folder / "bench-1.0.dist-info" / "METADATA").write_text("Name: bench\nVersion: 1.0\n")
    (folder / "bench-1.0.dist-info" / "entry_points.txt").write_text(
        "[boardprof.meters]\nbench = tests.boards.power_bench:connect\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)])}

    def boardprof(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "boardprof", *words]
        return subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=100
        )

    run = ("run", "-q", "-b", "./marked-m4", "spin.c:spin", f"n={CALLS}", "--energy", "bench")
    first = boardprof(*run, "--repeat", "5", "--json", "before.json", "--export", "csv=before.csv")
    assert first.returncode == 0, first.stderr
    assert re.search(r"39,063 instructions \(exact\), 216,[0-6]\d\d ± [\d,.]+ nJ ", first.stdout)
    assert "marked-m4 energy: by simulated PPK2 at 3.000 V" in first.stdout
    assert "energy (nJ)" in (folder / "before.csv").read_text()
    found = json.loads((folder / "before.json").read_text())["boardprof"]["measurements"][0]
    assert found["energy"]["meter"] == "simulated PPK2 at 3.000 V"
    assert statistics.median(found["energy"]["nanojoules"]) == pytest.approx(216_000, abs=700)

    # Twice as many rounds: 3 V x (4 ms x 12 mA + 16 ms x 4 mA) are 336 uJ.
    gate = ("--against", "before.json", "--allow", "compiler", "--fail-if", "energy>50%")
    more = boardprof(*run, "--repeat", "5", "-D", "TWICE", *gate)
    assert more.returncode == 1, more.stdout + more.stderr
    assert re.search(r"energy \(nJ\) .* \+55\.\d+ % .* REGRESSION", more.stdout), more.stdout
