# SPDX-License-Identifier: Apache-2.0
"""``--comment NAME``: a comparison as one comment of a pull request, which later jobs update.

The job's environment says which pull request that is, and where the service's interface is:

- GitHub: REST API 2022-11-28, "Issue comments" and "Pull requests" (docs.github.com/rest).
- GitLab: REST API v4, "Notes" of merge requests (docs.gitlab.com/api/notes).
"""

from __future__ import annotations

import json
import os
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import HTTPRedirectHandler, Request, build_opener

from boardprof.base.errors import BoardprofError, UsageError
from boardprof.base.printable import bounded
from boardprof.ui.cli.output import echo_warning, echo_written

if TYPE_CHECKING:
    from boardprof.results.comparison.comparison import Comparison

_REQUEST_S: Final = 20.0
_RETRIES_S: Final = (1.0, 4.0)  # waits before a request is repeated, if that cannot comment twice
_PAGE: Final = 100  # comments per request; the most that both services allow
_MOST_PAGES: Final = 100
_MOST_BYTES: Final = 32 << 20  # of an answer


class _NotWrittenError(Exception):
    """There is nothing to comment on, as in a job of a branch."""


def write_comment(comparison: Comparison, name: str) -> list[BoardprofError]:
    """Write the comment if this is a job of a pull request; return why it could not be written."""
    from boardprof.show.markdown import comparison_markdown

    try:
        _pull_request(os.environ).write(name, comparison_markdown(comparison))
    except _NotWrittenError as why:
        echo_warning(f"no comment was written: {why}")
    except UsageError as error:
        return [error]
    except (LookupError, TypeError, AttributeError, ValueError, OSError) as error:
        text = f"the job or an answer is not as documented: {error!r}"
        hint = "does a proxy or a login page answer at the address of the service?"
        return [UsageError(f"The comment was not written: {text}.", hint=hint)]
    else:
        echo_written("Comment", name)
    return []


@dataclass(frozen=True)
class _PullRequest:
    """The comments of a pull request, and how its service is asked."""

    service: str
    api: str
    token: str
    headers: Mapping[str, str]
    right: str  # what a refused token lacks
    update: str  # method that changes a comment
    most: int  # characters in a comment
    job: str  # address of the job's page
    path: str = ""  # of its comments
    path_of_one: str = ""  # of each comment, before its number
    commit: str = ""

    def write(self, name: str, text: str) -> None:
        """Update the comment with this name, or add it."""
        # Anybody may copy the mark into a comment, so the author must be the token's user.
        is_own = self._is_own()
        mark = f"<!-- boardprof: {name} -->"
        body = {"body": self._fitting(f"{mark}\n{text}")}
        for each in self._comments():
            if f"{each['body']}".startswith(mark) and is_own(each):
                self.ask(self.update, f"{self.path_of_one}/{int(each['id'])}", body)
                return
        self.ask("POST", self.path, body)

    def _comments(self) -> Iterator[Mapping[str, Any]]:
        for page in range(1, _MOST_PAGES + 1):
            found = self.ask("GET", f"{self.path}?per_page={_PAGE}&page={page}")
            yield from found
            if len(found) < _PAGE:
                return

    def _is_own(self) -> Callable[[Mapping[str, Any]], bool]:
        is_github = self.service == "GitHub"
        # The token of a job on GitHub is that of a bot, which may not ask who it is.
        me = self.ask("GET", "/user", or_none=403 if is_github else 0)
        if me is None:
            return lambda comment: bool(comment["user"]["type"] == "Bot")
        author = "user" if is_github else "author"
        return lambda comment: bool(comment[author]["id"] == me["id"])

    def _fitting(self, text: str) -> str:
        """Return a text with its commit and job, cut at a line if it is too long."""
        job = f"[this job]({self.job})"
        end = f"\nCommit {self.commit[:12]}, compared by {job}.\n"
        if len(text) + len(end) > self.most:
            end = f"\n\nThis comment was cut: it had {len(text):,} characters.\n{end}"
            closing = "\n</details>"
            text = text[: self.most - len(end) - len(closing)].rpartition("\n")[0]
            text += closing if text.count("<details>") > text.count("</details>") else ""
        return text + end

    def ask(
        self, method: str, path: str, body: Mapping[str, str] | None = None, *, or_none: int = 0
    ) -> Any:
        """Return the decoded answer; None for the status ``or_none``."""
        for wait_s in (*(() if method == "POST" else _RETRIES_S), None):
            status, answer = self._sent(method, path, body)
            if 0 < status < 500 or wait_s is None:
                break
            time.sleep(wait_s)
        if status in (200, 201):
            return json.loads(answer)
        if status == or_none:
            return None
        told = bounded(answer.decode(errors="replace").replace(self.token, "***"))[:300]
        raise UsageError(
            f"The comment was not written: {method} {self.api}{path} "
            f"{f'was answered with {status}' if status else 'failed'}: {told}",
            hint={
                401: "a new token: this one is wrong or expired",
                403: self.right,
                404: self.right,
            }.get(status, f"run the job again if {self.service} was not available"),
        )

    def _sent(self, method: str, path: str, body: Mapping[str, str] | None) -> tuple[int, bytes]:
        """Return status and content of the answer; 0 and a reason if none came in time."""
        data = None if body is None else json.dumps(body).encode()
        headers = {**self.headers, "User-Agent": "boardprof", "Content-Type": "application/json"}
        request = Request(self.api + path, data, headers, method=method)
        answers: queue.SimpleQueue[tuple[int, bytes]] = queue.SimpleQueue()

        def send() -> None:
            try:
                try:
                    reply = build_opener(_NoRedirects).open(request, timeout=_REQUEST_S)
                except HTTPError as error:
                    reply = error
                with reply:
                    answers.put((reply.status, reply.read(_MOST_BYTES)))
            except (OSError, HTTPException, ValueError) as error:
                answers.put((0, f"{error}".encode()))

        # The time limit of urllib is for each byte, and there is none for the host's name.
        threading.Thread(target=send, daemon=True).start()
        try:
            return answers.get(timeout=_REQUEST_S)
        except queue.Empty:
            return 0, f"no answer within {_REQUEST_S:g} s".encode()


