# SPDX-License-Identifier: Apache-2.0
"""The tutorial's job for CI: its own lines, run as the runner does, on what a pull request brings.

A step runs if all before it went well, or ``if: always()``; ``bash -e`` runs it; what it writes to
``$GITHUB_STEP_SUMMARY`` is what people see (docs.github.com, Workflow syntax).
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.docs.page import blocks_of
from tests.support import ROOT, requires_tool

pytestmark = pytest.mark.slow

TUTORIAL = blocks_of((ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8"))
RULE = "fail-if 'instructions:max>0'"


@dataclass(frozen=True)
class Step:
    """One step of the job: a command, or an action to use, and whether it always runs."""

    run: str
    uses: str
    always: bool


def steps() -> list[Step]:
    (job,) = [block.text for block in TUTORIAL if block.language == "yaml"]
    _, _, listed = job.partition("    steps:\n")
    found = []
    for item in re.split(r"^      - ", listed, flags=re.MULTILINE)[1:]:
        keys = dict(line.strip().split(": ", 1) for line in item.splitlines() if line.strip())
        assert keys.keys() <= {"run", "uses", "if"}, keys
        assert keys.get("if", "always()") == "always()"
        found.append(Step(keys.get("run", ""), keys.get("uses", ""), "if" in keys))
    return found


@dataclass(frozen=True)
class Job:
    """What came of a job: the step that failed first, those after it that failed, the summary."""

    failed: str
    failed_again: list[str]
    summary: str


class PullRequest:
    """A project with the tutorial's files, whose baseline was made."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for block in TUTORIAL:
            if block.file in ("fir.c", "test_fir.py"):
                (folder / block.file).write_text(block.text)
        self.environment = {
            **os.environ,
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "PYTEST_ADDOPTS": "-p no:cacheprovider",
        }
        (measure,) = [
            command.removeprefix("$ ")
            for block in TUTORIAL
            for command in block.text.splitlines()
            if re.match(r"\$ pytest .* --bp-baseline baseline\.json --bp-update-baseline$", command)
        ][:1]
        assert self._run(measure, folder / "unseen") == 0

    def edit(self, old: str, new: str) -> None:
        """Change the C file."""
        text = (self.folder / "fir.c").read_text()
        assert old in text
        (self.folder / "fir.c").write_text(text.replace(old, new))

    def job(self) -> Job:
        """Run the job's steps that measure and report; the others need a network."""
        ours = [step for step in steps() if step.run.startswith(("pytest ", "boardprof "))]
        assert len(ours) >= 2
        failed: list[str] = []
        summary = ""
        for step in ours:
            if failed and not step.always:
                continue
            file = self.folder / "summary.md"
            file.write_text("")
            if self._run(step.run, file) != 0:
                failed.append(step.run)
            summary += file.read_text()
        return Job(next(iter(failed), ""), failed[1:], summary)

    def _run(self, command: str, summary: Path) -> int:
        done = subprocess.run(
            ["bash", "-e", "-c", command],
            cwd=self.folder,
            env={**self.environment, "GITHUB_STEP_SUMMARY": str(summary)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=100,
            check=False,
        )
        return done.returncode


@pytest.fixture
def pull_request(tmp_path: Path) -> PullRequest:
    requires_tool("qemu-system-riscv32", "qemu-system-misc")
    requires_tool("riscv64-unknown-elf-gcc", "gcc-riscv64-unknown-elf")
    return PullRequest(tmp_path)


def test_a_regression_fails_the_job_once_and_its_summary_says_so(
    pull_request: PullRequest,
) -> None:
    pull_request.edit("int32_t sum = 0", "int64_t sum = 0")
    job = pull_request.job()
    assert job.failed.startswith("pytest ")
    assert job.failed_again == []
    assert job.summary.startswith("### ❌ boardprof: 1 regression; ")
    assert " | **regression** " in job.summary


def test_what_stays_as_it_was_is_approved(pull_request: PullRequest) -> None:
    job = pull_request.job()
    assert (job.failed, job.failed_again) == ("", [])
    assert job.summary.startswith("### ✅ boardprof: no regression; ")


def test_what_could_not_be_measured_fails_the_job_once(pull_request: PullRequest) -> None:
    pull_request.edit("y[i] = sum;", "y[i] = sum")
    job = pull_request.job()
    assert job.failed.startswith("pytest ")
    assert (job.failed_again, job.summary) == ([], "")


def test_the_report_has_the_rule_of_the_gate() -> None:
    ours = [step.run for step in steps() if step.run.startswith(("pytest ", "boardprof "))]
    assert [RULE in run for run in ours] == [True] * len(ours)


def test_git_is_there_before_the_checkout() -> None:
    """Else the action fetches an archive (actions/checkout, README): there would be no commit."""
    order = [i for i, step in enumerate(steps()) if " git " in step.run or "checkout" in step.uses]
    assert [("checkout" in steps()[i].uses) for i in order] == [False, True]
