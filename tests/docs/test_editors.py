# SPDX-License-Identifier: Apache-2.0
"""The patterns of docs/editors.md find the lines of errors and regressions in real output."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.cli.command import boardprof
from tests.support import ROOT

PAGE = (ROOT / "docs" / "editors.md").read_text(encoding="utf-8")
SMOOTH = "#include <stdint.h>\n\nint32_t sum;\nvoid smooth(uint32_t n) {\n    sum += n / %s;\n}\n"


def matchers() -> list[dict[str, object]]:
    (tasks,) = re.findall(r"```json\n(.*?)```", PAGE, re.S)
    return [m for task in json.loads(tasks)["tasks"] for m in task["problemMatcher"]]


def problems(text: str) -> list[tuple[str, int, str, str]]:
    """Return file, line, severity and message of what the matchers find, as VS Code does."""
    found = []
    for line in text.splitlines():
        for matcher in matchers():
            pattern = matcher["pattern"]
            assert isinstance(pattern, dict)
            if match := re.search(pattern["regexp"], line):
                severity = match[pattern["severity"]] if "severity" in pattern else "error"
                message = match[pattern["message"]]
                found.append(
                    (match[pattern["file"]], int(match[pattern["line"]]), severity, message)
                )
                break
    return found


@pytest.mark.board("qemu-rv32")
def test_a_regression_leads_to_its_function(tmp_path: Path) -> None:
    source = tmp_path / "smooth.c"
    run = ["run", "-q", "-b", "qemu-rv32", "smooth.c:smooth", "n=100"]
    source.write_text(SMOOTH % "8")
    assert boardprof(*run, "--json", "base.json", folder=tmp_path).code == 0
    source.write_text(SMOOTH % "n * n % 7 + 1")
    judged = ["--against", "base.json", "--fail-if", "instructions:max>2%", "--export", "editor=-"]
    done = boardprof(*run, *judged, folder=tmp_path)
    assert done.code == 1
    [(file, line, severity, message)] = problems(done.out + done.err)
    assert (file, line, severity) == ("smooth.c", 4, "error")
    assert re.match(r"smooth\(n=100\) on qemu-rv32: instructions [\d.,]+ -> [\d.,]+ \(\+", message)


def test_errors_of_compilers_and_settings_lead_to_their_lines(tmp_path: Path) -> None:
    (tmp_path / "smooth.c").write_text(SMOOTH % "")
    done = boardprof("run", "-q", "-b", "native", "smooth.c:smooth", "n=1", folder=tmp_path)
    [(file, line, severity, message)] = problems(done.err)
    assert (file, line, severity) == ("smooth.c", 5, "error")
    assert message.startswith("expected expression before")
    settings = tmp_path / "boardprof.toml"
    settings.write_text('board = "native"\nrepaet = 3\n')
    done = boardprof("run", "smooth.c:smooth", folder=tmp_path)
    [(file, line, severity, message)] = problems(done.err)
    assert (file, line, severity) == (str(settings), 2, "error")
    assert message.startswith("repaet is not a setting")
    settings.write_text('[[benchmark]]\nname = "a"\ntarget = "smooth.c:smoth"\n')
    (tmp_path / "smooth.c").write_text(SMOOTH % "8")
    done = boardprof("check", folder=tmp_path)
    [(file, line, severity, message)] = problems(done.err)
    assert (file, line, severity) == (str(settings), 3, "error")
    assert message.startswith("a: There is no function 'smoth' in smooth.c")


def test_other_lines_are_no_problem() -> None:
    text = "smooth(n=100) on qemu-rv32: 12 instructions\nwarning: smooth: noisy\nerror: no board\n"
    assert problems(text) == []