class _NoRedirects(HTTPRedirectHandler):
    """A redirect is an error: urllib would send the token to the other host, too."""

    def redirect_request(self, *_: Any) -> None:
        """Make no new request."""


def _pull_request(job: Mapping[str, str]) -> _PullRequest:
    """Return the pull request that a job with this environment belongs to."""
    if job.get("GITHUB_ACTIONS") == "true":
        return _of_github(job)
    if job.get("GITLAB_CI") == "true":
        return _of_gitlab(job)
    raise _NotWrittenError("this is not a job of GitHub Actions or GitLab CI")


def _of_github(job: Mapping[str, str]) -> _PullRequest:
    event = json.loads(Path(job["GITHUB_EVENT_PATH"]).read_text(encoding="utf-8"))
    repository = job["GITHUB_REPOSITORY"]
    pull, run = event.get("pull_request"), event.get("workflow_run")
    if pull is None and (run is None or run["event"] != "pull_request"):
        raise _NotWrittenError("this job is not for a pull request")
    if run is None and (pull["head"]["repo"] or {}).get("full_name") != repository:
        raise _NotWrittenError(
            "the pull request is from a fork, whose jobs may only read; docs/ci.md has a second "
            "job that may write"
        )
    token = _token(job, "GITHUB_TOKEN", "env: GITHUB_TOKEN: ${{ github.token }}")
    found = _PullRequest(
        "GitHub",
        job["GITHUB_API_URL"],
        token,
        {
            "Accept": "application/vnd.github+json",
            "Authorization": f"Bearer {token}",
            "X-GitHub-Api-Version": "2022-11-28",
        },
        "the job needs `permissions: pull-requests: write`; jobs of Dependabot may only read",
        "PATCH",
        65_536,
        f"{job['GITHUB_SERVER_URL']}/{repository}/actions/runs/{job['GITHUB_RUN_ID']}",
    )
    if run is not None:
        pull = _pull_of_run(found, repository, run)
    return replace(
        found,
        path=f"/repos/{repository}/issues/{int(pull['number'])}/comments",
        path_of_one=f"/repos/{repository}/issues/comments",
        commit=f"{pull['head']['sha']}",
    )


def _pull_of_run(
    service: _PullRequest, repository: str, run: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return the open pull request whose newest commit a workflow has run on."""
    # GitHub's event has no number for a fork's pull request. A number that the fork's job has left
    # in a file may be any, so owner, branch and commit find it: they are GitHub's own facts.
    head = f"{run['head_repository']['owner']['login']}:{run['head_branch']}"
    asked = urlencode({"state": "open", "head": head, "per_page": _PAGE})
    found = service.ask("GET", f"/repos/{repository}/pulls?{asked}")
    own: list[Mapping[str, Any]] = [p for p in found if p["head"]["sha"] == run["head_sha"]]
    if len(own) != 1:
        where = f"the commit {run['head_sha'][:12]} is the newest one"
        raise _NotWrittenError(f"{where} of {len(own)} open pull requests from {head}")
    return own[0]


def _of_gitlab(job: Mapping[str, str]) -> _PullRequest:
    if "CI_MERGE_REQUEST_IID" not in job:
        raise _NotWrittenError("this job is not for a merge request")
    project, number = int(job["CI_MERGE_REQUEST_PROJECT_ID"]), int(job["CI_MERGE_REQUEST_IID"])
    if project != int(job["CI_PROJECT_ID"]):
        raise _NotWrittenError(
            "the pipeline is the fork's own, which has no token; a member of the parent project "
            "can run it there"
        )
    right = "the scope `api` and the role Reporter; CI_JOB_TOKEN may not write comments"
    variable = "the CI/CD variable GITLAB_TOKEN, a project access token with"
    token = _token(job, "GITLAB_TOKEN", f"{variable} {right}")
    path = f"/projects/{project}/merge_requests/{number}/notes"
    return _PullRequest(
        "GitLab",
        job["CI_API_V4_URL"],
        token,
        {"PRIVATE-TOKEN": token},
        f"the token needs {right}",
        "PUT",
        1_000_000,
        job["CI_JOB_URL"],
        path,
        path,
        job.get("CI_MERGE_REQUEST_SOURCE_BRANCH_SHA") or job["CI_COMMIT_SHA"],
    )


def _token(job: Mapping[str, str], name: str, hint: str) -> str:
    token = job.get(name, "").strip()
    if not token or not token.isprintable():  # an error of http.client would print it
        raise UsageError(f"--comment needs a token in {name}.", hint=hint)
    return token
