# SPDX-License-Identifier: Apache-2.0
"""The jobs of docs/ci.md: their own lines, as each service runs them, on what a change brings.

What installs packages needs a network and is left out. GitHub runs a step with ``bash -e``, GitLab
and Jenkins all lines of a script in one shell. A server on this machine takes the place of the
services' interfaces for comments, and a folder that of GitHub's artifacts.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from junitparser import JUnitXml

from tests.ci_service import JOB_TOKEN, NUMBER, USER_TOKEN, CiService, ci_service
from tests.docs.page import blocks_of
from tests.support import ROOT, requires_tool

pytestmark = pytest.mark.slow

PAGE = blocks_of((ROOT / "docs" / "ci.md").read_text(encoding="utf-8"))
FILES = {block.file: block.text for block in PAGE if block.file is not None}
INSTALLS = ("apt-get ", "python3 -m venv ", "echo /venv/bin ", "export PATH=")
CHANGE = "sum * 31u + i", "sum * 31u + i * i"


COMMIT = "1234567890abcdef1234567890abcdef12345678"


def workflow(name: str) -> Any:
    return yaml.safe_load(FILES[f".github/workflows/{name}.yml"])


def github() -> list[str]:
    return [step["run"] for step in workflow("cost")["jobs"]["cost"]["steps"] if "run" in step]


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
            "CI_PROJECT_DIR": str(folder),
        }
        self.measure("baseline.json")

    def measure(self, baseline: str) -> None:
        """Write a baseline with the page's command."""
        (command,) = [
            command.removeprefix("$ ")
            for block in PAGE
            for command in block.text.splitlines()
            if re.match(rf"\$ boardprof .* --baseline {baseline}$", command)
        ]
        assert self.run(command)[0] == 0

    def edit(self) -> None:
        text = (self.folder / "work.c").read_text()
        assert CHANGE[0] in text
        (self.folder / "work.c").write_text(text.replace(*CHANGE))

    def run(self, command: str, **environment: str) -> tuple[int, str]:
        done = subprocess.run(
            ["bash", "-e", "-c", command],
            cwd=self.folder,
            env={**self.environment, **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return done.returncode, done.stdout

    def job(self, commands: list[str], **environment: str) -> tuple[int, str]:
        """Run the commands that are not about packages; return the exit code and the output."""
        (ours,) = [command for command in commands if not command.startswith(INSTALLS)]
        return self.run(ours, **environment)

    def steps(self, job: Any, **context: str) -> tuple[int, str]:
        """Do the steps of a job of GitHub; return the first exit code that is not 0, and output.

        ``context`` has what expressions stand for. The environment is what it was before.
        """
        later = self.folder / "github_env"
        environment: dict[str, str] = {}
        code, printed = 0, ""
        for step in job["steps"]:
            if code and step.get("if") != "always()":
                continue
            if "uses" in step:
                self._use(step["uses"], step.get("with", {}), context)
            elif not step["run"].startswith(INSTALLS):
                own = {name: _filled(text, context) for name, text in step.get("env", {}).items()}
                later.write_text("")
                files = {"GITHUB_ENV": str(later)}
                command = _filled(step["run"], context)
                failed, told = self.run(command, **environment, **own, **files)
                code, printed = code or failed, printed + told
                lines = later.read_text().splitlines()
                environment |= dict(line.split("=", 1) for line in lines)
        return code, printed

    def _use(self, action: str, options: dict[str, str], context: dict[str, str]) -> None:
        """Do what an action does: keep a file or folder as an artifact, or take it."""
        kept = self.folder / "artifacts"
        name, path = (_filled(options.get(key, ""), context) for key in ("name", "path"))
        if action == "actions/upload-artifact@v4":
            source = self.folder / path
            (kept / name).mkdir(parents=True, exist_ok=True)
            for file in source.iterdir() if source.is_dir() else [source]:
                shutil.copy(file, kept / name)
        elif action == "actions/download-artifact@v4":
            assert name or options["merge-multiple"]
            if "run-id" in options:  # of another workflow
                assert options["run-id"] == "${{ github.event.workflow_run.id }}"
                assert options["github-token"] == "${{ github.token }}"
            (self.folder / path).mkdir(exist_ok=True)
            for folder in [kept / name] if name else kept.iterdir():
                for file in folder.iterdir():
                    shutil.copy(file, self.folder / path)
        else:
            assert action in ("actions/checkout@v4", "actions/cache@v4")


def _filled(text: str, context: dict[str, str]) -> str:
    return re.sub(r"\$\{\{ (.*?) \}\}", lambda found: context[found[1]], text)


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


@pytest.fixture
def service() -> Iterator[CiService]:
    with ci_service() as found:
        yield found


TOKEN = {"github.token": JOB_TOKEN}
RED = "<!-- boardprof: cost -->\n### ❌ boardprof: 1 output changed; 1 regression; "
GREEN = "<!-- boardprof: cost -->\n### ✅ boardprof: no regression; "


def test_github_marks_the_line_and_has_one_comment_that_turns_green(
    change: Change, service: CiService
) -> None:
    event = {"pull_request": service.pull(NUMBER, "lab", COMMIT)}
    change.environment |= service.github(event, change.folder / "event.json")
    job = workflow("cost")["jobs"]["cost"]
    change.edit()
    code, printed = change.steps(job, **TOKEN)
    assert code == 1
    # The change computes something else, too.
    assert printed.startswith("::error file=work.c,line=3,title=Output changed")
    assert "\n::error file=work.c,line=3,title=Regression" in printed
    [comment] = service.own
    assert comment.startswith(RED)
    assert "\nSource: `work` is `work.c:3`.\n" in comment
    (change.folder / "work.c").write_text(FILES["work.c"])
    assert change.steps(job, **TOKEN) == (
        0,
        "::notice title=boardprof::no regression; 2 metrics: 2 same.\n",
    )
    [comment] = service.own
    assert comment.startswith(GREEN)
    summary = (change.folder / "summary.md").read_text()
    assert "### ✅ boardprof: no regression" in summary
    assert "### ❌ boardprof: 1 output changed; 1 regression" in summary
    assert (change.folder / ".cache" / "boardprof" / "objects").is_dir()
    (cache,) = [step["with"] for step in job["steps"] if "cache" in step.get("uses", "")]
    assert cache["path"] == ".cache"
    assert workflow("cost")["permissions"] == {"contents": "read", "pull-requests": "write"}
    assert service.faults == []


def test_a_fork_s_job_has_no_secret_and_the_second_job_comments(
    change: Change, service: CiService
) -> None:
    pull = service.pull(NUMBER, "mallory", COMMIT)
    service.pulls = [service.pull(11, "lab", COMMIT), pull]
    measure, comment = workflow("measure"), workflow("comment")
    assert measure["permissions"] == {"contents": "read"}
    assert "token" not in FILES[".github/workflows/measure.yml"]
    assert comment[True]["workflow_run"]["workflows"] == [measure["name"]]  # YAML's on is true
    for red in (True, False):
        if red:
            change.edit()
        else:
            (change.folder / "work.c").write_text(FILES["work.c"])
        code, printed = change.steps(measure["jobs"]["measure"])
        assert (code, "::error file=work.c,line=3," in printed) == (int(red), red)
        (change.folder / "measured").rename(change.folder / f"measured-{red}")  # another machine
        event = service.run_event(pull)
        job = {**service.github(event, change.folder / "event.json")}
        before, change.environment = change.environment, {**change.environment, **job}
        assert change.steps(comment["jobs"]["comment"], **TOKEN)[0] == 0
        change.environment = before
        shutil.rmtree(change.folder / "measured")
        [written] = service.own
        assert written.startswith(RED if red else GREEN)
        assert ("\nSource: `work` is `work.c:3`.\n" in written) == red
    assert service.faults == []


def test_a_matrix_of_boards_has_one_comment_and_one_result(
    change: Change, service: CiService
) -> None:
    requires_tool("qemu-system-arm", "qemu-system-arm")
    requires_tool("arm-none-eabi-gcc", "gcc-arm-none-eabi")
    change.measure("boards.json")
    event = {"pull_request": service.pull(NUMBER, "lab", COMMIT)}
    change.environment |= service.github(event, change.folder / "event.json")
    jobs = workflow("boards")["jobs"]
    assert jobs["cost"]["needs"] == "measure"
    change.edit()
    boards = [each["board"] for each in jobs["measure"]["strategy"]["matrix"]["include"]]
    for board in boards:
        context = {"matrix.board": board, "matrix.packages": ""}
        assert change.steps(jobs["measure"], **context)[0] == 0
    code, printed = change.steps(jobs["cost"], **TOKEN)
    assert (code, printed.count("::error file=work.c,line=3,title=Output")) == (1, 2)
    [comment] = service.own
    assert comment.startswith("<!-- boardprof: cost -->\n### ❌ boardprof: 2 outputs changed; 1 ")
    assert all(f"`work(n=100) on {board}` | `instructions`" in comment for board in boards)
    # Without the Report of a board.
    shutil.rmtree(change.folder / "artifacts" / boards[1])
    (change.folder / "measured" / f"{boards[1]}.json").unlink()
    assert change.steps(jobs["cost"], **TOKEN)[0] == 1
    assert "; 1 row not judged, which fails (instructions of work); " in service.own[0]


def test_gitlab_gets_the_files_that_the_job_names_and_one_comment(
    change: Change, service: CiService
) -> None:
    job = yaml.safe_load(FILES[".gitlab-ci.yml"])["cost"]
    assert job["cache"]["paths"] == [".cache"]
    variables = {
        name: text.replace("$CI_PROJECT_DIR", str(change.folder))
        for name, text in job["variables"].items()
    }
    change.environment |= {**service.gitlab(), **variables, "GITLAB_TOKEN": USER_TOKEN}
    assert change.job(gitlab())[0] == 0
    assert (change.folder / ".cache" / "boardprof" / "objects").is_dir()
    assert service.own[0].startswith(GREEN)
    change.edit()
    assert change.job(gitlab())[0] == 1
    [comment] = service.own
    assert comment.startswith(RED)
    assert service.faults == []
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
