# SPDX-License-Identifier: Apache-2.0
"""The result of one check of a board, as a line and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["FAILED", "OK", "SKIPPED", "UNSUPPORTED", "Finding", "finding_text", "listed"]
__all__ += ["proof_facts"]

OK, FAILED, UNSUPPORTED, SKIPPED = "ok", "failed", "unsupported", "not proven"


@dataclass(frozen=True)
class Finding:
    """The result of one check.

    Attributes:
        subject: a counter's name, or ``counters`` where none works, ``clock``, ``coarse clock``,
            ``arena``, ``stack``, or ``time limit`` where the board has ended a call.
        verdict: `OK`, `FAILED`, `UNSUPPORTED` or `SKIPPED`.
        text: what was seen.
        is_counter: whether the subject is a counter's name.
    """

    subject: str
    verdict: str
    text: str
    is_counter: bool = False


def finding_text(found: Finding) -> str:
    """Return a finding as a line."""
    return f"{found.subject:<23} {found.verdict:<12} {found.text}"


def proof_facts(findings: Sequence[Finding]) -> dict[str, Any]:
    """Return the findings as JSON shows them.

    ``unsupported`` is what board.toml's table of that name would have to say of the counters that
    failed, if they cannot be made right.
    """
    return {
        "schema_version": 1,
        "findings": [
            {"subject": f.subject, "verdict": f.verdict, "text": f.text} for f in findings
        ],
        "unsupported": {
            f.subject: f.text for f in findings if f.verdict == FAILED and f.is_counter
        },
    }


def listed(values: Sequence[float], unit: str) -> str:
    """Return numbers with their unit: ``1, 2, 3 bytes``."""
    return ", ".join(f"{value:,.0f}" for value in values) + f" {unit}"
