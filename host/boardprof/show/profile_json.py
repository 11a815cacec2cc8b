# SPDX-License-Identifier: Apache-2.0
"""Profiles as JSON, which `boardprof hotspots --json` writes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from boardprof.results.record_json import form_of
from boardprof.results.report.profile import FunctionCost, LineCost, Profile


def render_profiles(profiles: Sequence[Profile]) -> str:
    """Return a profile as a JSON object, several as an array of them."""
    found = [profile_json(profile) for profile in profiles]
    return json.dumps(found[0] if len(found) == 1 else found, indent=1) + "\n"


def profile_json(profile: Profile) -> dict[str, Any]:
    """Return a profile as JSON values, for readers that want the result.

    ``total``, ``functions`` and ``lines`` are of ``metric``; ``record`` has all that was recorded.
    Sampled figures have a share with a 95 % interval, and null where samples tell nothing.
    """
    return {
        "function": profile.function,
        "board": profile.board,
        "metric": profile.metric,
        "total": profile.sum(),
        "exact": profile.exact,
        "complete": profile.is_complete,
        "interrupts": profile.interrupts(),
        "functions": [
            {
                "name": each.name,
                "file": each.file,
                "line": each.line,
                "self": each.self,
                "total": each.total,
                "calls": each.calls if profile.exact else None,
                **_estimate(each),
            }
            for each in profile.functions()
        ],
        "lines": [
            {"file": each.file, "line": each.line, "self": each.self, **_estimate(each)}
            for each in profile.lines()
        ],
        "record": json.loads(form_of(Profile).text(profile)),
    }


def _estimate(cost: FunctionCost | LineCost) -> dict[str, Any]:
    return {} if cost.interval is None else {"share": cost.share, "interval": [*cost.interval]}
