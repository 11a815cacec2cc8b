# SPDX-License-Identifier: Apache-2.0
"""Examples that need packages of others: nevergrad, kernel_tuner and emx-onnx-cgen."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ROOT

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(3000)]

PACKAGES = ["nevergrad==1.0.12", "kernel_tuner==1.5.0", "onnx==1.23.2", "emx-onnx-cgen==1.4.0"]
FIRST = 237_804
"""Instructions of the kernel with the first alternatives, as docs/tuning.md has them."""


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of a Python that has them all, from the package registry."""
    folder = tmp_path_factory.mktemp("tuners")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True, timeout=300)
    install = [folder / "bin" / "pip", "install", "-q", f"{ROOT}[tune]", *PACKAGES]
    subprocess.run(install, check=True, timeout=1200)
    return folder / "bin"


def said(tools: Path, example: str, folder: Path = ROOT) -> str:
    done = subprocess.run(
        [tools / "python", ROOT / "examples" / example],
        cwd=folder,
        env={**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"},
        check=False,
        timeout=1200,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def best(line: str) -> int:
    return int(line.partition(": ")[2].split()[0].replace(",", ""))


def test_nevergrad_finds_a_better_candidate(tools: Path) -> None:
    first, found = said(tools, "tuning/nevergrad_search.py").splitlines()
    assert best(first) == FIRST
    assert best(found) < FIRST / 1.5


def test_kernel_tuner_tries_every_candidate_on_the_board(tools: Path) -> None:
    (found,) = said(tools, "tuning/kernel_tuner_search.py").splitlines()
    assert found.startswith("Best of 48: ")
    assert best(found) == 157_244  # what `boardprof tune --sampler grid` finds in docs/tuning.md


def test_a_network_from_onnx_has_the_right_output_and_a_cost_for_each_node(
    tools: Path, tmp_path: Path
) -> None:
    """The example itself compares the output with that of ONNX's own evaluator."""
    output, *nodes = said(tools, "onnx/network.py", tmp_path).splitlines()
    assert output.endswith("[0, 0, 0, 0, 4, 12, 1, 0, 0, 0]")
    assert [line.split()[-1] for line in nodes] == ["node0_conv", "node1_flatten", "node2_dense"]
