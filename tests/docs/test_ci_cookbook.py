# SPDX-License-Identifier: Apache-2.0
"""The jobs of docs/ci.md: their own lines, as each service runs them, on what a change brings.

What installs packages needs a network and is left out. GitHub runs a step with ``bash -e``, GitLab
and Jenkins all lines of a script in one shell.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from junitparser import JUnitXml

from tests.docs.page import blocks_of
from tests.support import ROOT, requires_tool

pytestmark = pytest.mark.slow

PAGE = blocks_of((ROOT / "docs" / "ci.md").read_text(encoding="utf-8"))
FILES = {block.file: block.text for block in PAGE if block.file is not None}
INSTALLS = ("apt-get ", "python3 -m venv ", "echo /venv/bin ", "export PATH=")
CHANGE = "sum * 31u + i", "sum * 31u + i * i"


def github() -> list[str]:
    steps = yaml.safe_load(FILES[".github/workflows/cost.yml"])["jobs"]["cost"]["steps"]
    return [step["run"] for step in steps if "run" in step]


def gitlab() -> list[str]:
    job = yaml.safe_load(FILES[".gitlab-ci.yml"])["cost"]
    assert job["artifacts"]["when"] == "always"
    return list(job["script"])


def jenkins() -> list[str]:
    (script,) = re.findall(r"sh '''\n(.*?)'''", FILES["Jenkinsfile"], re.DOTALL)
    return [x.strip() for x in script.replace("\\\n", " ").splitlines() if x.strip()]


class Change:
    """A checkout of the project on a CI machine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "work.c").write_text(FILES["work.c"])
        self.environment = {
            **{n: text for n, text in os.environ.items() if n != "BOARDPROF_HISTORY"},
            "CI": "true",
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "XDG_DATA_HOME": str(folder / "data"),
            "GITHUB_STEP_SUMMARY": str(folder / "summary.md"),
        }
        (baseline,) = [
            command.removeprefix("$ ")
            for block in PAGE
            for command in block.text.splitlines()
            if re.match(r"\$ boardprof .* --baseline baseline\.json$", command)
        ]
        assert self.run(baseline)[0] == 0

    def edit(self) -> None:
        text = (self.folder / "work.c").read_text()
        assert CHANGE[0] in text
        (self.folder / "work.c").write_text(text.replace(*CHANGE))

    def run(self, command: str) -> tuple[int, str]:
        done = subprocess.run(
            ["bash", "-e", "-c", command],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return done.returncode, done.stdout

    def job(self, commands: list[str]) -> tuple[int, str]:
        """Run the commands that are not about packages; return the exit code and the output."""
        (ours,) = [command for command in commands if not command.startswith(INSTALLS)]
        return self.run(ours)


@pytest.fixture
def change(tmp_path: Path) -> Change:
    requires_tool("qemu-system-riscv32", "qemu-system-misc")
    requires_tool("riscv64-unknown-elf-gcc", "gcc-riscv64-unknown-elf")
    return Change(tmp_path)


@pytest.mark.parametrize("commands", [github, gitlab, jenkins])
def test_each_job_installs_what_it_uses(commands: Callable[[], list[str]]) -> None:
    installed = next(each for each in commands() if each.startswith("apt-get "))
    known = (ROOT / "scripts" / "packages.sh").read_text(encoding="utf-8")
    packages = installed.partition("install -y ")[2].split()
    assert {"git", "qemu-system-misc", "gcc-riscv64-unknown-elf"} <= set(packages)
    assert [name for name in packages if f"{name}:" not in known and name != "python3-venv"] == []


def test_github_marks_the_line_and_fails_the_step(change: Change) -> None:
    assert change.job(github()) == (
        0,
        "::notice title=boardprof::no regression; 2 metrics: 2 same.\n",
    )
    change.edit()
    code, printed = change.job(github())
    assert code == 1
    # The change computes something else, too.
    assert printed.startswith("::error file=work.c,line=3,title=Output changed")
    assert "\n::error file=work.c,line=3,title=Regression" in printed
    summary = (change.folder / "summary.md").read_text()
    assert "### ✅ boardprof: no regression" in summary
    assert "### ❌ boardprof: 1 output changed; 1 regression" in summary


def test_gitlab_gets_the_files_that_the_job_names(change: Change) -> None:
    assert change.job(gitlab())[0] == 0
    change.edit()
    assert change.job(gitlab())[0] == 1
    reports = yaml.safe_load(FILES[".gitlab-ci.yml"])["cost"]["artifacts"]["reports"]
    issues = json.loads((change.folder / reports["codequality"]).read_text())
    place = {"path": "work.c", "lines": {"begin": 3}}
    assert [issue["location"] for issue in issues] == [place, place]  # the output, and the cost
    assert JUnitXml.fromfile(str(change.folder / reports["junit"])).failures == 2
    assert " 605\n" in (change.folder / reports["metrics"]).read_text()


def test_jenkins_gets_the_tests_that_the_job_names(change: Change) -> None:
    change.edit()
    assert change.job(jenkins())[0] == 1
    (file,) = re.findall(r"junit '(.*)'", FILES["Jenkinsfile"])
    found = JUnitXml.fromfile(str(change.folder / file))
    assert (found.tests, found.failures) == (3, 2)


def test_a_board_that_is_not_there_only_warns(change: Change) -> None:
    (lab,) = [yaml.safe_load(block.text) for block in PAGE if "on-the-board:" in block.text]
    (command,) = lab["on-the-board"]["script"]
    (change.folder / "baseline.json").rename(change.folder / "board.json")
    command = command.replace("/dev/ttyACM0", str(change.folder / "unplugged"))
    # The tool that flashes is looked for first, and need not be on the machine of the tests.
    code, _ = change.run(command.replace(" --flash ", " "))
    assert code == 3
    assert code in lab["on-the-board"]["allow_failure"]["exit_codes"]
