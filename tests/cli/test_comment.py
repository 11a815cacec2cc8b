# SPDX-License-Identifier: Apache-2.0
"""``--comment``: one comment for each name, which is updated, on GitHub and GitLab."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from boardprof.results.report.join import Part, joined
from boardprof.results.report.report_file import write_report
from boardprof.ui.cli import main
from tests.ci_service import (
    BOT,
    JOB_TOKEN,
    NUMBER,
    OTHER,
    PROJECT,
    USER_TOKEN,
    CiService,
    ci_service,
)
from tests.unit.reports import report_of

Compare = Callable[..., int]
COMMIT = "1234567890abcdef1234567890abcdef12345678"


@pytest.fixture
def service() -> Iterator[CiService]:
    with ci_service() as found:
        yield found


@pytest.fixture
def compare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Compare:
    """Compare 100 instructions with a number of them, as a gate and with a comment."""
    monkeypatch.setattr("boardprof.ui.cli.comment._RETRIES_S", (0.0, 0.0))
    for name in ("GITHUB_ACTIONS", "GITLAB_CI", "GITHUB_TOKEN", "GITLAB_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    write_report(report_of({"instructions": [100]}), str(tmp_path / "before.json"))

    def run(after: int, environment: dict[str, str]) -> int:
        write_report(report_of({"instructions": [after]}), str(tmp_path / "after.json"))
        with monkeypatch.context() as job:
            for name, text in environment.items():
                job.setenv(name, text)
            files = [str(tmp_path / f"{side}.json") for side in ("before", "after")]
            gate = ["--fail-if", "instructions:max>0", "--comment", "cost"]
            return main(["compare", *files, *gate])

    return run


def github(service: CiService, folder: Path, **event: Any) -> dict[str, str]:
    facts = event or {"pull_request": service.pull(NUMBER, "lab", COMMIT)}
    return {**service.github(facts, folder / "event.json"), "GITHUB_TOKEN": JOB_TOKEN}


def gitlab(service: CiService, _: Path) -> dict[str, str]:
    return {**service.gitlab(), "GITLAB_TOKEN": USER_TOKEN}


@pytest.mark.parametrize("job", [github, gitlab])
def test_a_comment_is_added_once_and_then_updated(
    service: CiService, compare: Compare, job: Callable[..., dict[str, str]], tmp_path: Path
) -> None:
    for number in range(250):
        service.add(OTHER, f"Comment {number}")
    forged = service.add(OTHER, "<!-- boardprof: cost -->\n### ✅ boardprof: trust me")
    environment = job(service, tmp_path)
    assert compare(101, environment) == 1
    assert len(service.own) == 1
    assert service.own[0].startswith(
        "<!-- boardprof: cost -->\n### ❌ boardprof: 1 regression; 1 metric: 1 worse."
    )
    assert "| 100 | 101 | +1.00 % |" in service.own[0]
    assert ("1234567890ab" if job is github else "c0ffeec0ffee") in service.own[0]
    assert ("/actions/runs/77)" if job is github else "/-/jobs/5)") in service.own[0]
    service.add(OTHER, "Thanks")
    assert compare(100, environment) == 0
    assert len(service.own) == 1
    assert "### ✅ boardprof: no regression; 1 metric: 1 same." in service.own[0]
    assert forged["body"] == "<!-- boardprof: cost -->\n### ✅ boardprof: trust me"
    methods = [line.split()[0] for line in service.asked]
    assert [each for each in methods if each != "GET"] == [
        "POST",
        "PATCH" if job is github else "PUT",
    ]
    assert service.faults == []


def test_a_token_of_a_person_updates_the_comments_of_this_person(
    service: CiService, compare: Compare, tmp_path: Path
) -> None:
    service.add(BOT, "<!-- boardprof: cost -->\nof the job's token")
    environment = {**github(service, tmp_path), "GITHUB_TOKEN": f"{USER_TOKEN}\n"}
    assert [compare(100, environment), compare(100, environment)] == [0, 0]
    assert len(service.own) == 2


def test_a_fork_s_job_writes_nothing_and_the_second_job_finds_the_pull_request(
    service: CiService, compare: Compare, tmp_path: Path, capfd: Any
) -> None:
    pull = service.pull(NUMBER, "mallory", COMMIT)
    service.pulls = [
        service.pull(11, "ada", COMMIT),
        {**service.pull(10, "mallory", COMMIT), "state": "closed"},
        pull,
    ]
    first = {**github(service, tmp_path, pull_request=pull), "GITHUB_TOKEN": ""}
    assert compare(101, first) == 1
    assert "the pull request is from a fork, whose jobs may only read" in capfd.readouterr().err
    assert service.asked == []
    second = github(service, tmp_path, **service.run_event(pull))
    assert compare(101, second) == 1
    assert len(service.own) == 1
    # A newer commit is not what was measured.
    pull["head"]["sha"] = "fedcba" * 7
    assert compare(100, second) == 0
    assert "1234567890ab is the newest one of 0 open pull requests" in capfd.readouterr().err
    assert "❌" in service.own[0]


@pytest.mark.parametrize(
    ("environment", "told"),
    [
        ({}, "this is not a job of GitHub Actions or GitLab CI"),
        ({"GITLAB_CI": "true"}, "this job is not for a merge request"),
        ({"push": ""}, "this job is not for a pull request"),
        ({"fork": ""}, "the pipeline is the fork's own"),
    ],
)
def test_a_job_without_a_pull_request_only_says_so(
    service: CiService,
    compare: Compare,
    tmp_path: Path,
    capfd: Any,
    environment: dict[str, str],
    told: str,
) -> None:
    if "push" in environment:
        environment = github(service, tmp_path, ref="refs/heads/main")
    if "fork" in environment:
        environment = service.gitlab(project=PROJECT + 1)
    assert compare(100, environment) == 0
    assert f"warning: no comment was written: {told}" in capfd.readouterr().err


def test_errors_name_what_to_do_and_never_the_token(
    service: CiService, compare: Compare, tmp_path: Path, capfd: Any
) -> None:
    environment = github(service, tmp_path)
    wrong = {**environment, "GITHUB_TOKEN": "ghp_wrong"}
    elsewhere = {**environment, "GITHUB_REPOSITORY": "lab/other"}
    elsewhere["GITHUB_EVENT_PATH"] = str(tmp_path / "other.json")
    head = {"sha": COMMIT, "repo": {"full_name": "lab/other"}}
    service.github({"pull_request": {"number": 3, "head": head}}, tmp_path / "other.json")
    service.is_read_only = True
    cases = [
        (wrong, "GET {url}/user was answered with 401", "a new token"),
        (environment, "POST {url}/repos/lab/filter/issues/12/comments was answered with 403", ""),
        (elsewhere, "GET {url}/repos/lab/other/issues/3/comments?", "permissions: pull-requests"),
        ({**environment, "GITHUB_TOKEN": " "}, "needs a token in GITHUB_TOKEN", "github.token"),
        ({**environment, "GITHUB_TOKEN": "ghp_\x01z"}, "needs a token in GITHUB_TOKEN", ""),
        ({**service.gitlab()}, "needs a token in GITLAB_TOKEN", "CI_JOB_TOKEN may not"),
        ({**environment, "GITHUB_API_URL": "http://127.0.0.1:1"}, "failed: ", "run the job again"),
    ]
    for job, told, hint in cases:
        assert compare(100, job) == 2
        printed = capfd.readouterr().err
        assert told.format(url=service.url) in printed
        assert hint in printed
        assert "ghp_" not in printed
        assert JOB_TOKEN not in printed
    assert compare(101, wrong) == 1  # a regression is one, also without a comment
    assert service.own == []


def test_a_service_without_time_is_asked_again_and_a_redirect_is_not_followed(
    service: CiService, compare: Compare, tmp_path: Path, capfd: Any
) -> None:
    environment = github(service, tmp_path)
    service.fails = [502, 503]
    assert compare(100, environment) == 0
    assert len(service.own) == 1
    service.fails = [307]
    assert compare(100, environment) == 2
    assert "was answered with 307" in capfd.readouterr().err
    assert not any("elsewhere" in line for line in service.asked)


def test_a_service_that_says_nothing_is_left_at_the_deadline(
    service: CiService,
    compare: Compare,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: Any,
) -> None:
    monkeypatch.setattr("boardprof.ui.cli.comment._REQUEST_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        environment = {**github(service, tmp_path), "GITHUB_API_URL": url}
        assert compare(100, environment) == 2
    assert f"GET {url}/user failed: " in capfd.readouterr().err


def test_a_long_comment_is_cut_at_a_line_and_says_so(
    service: CiService, compare: Compare, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for side in ("before", "after"):
        parts = [
            Part(report_of({"instructions": [100]}, name=f"f{i}", device="qemu-rv32"), {})
            for i in range(1500)
        ]
        write_report(joined(parts), str(tmp_path / f"{side}.json"))
    for name, text in github(service, tmp_path).items():
        monkeypatch.setenv(name, text)
    files = [str(tmp_path / f"{side}.json") for side in ("before", "after")]
    assert main(["compare", *files, "--comment", "cost"]) == 0
    [comment] = service.own
    assert 65_000 < len(comment) <= 65_536
    assert comment.count("<details>") == comment.count("</details>") == 1
    assert "\nThis comment was cut: it had " in comment
    assert " | same |\n</details>\n" in comment


def test_a_name_that_would_end_the_hidden_mark_is_refused(capfd: Any) -> None:
    for name in ("a --> b", "a--b", "", "<b>", "x" * 101):
        assert main(["compare", "before.json", "--comment", name]) == 2
        assert "is not a name for --comment" in capfd.readouterr().err
    assert main(["run", "f.c:f", "--comment", "cost"]) == 2
    assert "--comment cost writes a comparison" in capfd.readouterr().err
