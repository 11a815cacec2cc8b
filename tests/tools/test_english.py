# SPDX-License-Identifier: Apache-2.0
"""The check of the documentation's English finds hard phrases, and nothing in code."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from scripts import english
from tests.support import ROOT


@pytest.mark.parametrize(
    ("prose", "phrase"),
    [
        ("What has no end is no file.", "is no file"),
        ("These are no functions.", "are no functions"),
        ("The time of the call: none.", ": none"),
        ("A run of which nothing is known.", "of which"),
        ("It counts that which runs.", "that which"),
        ("A flag stands before the environment.", "stands before"),
        ("The arguments that stand behind the name.", "stand behind"),
        ("What stands against the samples.", "stands against"),
        ("How a number comes about.", "comes about"),
        ("A change of the library is told.", "is told"),
        ("So many runs at most.", "So many"),
    ],
)
def test_a_hard_phrase_is_found(prose: str, phrase: str) -> None:
    ((line, found, better),) = english.findings(f"# Title\n\n{prose}\n")
    assert (line, found) == (3, phrase)
    assert better


@pytest.mark.parametrize(
    "prose",
    [
        "There is no board, and there are\nno ports.",
        "The old name is no longer used; it is no larger than before.",
        "The result is None: None is the default.",
        "The agent is told to stop.",
        "There are so many samples that the test is exact.",
        "This no-op is free, and this no board needs.",
        "The board stands on a desk.",
        "Say `is no file`, `x: none` or `so many`.",
        "<!-- not run: it is no command -->",
        "```text\nthe board is no board\n```",
        "- an item\n\n  ```sh\n  echo is no file\n  ```",
        "[a link](what-is-told#of-which)",
    ],
)
def test_plain_prose_and_code_are_not_reported(prose: str) -> None:
    assert [*english.findings(f"{prose}\n")] == []


def test_a_phrase_that_continues_on_the_next_line_is_found_where_it_begins() -> None:
    text = "```sh\nls\n```\n\n- a list, of\n  which one item is long\n"
    assert [(line, phrase) for line, phrase, _ in english.findings(text)] == [(5, "of which")]


def test_a_phrase_does_not_continue_in_the_next_paragraph() -> None:
    assert [*english.findings("Here is the end of\n\nwhich board?\n")] == []


PYTHON = '''
"""What has no end is
no file."""

none = "http://is/no"  # a run of which nothing is known
raise UsageError(
    f"{file} is "
    f"no table.", ["this is", "no pair"]
)
is_no = so_many(that, which)  # `is no file`
'''

C = """
/* What has no end is
 * no file. */
int is; // a run of which nothing is known
char *text = "http://is no comment"; /* `is no file` */
"""


def test_docstrings_comments_and_texts_of_python_are_read() -> None:
    found = english.findings(english.prose_of_python(PYTHON))
    assert [(line, phrase) for line, phrase, _ in found] == [
        (2, "is no file"),
        (5, "of which"),
        (7, "is no table"),
    ]


def test_comments_of_c_are_read() -> None:
    found = english.findings(english.prose_of_c(C))
    assert [(line, phrase) for line, phrase, _ in found] == [(2, "is no file"), (4, "of which")]


def test_phrases_are_listed_with_file_and_line_and_fail(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(english, "_ROOT", tmp_path)
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_text("A page.\n\nIt is no page.\n")
    (tmp_path / "docs" / "a.md").write_text("How it comes about, and of which.\n")
    assert english.main() == 1
    assert capsys.readouterr().err.splitlines() == [
        'README.md:3: \'is no page\'. Try: "is not a", "has no" or "cannot".',
        'docs/a.md:1: \'comes about\'. Try: "is computed" or "happens".',
        "docs/a.md:1: 'of which'. Try: \"whose\", or two sentences.",
    ]
    (tmp_path / "README.md").write_text("A page.\n")
    (tmp_path / "docs" / "a.md").write_text("How it is computed.\n")
    assert english.main() == 0
    assert capsys.readouterr().err == ""


def test_make_lint_runs_the_check_and_the_documentation_passes() -> None:
    lint = (ROOT / "Makefile").read_text(encoding="utf-8").partition("\nlint:")[2]
    assert "scripts/english.py" in lint.partition("\n\n")[0]
    done = subprocess.run(
        [sys.executable, "scripts/english.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
