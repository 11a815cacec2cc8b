# SPDX-License-Identifier: Apache-2.0
"""Sphinx's settings for the site (`make docs`): the repository's own pages, as they are.

The folder of the sources is the repository, so that a link works in both places. The navigation is
the list in docs/README.md: its headings, and the first link of each item. The pages of the
references are short in the repository: here they get the docstrings, helps and headers.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(_ROOT))

_PROJECT = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
_FILE = re.compile(r"^<!-- file: (.+) -->\n```(\w+)\n", re.MULTILINE)
"""A block that readers put into a file: its name becomes the caption."""

project = _PROJECT["name"]
author = project
html_title = project
root_doc = "docs/README"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
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
nitpick_ignore_regex = [("py:.*", ".*")]  # types of other packages, in signatures
default_role = "code"
smartquotes = False  # people copy options
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_class_signature = "mixed"

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
    elif page in _REFERENCES:
        source[0] += "".join(_REFERENCES[page]())


_PUBLIC = ["boardprof", "errors", "fleet", "flops", "itt", "metrics", "profiling", "tune"]
_GIVEN = """
    memory:Memory connect:Firmware passing:Block dtypes:Dtypes board_link:Window channels:Stream
    clock:ClockFit calls:Calls calls:Column row_origins:GroupKey groups:GroupSummary
    groups:LeftOut summary:Summary warnings:Warning_ summary:Change comparison:Comparison
    comparison:Difference comparison:Unjudged rule:Rule rule:Usual table:EventList
    table:EventAverages events:FunctionEvent board_activity:MemoryChange
    events:FunctionEventAvg profiler:Profiler profiler:Measured record:Record
    record:MeasurementRecord record:Device
""".split()  # noqa: SIM905
"""Classes whose objects the public names give, each behind its module's last name."""


def _python() -> Iterator[str]:
    for name in _PUBLIC:
        module = name if name == "boardprof" else f"boardprof.{name}"
        yield f"\n\n## {module}\n\n```{{eval-rst}}\n.. automodule:: {module}\n"
        yield "   :members:\n   :imported-members:\n   :no-index:\n```\n"
    yield "\n\n## Objects that these give\n"
    files = sorted((_ROOT / "host").rglob("*.py"))
    texts = {path: path.read_text(encoding="utf-8") for path in files}
    for stem, name in (each.split(":") for each in _GIVEN):
        has = re.compile(rf"^class {name}\b", re.MULTILINE)
        (path,) = [p for p, text in texts.items() if p.stem == stem and has.search(text)]
        module = ".".join(path.relative_to(_ROOT / "host").with_suffix("").parts)
        yield f"\n```{{eval-rst}}\n.. autoclass:: {module}.{name}\n"
        yield "   :members:\n   :no-index:\n```\n"
    yield "\n\n## boardprof_protocol.layout\n\n```{eval-rst}\n"
    yield ".. automodule:: boardprof_protocol.layout\n   :members:\n```\n"


def _command() -> Iterator[str]:
    import click

    from boardprof.ui.cli.commands import cli
    from scripts.manual_page import contexts

    top = click.Context(cli, info_name="boardprof", max_content_width=90, terminal_width=90)
    for ctx in contexts(cli, top):
        yield f"\n## {ctx.command_path}\n\n```text\n{ctx.get_help()}\n```\n"


def _headers() -> Iterator[str]:
    for name in ("bp_function.h", "bp_trace.h", "bp.h", "bp_port.h", "bp_config.h"):
        text = (_ROOT / "device_runtime_c/include/boardprof" / name).read_text(encoding="utf-8")
        yield f"\n## {name}\n\n```c\n{text}```\n"


_REFERENCES: dict[str, Callable[[], Iterator[str]]] = {
    "docs/reference-command": _command,
    "docs/reference-c": _headers,
    "docs/reference-python": _python,
}
"""Page -> what the site has below it."""


def navigation(text: str) -> str:
    """Return the list of pages of docs/README.md as Sphinx's table of contents, which is hidden."""
    parts = re.split(r"^## (.+)$", text, flags=re.MULTILINE)[1:]
    tables = []
    for heading, body in zip(parts[::2], parts[1::2], strict=True):
        pages = re.findall(r"^- \[([^\]]+)\]\(([^)]+\.md)\)", body, flags=re.MULTILINE)
        entries = "\n".join(f"{title} <{path}>" for title, path in pages)
        tables.append(f"\n```{{toctree}}\n:hidden:\n:caption: {heading}\n\n{entries}\n```\n")
    return "\n" + "".join(tables)
