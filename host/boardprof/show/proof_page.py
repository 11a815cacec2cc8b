# SPDX-License-Identifier: Apache-2.0
"""What a board has proved, as a page."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping
from typing import Any

from boardprof.base.metrics import Count
from boardprof.show.cells import number_text
from boardprof.show.html import asset, filled_page, isolated, tables_html
from boardprof.show.layout import Page, text_table

_NO_CABLE = "not tested: the board was started on this machine"


def render_proof(facts: Mapping[str, Any]) -> str:
    """Return the facts of `boardprof.measure.doctor.check_board.proof_of` as an HTML page."""
    about = f"{facts['kind']} board \N{MIDDLE DOT} boardprof {facts['boardprof']}"
    return filled_page(
        "proof.html",
        asset("page.css"),
        title=html.escape(f"{facts['board']} \N{MIDDLE DOT} boardprof proof"),
        heading=isolated(facts["board"]),
        facts=isolated(about),
        notes="",
        tables=_sections(facts),
    )


def _sections(facts: Mapping[str, Any]) -> str:
    found = [
        (each["subject"], each["verdict"], each["text"])
        for each in facts["findings"]
        if not each["subject"].startswith("guard: ")
    ]
    guards = [
        (each["subject"].removeprefix("guard: "), each["verdict"], each["text"])
        for each in facts["findings"]
        if each["subject"].startswith("guard: ")
    ]
    parts: list[tuple[str, Page]] = [
        ("Counters, clock and memory", [text_table(("What", "Verdict", "Found"), found)]),
        ("What ends a call", [text_table(("Cause", "Verdict", "Found"), guards)]),
        ("The cable", [_cable(facts["cable"])]),
        ("Versions", [text_table(("What", "Which"), _versions(facts))]),
    ]
    return "".join(
        f"<section>\n<h2>{title}</h2>\n{tables_html(page)}\n</section>\n" for title, page in parts
    )


def _cable(cable: Mapping[str, Any] | None) -> Any:
    if cable is None:
        return f"The cable was {_NO_CABLE}."
    return text_table(("What", "Found"), [*_cable_rows(cable)])


def _cable_rows(facts: Mapping[str, Any], of: str = "") -> Iterator[tuple[str, str]]:
    """Yield what was measured, also zeros; a null was not."""
    for name, value in facts.items():
        what = f"{of}{name.replace('_', ' ')}"
        if isinstance(value, Mapping):
            yield from _cable_rows(value, f"{what}, ")
        elif isinstance(value, bool):
            yield what, "yes" if value else "no"
        elif isinstance(value, int | float):
            yield what, number_text(value, Count)
        elif value is not None:
            yield what, f"{value}"


def _versions(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    host = facts["host"]
    return [
        ("board", facts["summary"]),
        ("agent", f"{facts['agent']}, build {facts['build']}"),
        ("counters", ", ".join(facts["sources"])),
        ("flags", " ".join(facts["flags"])),
        ("host", f"{host['system']}, Python {host['python']}"),
        ("sha256", facts["sha256"]),
    ]
