# SPDX-License-Identifier: Apache-2.0
"""The tables of names and arguments in the pages for users of TVM and torch."""

from __future__ import annotations

import ast
import inspect
import json
import re
import textwrap
from collections.abc import Callable
from enum import Enum, EnumMeta
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import boardprof
from boardprof.base.errors import UsageError
from tests.support import ROOT

TORCH = {
    "_KinetoProfile": "",
    "profile": "activities schedule on_trace_ready record_shapes profile_memory with_stack "
    "with_flops with_modules experimental_config use_cuda",
    "profile.add_metadata": "key value",
    "profile.add_metadata_json": "key value",
    "profile.events": "",
    "profile.export_chrome_trace": "path",
    "profile.export_memory_timeline": "path device",
    "profile.export_stacks": "path metric",
    "profile.key_averages": "group_by_input_shape group_by_stack_n",
    "profile.step": "",
    "ProfilerAction": "value",
    "ProfilerActivity.CPU": "",
    "ProfilerActivity.CUDA": "",
    "ProfilerActivity.XPU": "",
    "ProfilerActivity.MTIA": "",
    "ProfilerActivity.name": "",
    "schedule": "wait warmup active repeat skip_first",
    "tensorboard_trace_handler": "dir_name worker_name use_gzip",
    "itt.is_available": "",
    "itt.mark": "msg",
    "itt.range_push": "msg",
    "itt.range_pop": "",
}
"""Of the page on torch.profiler of version 2.3."""

TVM = {
    "Report": "calls device_metrics configuration",
    "Report.csv": "",
    "Report.table": "sort aggregate col_sums",
    "Report.json": "",
    "Report.from_json": "s",
    "Count": "count",
    "Duration": "duration",
    "Percent": "percent",
    "Ratio": "ratio",
    "DeviceWrapper": "dev",
    "MetricCollector.Init": "devs",
    "MetricCollector.Start": "dev",
    "MetricCollector.Stop": "obj",
    "PAPIMetricCollector": "metric_names",
    "profile_function": "mod dev collectors func_name warmup_iters",
    "VirtualMachineProfiler": "exe dev",
    "Program.profile": "data collectors func_name",
    "time_evaluator": "func_name dev number repeat min_repeat_ms limit_zero_time_iterations "
    "cooldown_interval_ms repeats_to_cooldown cache_flush_bytes f_preproc",
}
"""Of the page on tvm.runtime.profiling, and of the examples with PAPI and with a time evaluator."""

_ROW = re.compile(r"\| `([\w.]+)` \| (?:`(\w+)`)? ?\| (.+) \|")

Row = tuple[str, str, str]


def rows_of(page: str) -> list[Row]:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    table = text.partition("## Every name and argument")[2].split("\n| name |")[1]
    lines = [line for line in table.splitlines()[2:] if line.startswith("|")]
    found = [_ROW.fullmatch(line) for line in lines]
    assert None not in found, [line for line, row in zip(lines, found, strict=True) if not row]
    return [(row[1], row[2] or "", row[3]) for row in found if row is not None]


ROWS = [*rows_of("from-torch.md"), *rows_of("from-tvm.md")]


def ours(name: str) -> Any:
    member = name.replace("ProfilerActivity.name", "ProfilerActivity.CPU.name")
    return reduce(getattr, member.split("."), boardprof)


@pytest.mark.parametrize(("page", "documented"), [("from-torch.md", TORCH), ("from-tvm.md", TVM)])
def test_each_documented_name_and_argument_has_a_row(page: str, documented: dict[str, str]) -> None:
    wanted = [(name, each) for name, every in documented.items() for each in every.split() or [""]]
    assert [row[:2] for row in rows_of(page)] == wanted


@pytest.mark.parametrize(("name", "argument", "verdict"), ROWS)
def test_a_row_is_right_about_the_signature(name: str, argument: str, verdict: str) -> None:
    assert re.fullmatch(r"same|differs: .+|refused: .+", verdict)
    is_refused = verdict.startswith("refused")
    try:
        found = ours(name)
    except AttributeError:
        assert is_refused
        return
    if not argument:
        assert not is_refused
        return
    renamed = re.search(r"its name is `(\w+)`", verdict)
    called = type(found).__call__ if isinstance(found, EnumMeta) else found
    known = inspect.signature(called).parameters
    if is_refused and argument in known:
        with pytest.raises(UsageError, match=argument):
            found(None, "f", **{argument: 1})
    else:
        assert ((renamed[1] if renamed else argument) in known) is not is_refused


