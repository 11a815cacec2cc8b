# SPDX-License-Identifier: Apache-2.0
"""What pages are made of: the files of ``page``, tables, and data for their scripts."""

from __future__ import annotations

import base64
import hashlib
import html
import re
from functools import cache
from importlib import resources
from string import Template

from boardprof import __version__
from boardprof.base.printable import bounded
from boardprof.show.layout import Page, Table


@cache
def asset(name: str) -> str:
    """Return a file of the folder ``page``."""
    text = resources.files("boardprof.show").joinpath("page", name).read_text(encoding="utf-8")
    return re.sub(r"^ +", "", text, flags=re.MULTILINE)  # indentation is a twelfth of the page


def filled_page(name: str, style: str, script: str = "", **parts: str) -> str:
    """Return a page of the folder ``page``, whose security policy allows only its own code."""
    return Template(asset(name)).substitute(
        version=__version__,
        style=style,
        script=script,
        style_hash=_content_hash(style),
        script_hash=_content_hash(script),
        **parts,
    )


def _content_hash(content: str) -> str:
    digest = hashlib.sha256(content.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode('ascii')}"


def isolated(text: str) -> str:
    """Return text for the page: escaped, printable, and with an isolated direction."""
    return f"<bdi>{html.escape(bounded(text))}</bdi>"


def page_html(page: Page) -> str:
    """Return tables and lines of a page for terminals as HTML."""
    return "\n".join(
        _table(part) if isinstance(part, Table) else f'<p class="note">{isolated(part)}</p>'
        for part in page
        if part
    )


def _table(table: Table) -> str:
    kinds = ["text" if column.is_text else "num" for column in table.columns]
    heads = (
        f'<th scope="col" class="{kind}">{isolated(column.header)}</th>'
        for kind, column in zip(kinds, table.columns, strict=True)
    )
    rows = (
        f'<tr><th scope="row"><span class="name">{isolated(first)}</span></th>'
        + "".join(
            f'<td class="{kind}">{isolated(cell)}</td>'
            for kind, cell in zip(kinds[1:], cells, strict=True)
        )
        + "</tr>"
        for first, *cells in zip(*(column.cells for column in table.columns), strict=True)
    )
    return (
        f'<div class="scroll"><table><thead><tr>{"".join(heads)}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def inert(text: str) -> str:
    """Return JSON that cannot end the HTML element around it."""
    return text.replace("<", r"\u003c")
