# SPDX-License-Identifier: Apache-2.0
"""What a board has proved, as plain data that its owner can send in.

It names no path, no serial number, no address and no user. Its hash shows that nobody has changed
it by mistake; it does not prove who made it.
"""

from __future__ import annotations

import hashlib
import json
import platform
import re
from collections.abc import Mapping, Sequence
from typing import Any

from boardprof import __version__
from boardprof.base.errors import UsageError
from boardprof.measure.doctor.check_board import proof_facts
from boardprof.measure.doctor.counters import Finding
from boardprof.measure.doctor.link_test import LinkReport, link_facts
from boardprof.results.record import Device
from boardprof.target.descriptions.board import BoardSpec

VERSION = 1
_HASH = "sha256"
_PRIVATE = re.compile(r"socket://\S+|/(?:dev|home|root|tmp|Users|private)/\S+|[A-Za-z]:\\\S+")


def proof_of(
    spec: BoardSpec, device: Device, findings: Sequence[Finding], link: LinkReport | None
) -> dict[str, Any]:
    """Return what was proved, with its hash; ``link`` is the test of the line, if there was one."""
    cable = None if link is None else link_facts(link)
    if cable is not None:
        del cable["port"]
    facts = {
        "boardprof_proof": VERSION,
        "board": device.name,
        "summary": spec.summary,
        "kind": "emulated" if device.is_emulator else "real",
        "boardprof": __version__,
        "agent": device.agent_version,
        "build": device.build_id,
        "flags": list(device.cflags),
        "clock": device.clock_kind,
        "sources": sorted(
            {counter.source for counter in device.counters if not counter.unsupported}
        ),
        "host": {"system": platform.system(), "python": platform.python_version()},
        "cable": cable,
        "findings": proof_facts(findings)["findings"],
    }
    facts = _without_private(facts)
    return {**facts, _HASH: content_hash(facts)}


def content_hash(facts: Mapping[str, Any]) -> str:
    """Return the SHA-256 of all facts but the hash itself, as JSON with sorted keys."""
    content = {name: value for name, value in facts.items() if name != _HASH}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def check_proof(facts: Mapping[str, Any], name: str) -> None:
    """Refuse a file that is not what `proof_of` has made."""
    if facts.get("boardprof_proof") != VERSION:
        raise UsageError(f"{name} is not a proof of a board.", hint="boardprof doctor --report DIR")
    if facts.get(_HASH) != content_hash(facts):
        raise UsageError(
            f"{name} was changed after it was made: its hash is another one.",
            hint="make it again with boardprof doctor --report DIR",
        )


def _without_private(value: Any) -> Any:
    if isinstance(value, str):
        return _PRIVATE.sub("(left out)", value)
    if isinstance(value, Mapping):
        return {key: _without_private(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_without_private(each) for each in value]
    return value