def parameters_and_uses(function: Callable[..., object]) -> tuple[set[str], set[str]]:
    """Return the parameters of a function, and the names that its body reads."""
    (node,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    assert isinstance(node, ast.FunctionDef)
    read = {
        each.id
        for part in node.body
        for each in ast.walk(part)
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)
    }
    args = node.args
    every = [*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg]
    return {each.arg for each in every if each is not None} - {"self", "cls"}, read


def functions() -> dict[str, Callable[..., object]]:
    """Return what a name of a row calls. Users write the methods of MetricCollector."""
    found = {}
    for name in {row[0] for row in ROWS if row[1] and not row[0].startswith("MetricCollector.")}:
        try:
            each = ours(name)
        except AttributeError:
            continue
        function = each.__init__ if inspect.isclass(each) else each
        is_enum = inspect.isclass(each) and issubclass(each, Enum)
        if (
            inspect.isroutine(function)
            and not is_enum
            and "<string>" not in function.__code__.co_filename
        ):
            found[name] = function
    return found


def test_no_argument_is_accepted_and_not_read() -> None:
    read = functions()
    assert {"profile", "schedule", "profile_function", "time_evaluator", "Report.table"} <= {*read}
    ignored = []
    for name, function in read.items():
        parameters, uses = parameters_and_uses(function)
        ignored += [f"{name}({each})" for each in parameters - uses]
    assert ignored == []


SOURCE = """\
#include "boardprof/bp_trace.h"
static uint8_t heap[8];
int add(const int *x, int n) {
    BP_RANGE(inner);
    BP_ALLOC(heap, 8);
    BP_FREE(heap);
    return x[0] + n;
}
"""


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Any:
    source = tmp_path_factory.mktemp("add") / "add.c"
    source.write_text(SOURCE)
    boardprof.register_flops("add")(lambda shapes, args: 1)
    with boardprof.build(source, board="native").open() as opened:
        yield opened
    boardprof.flops.unregister_flops("add")


def facts(board: Any, folder: Path, **options: Any) -> dict[str, object]:
    """Return what a profile of two steps has."""
    ready: list[int] = []
    calls = lambda prof: ready.append(prof.step_num)  # noqa: E731
    if options.pop("on_trace_ready", False):
        options["on_trace_ready"] = calls
    with boardprof.profile(**options) as prof:
        for _ in range(2):
            with boardprof.record_function("around"):
                board.functions.add(np.ones(4, np.int32), 2)
            prof.step()
    prof.export_chrome_trace(folder / "trace.json")
    entries = json.loads((folder / "trace.json").read_text())["traceEvents"]
    events = prof.events()
    return {
        "activities": {each.kind for each in events},
        "schedule": len(events),
        "on_trace_ready": ready,
        "record_shapes": {each.input_shapes for each in events},
        "profile_memory": {each.device_memory_usage for each in events},
        "with_stack": {each.source for each in events},
        "with_flops": {each.flops for each in events},
        "with_modules": {each.get("args", {}).get("Module Hierarchy") for each in entries},
        "experimental_config": {name for each in events for name in each.metrics},
    }


CHANGED: dict[str, tuple[Any, object]] = {
    "activities": ([boardprof.ProfilerActivity.BOARD], {"call"}),
    "schedule": (boardprof.schedule(wait=0, warmup=1, active=1, repeat=1), 3),
    "on_trace_ready": (True, [2]),
    "record_shapes": (True, {None, "x=int32[4], n=2"}),
    "profile_memory": (True, {0}),
    "with_stack": (True, {"", "add.c:3"}),
    "with_flops": (True, {None, 1}),
    "with_modules": (True, {None, "", "around"}),
    "experimental_config": ({"metrics": ["duration"]}, {"Duration (us)"}),
}


def test_each_argument_of_a_profile_changes_what_it_has(board: Any, tmp_path: Path) -> None:
    assert {*CHANGED} == {*TORCH["profile"].split()} - {"use_cuda"}
    plain = facts(board, tmp_path)
    for name, (value, expected) in CHANGED.items():
        found = facts(board, tmp_path, **{name: value})[name]
        assert found == expected, name
        assert found != plain[name], name
