# SPDX-License-Identifier: Apache-2.0
"""The agent's receive path under libFuzzer and both sanitizers: the kept inputs, and a short run.

What must hold of every input is in tests/fuzz/fuzz_board.c: the agent sends whole frames and
nothing else, one answer a call, and runs none twice.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.fuzz.run import HARNESSES, Harness
from tests.support import requires_tool, run

pytestmark = pytest.mark.slow

RUNS = 10_000


@pytest.mark.parametrize("harness", HARNESSES, ids=lambda harness: harness.name)
def test_no_input_makes_the_agent_break_the_rules(harness: Harness, tmp_path: Path) -> None:
    cc = requires_tool("clang", "clang, with libclang-rt-dev")
    program = harness.build(cc)
    kept = [path for path in harness.corpus.iterdir() if path.is_file()]
    assert kept, "without kept inputs the run begins at nothing"
    run([*harness.command(program), f"-artifact_prefix={tmp_path}/", *kept])
    new = tmp_path / "new"
    new.mkdir()
    command = harness.command(program, new, harness.corpus, runs=RUNS, seed=1)
    said = run([*command, f"-artifact_prefix={tmp_path}/"])
    done = re.search(r"stat::number_of_executed_units: (\d+)", said)
    assert done is not None, said
    assert int(done[1]) >= RUNS
