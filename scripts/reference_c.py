# SPDX-License-Identifier: Apache-2.0
"""The C API as Markdown, from the comments of headers.

A header is paragraphs, parted by blank lines and by comments that begin in the first column: a
comment and the declarations behind it. ``/// Title ///`` begins a section.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

__all__ = ["c_page"]

_HEAD = """\
# The C reference

<!-- This page is generated from the headers: make gen -->
The headers are in `device_runtime_c/include/boardprof`; `boardprof runtime path` prints where an
installed package has them. `bp_wire.h` beside them is generated from the protocol, which
[SPEC.md](../protocol/SPEC.md) describes.
"""

_TITLE = re.compile(r"/// (.*) ///")
_OPTION = re.compile(r"#ifndef (BP_CFG_\w+)\n#define \1 (\S+)\n#endif")
_NAME = re.compile(r"\b(bp_\w+|BP_\w+)\b")
_BREAKS = ("Required:", "Returns ", "Example:", "Unit:", "Context:")


@dataclass
class _Part:
    """A comment and what stands below it."""

    comment: str
    code: str
    condition: str


def c_page(headers: Sequence[tuple[str, str, str]]) -> str:
    """Return the page.

    Args:
        headers: name, what it is for, text.
    """
    parts = [_HEAD]
    for name, about, text in headers:
        parts.append(f"\n## {name}: {about}\n")
        parts += _config(text) if name == "bp_config.h" else _declarations(text)
    return "".join(parts)


def _config(text: str) -> Iterator[str]:
    """Yield a table of the options."""
    yield "\nEach may be set on the compiler's command line.\n"
    yield "\n| option | default | meaning |\n| --- | --- | --- |\n"
    for part in _parts(text):
        if found := _OPTION.search(part.code):
            meaning = " ".join(_paragraphs(part.comment)).replace("|", "\\|")
            yield f"| `{found[1]}` | {found[2]} | {meaning} |\n"


def _declarations(text: str) -> Iterator[str]:
    body = text.partition("\n\n")[2].partition("\n\n")[2]  # behind the licence and the summary
    for part in _parts(body):
        if title := _TITLE.fullmatch(part.comment):
            yield f"\n### {title[1]}\n"
        code = part.code.strip("\n")
        if not code or not _NAME.search(code) or code.startswith("#define BOARDPROF_"):
            continue
        paragraphs = [] if title else _paragraphs(part.comment)
        yield "".join(f"\n{paragraph}\n" for paragraph in paragraphs)
        if part.condition:
            yield f"\nOnly where `{part.condition}` is set.\n"
        yield f"\n```c\n{code}\n```\n"


def _parts(text: str) -> Iterator[_Part]:
    """Yield comments with the code below them."""
    condition = ""
    comment = ""
    lines: list[str] = []
    source = iter(text.splitlines())
    for line in source:
        if line.startswith(("/*", "///")):
            yield _Part(comment, "\n".join(lines), condition)
            comment, lines = _comment(line, source), []
            continue
        is_outside = _is_whole(lines)
        if is_outside and (found := re.fullmatch(r"#if (BP_CFG_\w+)", line)):
            condition = found[1]
        elif is_outside and line == "#endif" and condition:
            yield _Part(comment, "\n".join(lines), condition)
            comment, lines, condition = "", [], ""
        elif not line and lines and is_outside:
            yield _Part(comment, "\n".join(lines), condition)
            comment, lines = "", []
        elif not line.startswith("#include") and (line or lines):
            lines.append(line)


def _comment(line: str, rest: Iterator[str]) -> str:
    """Return a comment's text, which goes on to its end."""
    if line.startswith("///"):
        return line
    text = line
    while not text.endswith("*/"):
        text += "\n" + next(rest)
    inner = text.removeprefix("/*").removesuffix("*/")
    return "\n".join(part.strip().removeprefix("*").strip() for part in inner.splitlines())


def _is_whole(lines: Sequence[str]) -> bool:
    """Tell whether all that was opened is closed: structs have blank lines, too."""
    text = "\n".join(lines)
    return text.count("{") == text.count("}") and text.count("#if") == text.count("#endif")


def _paragraphs(comment: str) -> list[str]:
    """Return a comment's text; what begins with one of our words is a paragraph of its own."""
    found: list[str] = []
    for line in comment.splitlines():
        if not found or line.startswith(_BREAKS) or not line:
            found.append(line)
        else:
            found[-1] = f"{found[-1]} {line}".strip()
    return [_safe(text) for text in found if text]


def _safe(text: str) -> str:
    """Return text in which Markdown sees no HTML."""
    pieces = text.split("`")
    pieces[::2] = [piece.replace("<", "&lt;").replace("*", "\\*") for piece in pieces[::2]]
    return "`".join(pieces)
