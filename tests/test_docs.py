# SPDX-License-Identifier: Apache-2.0
"""No file of the project names a place that only one machine has."""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Iterator
from pathlib import Path

from tests.support import ROOT

# Put together here, so that this file does not contain what it forbids.
PLACES = ["/" + "work/", "/" + "root/", "/" + "tmp/pytest"]
REGISTRIES = ["pypi" + ".org", "files.python" + "hosted", "deb.debian" + ".org", "npm" + "js"]
FORBIDDEN = re.compile("|".join(re.escape(text) for text in [*PLACES, *REGISTRIES]))


def ignored() -> list[str]:
    lines = (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()
    return [line.strip("/") for line in lines if line and not line.startswith("#")] + [".git"]


def files() -> Iterator[Path]:
    """Yield the files of the tree, without those that Git ignores."""
    patterns = ignored()
    for folder, folders, names in os.walk(ROOT):
        kept = [n for n in [*folders, *names] if not any(fnmatch.fnmatch(n, p) for p in patterns)]
        folders[:] = sorted(set(folders) & set(kept))
        yield from (Path(folder, name) for name in sorted(set(names) & set(kept)))


def test_no_file_names_a_place_of_one_machine_or_a_registry() -> None:
    found = []
    for path in files():
        text = path.read_bytes().decode("utf-8", errors="ignore")
        for number, line in enumerate(text.splitlines(), start=1):
            if FORBIDDEN.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()[:80]}")
    assert found == []


def test_the_files_are_those_of_the_project() -> None:
    names = {path.relative_to(ROOT).as_posix() for path in files()}
    assert {"README.md", "pyproject.toml", "protocol/boardprof_protocol/frame.py"} <= names
    assert not any("__pycache__" in name or name.startswith(".venv") for name in names)
