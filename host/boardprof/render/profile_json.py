# SPDX-License-Identifier: Apache-2.0
"""Profiles as JSON text."""

from __future__ import annotations

import json
from collections.abc import Sequence

from boardprof.report.profile import Profile
from boardprof.report.profile_json import profile_json


def render_profiles(profiles: Sequence[Profile]) -> str:
    """Return a profile as a JSON object, several as an array of them."""
    found = [profile_json(profile) for profile in profiles]
    return json.dumps(found[0] if len(found) == 1 else found, indent=1) + "\n"
