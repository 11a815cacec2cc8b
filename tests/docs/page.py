# SPDX-License-Identifier: Apache-2.0
"""A page of the documentation, taken apart: its fenced blocks, their marks, its inline code, links.

A mark is an HTML comment on the line above a fence, which readers do not see:

- ``<!-- file: fir.c -->``: the block is put into that file, beside the commands of the page.
- ``<!-- not run: REASON -->``: the block is only shown.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tests.support import ROOT

__all__ = ["PAGES", "Block", "Command", "blocks_of", "commands_of", "name_of"]
__all__ += ["prose_of"]

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]

_FENCE = re.compile(r"( *)```([^\n`]*)\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
_MARK = re.compile(r"<!-- (file|not run): *(.*?) *-->\n *$")


@dataclass(frozen=True)
class Block:
    """A fenced block.

    Attributes:
        language: behind the fence; "" where there is none.
        text: of the block.
        line: of its fence, from 1.
        file: to be made of it; None: none.
        reason: why it is not run; None: it is.
        follows: whether nothing stands between it and the block before.
    """

    language: str
    text: str
    line: int
    file: str | None
    reason: str | None
    follows: bool


@dataclass(frozen=True)
class Command:
    """A command of a ``console`` or ``sh`` block, and what is shown below it; None: nothing is."""

    text: str
    shown: tuple[str, ...] | None


def blocks_of(text: str) -> list[Block]:
    """Return the blocks of a page, in their order."""
    found = []
    end = 0
    for match in _FENCE.finditer(text):
        before = text[end : match.start()]
        mark = _MARK.search(before)
        kind, value = (mark[1], mark[2]) if mark else (None, None)
        indent = match[1]
        body = "".join(line.removeprefix(indent) for line in match[3].splitlines(keepends=True))
        found.append(
            Block(
                match[2].strip(),
                body,
                text.count("\n", 0, match.start()) + 1,
                value if kind == "file" else None,
                value if kind == "not run" else None,
                bool(found) and not before.strip(),
            )
        )
        end = match.end()
    return found


def commands_of(block: Block) -> list[Command]:
    """Return the commands of a block; those of ``console`` begin with "$ "."""
    if block.language == "sh":
        lines = [x for x in block.text.replace("\\\n", " ").splitlines() if x.strip()]
        return [Command(line, None) for line in lines]
    commands = []
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE):
        head, _, rest = re.sub(r"\\\n *", "", part).partition("\n")
        if part:
            shown = tuple(line.rstrip() for line in rest.splitlines() if line.strip())
            commands.append(Command(head, shown))
    return commands


def prose_of(text: str) -> str:
    """Return a page without its blocks."""
    return _FENCE.sub("", text)


def name_of(page: Path) -> str:
    """Return a page's name, as tests show it."""
    return page.relative_to(ROOT).as_posix()
