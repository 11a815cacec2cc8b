# SPDX-License-Identifier: Apache-2.0
"""What TensorBoard's plugin finds in the files of a profile, by the plugin's own parser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch_tb_profiler import consts
from torch_tb_profiler.profiler.data import RunProfileData
from torch_tb_profiler.profiler.run_generator import RunGenerator

from boardprof.compat.torch.export import tensorboard_trace_handler
from boardprof.compat.torch.host_events import record_function
from boardprof.compat.torch.profiler import profile
from boardprof.compat.torch.settings import schedule
from boardprof.measure.board.board import Board
from tests.boards.conftest import available
from tests.firmware import build

PROBES = Path(__file__).parent / "fixtures" / "probes" / "network.c"
DOT = "int dot(const short *x, const short *y, int n) {\n" + (
    "    int sum = 0;\n    for (int i = 0; i < n; i++) sum += x[i] * y[i];\n    return sum;\n}\n"
)


def parsed(folder: Path) -> Any:
    """Read the only file of a folder as the plugin does, and make all of its views."""
    (file,) = folder.iterdir()
    worker = consts.WORKER_PATTERN.match(file.name)
    assert worker is not None
    data = RunProfileData.parse(worker[1], 1, str(file), str(folder))
    return data, RunGenerator(worker[1], 1, data).generate_run_profile()


def opened(name: str, folder: Path) -> Board:
    source = folder / "dot.c"
    source.write_text(DOT)
    return build(available(name), [source, PROBES]).open()


@pytest.mark.parametrize("use_gzip", [False, True])
def test_the_plugin_has_the_steps_the_operators_and_their_shapes(
    tmp_path: Path, use_gzip: bool
) -> None:
    x = np.arange(16, dtype=np.int16)
    ready = tensorboard_trace_handler(tmp_path / "log", "worker", use_gzip)
    steps = schedule(wait=1, warmup=1, active=2, repeat=1)
    with (
        opened("native", tmp_path) as board,
        profile(schedule=steps, on_trace_ready=ready, record_shapes=True, with_stack=True) as prof,
    ):
        for _ in range(5):
            with record_function("layer"):
                board.functions.dot(x, x, 16)
                board.profile("dot", x, x, 16, repeat=2)
            prof.step()
    data, run = parsed(tmp_path / "log")
    assert data.steps_names == ["2", "3"]
    found = {op.name: (op.calls, op.input_shape) for op in data.op_list_groupby_name_input}
    assert found == {
        "dot": (2, "[[16], [16], []]"),
        "profile(dot)": (2, "[[16], [16], []]"),
    }
    assert [view.display_name for view in run.views] == ["Overview", "Operator", "Trace"]
    (dot,) = [op for op in data.op_list_groupby_name if op.name == "dot"]
    assert dot.callstacks == {"dot.c:1 (dot);layer;ProfilerStep*"}


def test_the_plugin_has_the_memory_of_each_board_by_operator(tmp_path: Path) -> None:
    ready = tensorboard_trace_handler(tmp_path / "log", "worker")
    with (
        opened("native", tmp_path) as one,
        opened("linux", tmp_path) as other,
        profile(on_trace_ready=ready, profile_memory=True),
    ):
        one.functions.take()
        other.functions.take()
        one.functions.give_back()
    data, run = parsed(tmp_path / "log")
    memory = data.memory_snapshot
    assert memory.get_peak_memory() == {(1, 0): 128, (1, 1): 128}
    # More bytes, bytes taken, and how often; then the same with nested operators; and the calls.
    assert memory.get_memory_statistics(data.tid2tree) == {
        "GPU0": {
            "take": [28, 128, 2, 28, 128, 2, 2],
            "give_back": [-28, 0, 0, -28, 0, 0, 1],
        },
        "GPU1": {"take": [28, 128, 2, 28, 128, 2, 2]},
    }
    assert [view.display_name for view in run.views][-1] == "Memory"
    curve = run.get_memory_curve(memory_metric="B", patch_for_step_plot=False)
    assert curve["metadata"]["devices"] == ["GPU0", "GPU1"]
    assert [row[1] for row in curve["rows"]["GPU0"]] == [100, 128, 28, 0]
    assert [row[1] for row in curve["rows"]["GPU1"]] == [100, 128, 28]
    assert run.get_memory_events(memory_metric="B")["rows"].keys() == {"GPU0", "GPU1"}
