# SPDX-License-Identifier: Apache-2.0
"""Sphinx's settings for the site (`make docs`): the repository's own pages, as they are.

The folder of the sources is the repository, so that a link works in both places. The navigation is
the list in docs/README.md: its headings, and the first link of each item.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parents[2]
_PROJECT = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
_FILE = re.compile(r"^<!-- file: (.+) -->\n```(\w+)\n", re.MULTILINE)
"""A block that readers put into a file: its name becomes the caption."""

project = _PROJECT["name"]
author = project
html_title = project
root_doc = "docs/README"
extensions = ["myst_parser"]
include_patterns = [
    "docs/*.md",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "boards/README.md",
    "examples/*/README.md",
    "protocol/SPEC.md",
]
exclude_patterns = [".*", "build", "dist", "**/node_modules", "host", "tests", "device_runtime_c"]

myst_heading_anchors = 4
myst_enable_extensions: list[str] = []
nitpicky = True

html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_show_search_summary = False  # a browser reads no page of a folder for the search
html_use_index = False
html_search_scorer = str(Path(__file__).with_name("scorer.js"))
highlight_language = "none"
templates_path = ["templates"]
html_additional_pages = {"index": "first.html"}


def setup(app: Any) -> None:
    """Register what changes a page before it is read."""
    app.connect("source-read", _prepare)


def _prepare(_app: Any, page: str, source: list[str]) -> None:
    source[0] = _FILE.sub(r"```{code-block} \2\n:caption: \1\n\n", source[0])
    if page == root_doc:
        source[0] += navigation(source[0])
    elif page == "docs/reference-python":
        source[0] += "\n\n```{toctree}\n:hidden:\n:glob:\n\nreference-python-*\n```\n"


def navigation(text: str) -> str:
    """Return the list of pages of docs/README.md as Sphinx's table of contents, which is hidden."""
    parts = re.split(r"^## (.+)$", text, flags=re.MULTILINE)[1:]
    tables = []
    for heading, body in zip(parts[::2], parts[1::2], strict=True):
        pages = re.findall(r"^- \[([^\]]+)\]\(([^)]+\.md)\)", body, flags=re.MULTILINE)
        entries = "\n".join(f"{title} <{path}>" for title, path in pages)
        tables.append(f"\n```{{toctree}}\n:hidden:\n:caption: {heading}\n\n{entries}\n```\n")
    return "\n" + "".join(tables)
