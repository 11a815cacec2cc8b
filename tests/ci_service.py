# SPDX-License-Identifier: Apache-2.0
"""A stand-in for GitHub's and GitLab's REST interface: comments of pull requests, by their rules.

It refuses what the services refuse, with their status, and remembers what broke another rule of
theirs in `CiService.faults`. Sources: docs.github.com/rest (issues/comments, pulls, users;
2022-11-28), docs.gitlab.com/api (notes, users, rest/authentication).
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

JOB_TOKEN = "ghs_of-a-job"
"""GitHub's token of a job: a bot that may not ask who it is."""

USER_TOKEN = "glpat-of-a-user"
BOT = {"login": "github-actions[bot]", "id": 41898282, "type": "Bot"}
USER = {"login": "ada", "id": 7, "type": "User"}
OTHER = {"login": "mallory", "id": 8, "type": "User"}
REPOSITORY, PROJECT, NUMBER = "lab/filter", 61, 12


class CiService:
    """Its comments, pull requests, and what it was asked."""

    def __init__(self) -> None:
        self.comments: list[dict[str, Any]] = []
        self.pulls: list[dict[str, Any]] = []
        self.asked: list[str] = []
        self.faults: list[str] = []
        self.fails: list[int] = []  # status of the next answers
        self.is_read_only = False
        self.url = ""

    def add(self, author: dict[str, Any], body: str) -> dict[str, Any]:
        """Add a comment, as a person does on the page."""
        made = {"id": 900 + len(self.comments), "body": body, "user": author, "author": author}
        self.comments.append(made)
        return made

    @property
    def own(self) -> list[str]:
        """The comments of the tokens' users."""
        return [each["body"] for each in self.comments if each["user"] in (BOT, USER)]

    def answer(
        self, method: str, path: str, headers: Any, content: bytes
    ) -> tuple[int, dict[str, Any] | list[Any]]:
        parts = urlsplit(path)
        query = {key: values[-1] for key, values in parse_qs(parts.query).items()}
        self.asked.append(f"{method} {parts.path}")
        if self.fails:
            return self.fails.pop(0), {"message": "Server Error"}
        is_gitlab = parts.path.startswith("/api/v4/")
        found = self._gitlab_user(headers) if is_gitlab else self._github_user(headers)
        if found is None:
            return 401, {"message": "401 Unauthorized" if is_gitlab else "Bad credentials"}
        if content and headers["Content-Type"] != "application/json":
            self.faults.append(f"content of type {headers['Content-Type']}")
        if parts.path in ("/user", "/api/v4/user") and method == "GET":
            if found == BOT:
                return 403, {"message": "Resource not accessible by integration"}
            return 200, found
        if parts.path == f"/repos/{REPOSITORY}/pulls" and method == "GET":
            return 200, self._pulls(query)
        if is_gitlab:
            every = f"/api/v4/projects/{PROJECT}/merge_requests/{NUMBER}/notes"
            one, update, most = every, "PUT", 1_000_000
        else:
            every = f"/repos/{REPOSITORY}/issues/{NUMBER}/comments"
            one, update, most = f"/repos/{REPOSITORY}/issues/comments", "PATCH", 65_536
        if parts.path == every and method == "GET":
            size = min(int(query.get("per_page", "30")), 100)
            first = (int(query.get("page", "1")) - 1) * size
            return 200, self.comments[first : first + size]
        number = re.fullmatch(rf"{one}/(\d+)", parts.path)
        if not (parts.path == every and method == "POST") and not (number and method == update):
            return 404, {"message": "Not Found"}
        if self.is_read_only:
            return 403, {"message": "Resource not accessible by integration"}
        body = json.loads(content)
        if [*body] != ["body"] or not isinstance(body["body"], str) or len(body["body"]) > most:
            return 422, {"message": "Validation Failed"}
        if number is None:
            return 201, self.add(found, body["body"])
        known = [each for each in self.comments if each["id"] == int(number[1])]
        if not known:
            return 404, {"message": "Not Found"}
        known[0]["body"] = body["body"]
        return 200, known[0]

    def _github_user(self, headers: Any) -> dict[str, Any] | None:
        if not headers["User-Agent"]:
            self.faults.append("no User-Agent")
        if headers["Accept"] != "application/vnd.github+json":
            self.faults.append(f"accepts {headers['Accept']}")
        if headers["X-GitHub-Api-Version"] != "2022-11-28":
            self.faults.append(f"version {headers['X-GitHub-Api-Version']}")
        users = {f"Bearer {JOB_TOKEN}": BOT, f"Bearer {USER_TOKEN}": USER}
        return users.get(headers["Authorization"])

    def _gitlab_user(self, headers: Any) -> dict[str, Any] | None:
        return {USER_TOKEN: USER}.get(headers["PRIVATE-TOKEN"])

    def _pulls(self, query: dict[str, str]) -> list[Any]:
        owner, _, branch = query.get("head", "").partition(":")
        return [
            each
            for each in self.pulls
            if each["state"] == query.get("state", "open")
            and each["head"]["user"]["login"] == owner
            and each["head"]["ref"] == branch
        ]

    def pull(self, number: int, owner: str, commit: str) -> dict[str, Any]:
        """Return a pull request of a person's branch ``topic``, as the interface has it."""
        repository = REPOSITORY if owner == "lab" else f"{owner}/filter"
        head = {"sha": commit, "ref": "topic", "user": {"login": owner}}
        return {
            "number": number,
            "state": "open",
            "head": {**head, "repo": {"full_name": repository, "owner": {"login": owner}}},
        }

    def github(self, event: dict[str, Any], file: Any) -> dict[str, str]:
        """Return the environment of a job of GitHub Actions that an event has started."""
        file.write_text(json.dumps(event), encoding="utf-8")
        return {
            "GITHUB_ACTIONS": "true",
            "GITHUB_API_URL": self.url,
            "GITHUB_EVENT_PATH": str(file),
            "GITHUB_REPOSITORY": REPOSITORY,
            "GITHUB_RUN_ID": "77",
            "GITHUB_SERVER_URL": "https://github.example",
        }

    def run_event(self, pull: dict[str, Any]) -> dict[str, Any]:
        """Return the event of a workflow that has run for a pull request, such as of a fork."""
        head = pull["head"]
        run = {"event": "pull_request", "head_sha": head["sha"], "head_branch": head["ref"]}
        return {"workflow_run": {**run, "head_repository": head["repo"], "pull_requests": []}}

    def gitlab(self, project: int = PROJECT) -> dict[str, str]:
        """Return the environment of a GitLab job for a merge request."""
        return {
            "GITLAB_CI": "true",
            "CI_API_V4_URL": f"{self.url}/api/v4",
            "CI_COMMIT_SHA": "c0ffee" * 6 + "c0ff",
            "CI_JOB_URL": "https://gitlab.example/lab/filter/-/jobs/5",
            "CI_MERGE_REQUEST_IID": str(NUMBER),
            "CI_MERGE_REQUEST_PROJECT_ID": str(PROJECT),
            "CI_PROJECT_ID": str(project),
        }


@contextmanager
def ci_service() -> Iterator[CiService]:
    """Serve on a free port of this machine."""
    service = CiService()

    class Handler(BaseHTTPRequestHandler):
        def _do(self) -> None:
            content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, answer = service.answer(self.command, self.path, self.headers, content)
            told = json.dumps(answer).encode()
            self.send_response(status)
            if status in (301, 307):
                self.send_header("Location", f"{service.url}/elsewhere")
            self.send_header("Content-Type", "application/json; charset=utf-8")
            self.send_header("Content-Length", str(len(told)))
            self.end_headers()
            self.wfile.write(told)

        do_GET = do_POST = do_PATCH = do_PUT = _do

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        service.url = f"http://127.0.0.1:{server.server_address[1]}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield service
        finally:
            server.shutdown()
