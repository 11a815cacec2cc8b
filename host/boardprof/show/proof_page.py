# SPDX-License-Identifier: Apache-2.0
"""What a board has proved, as a page."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any

from boardprof.show.html import asset, filled_page, isolated, tables_html
from boardprof.show.layout import Page, text_table

_NO_CABLE = "not tested: the board was started on this machine"


def render_proof(facts: Mapping[str, Any]) -> str:
    """Return the facts of `boardprof.measure.doctor.proof.proof_of` as an HTML page."""
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
    rows = [(name.replace("_", " "), f"{value}") for name, value in cable.items() if value]
    return text_table(("What", "Found"), rows)


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
