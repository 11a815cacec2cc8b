# SPDX-License-Identifier: Apache-2.0
"""A file with a recording: a zip archive of its facts, as JSON, and of the bytes as they came."""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from dataclasses import asdict
from typing import Any

from boardprof.base.errors import ReportFileError
from boardprof.base.writing import write_bytes
from boardprof.results.probes.probe_names import read_names
from boardprof.results.probes.recording import ProbeRecording, Recorded, Slot, Task, TraceClock
from boardprof.results.probes.timeline import ProbeCosts

VERSION = 1
"""Of the archive's content."""

_FACTS, _CONTENT = "boardprof-trace.json", "blocks"
_MOST_BYTES = 1 << 33
"""Of what an archive unpacks to: more is not a recording."""


_DAMAGED = (
    *(AttributeError, EOFError, KeyError, OverflowError, TypeError, ValueError),
    *(zipfile.BadZipFile, zlib.error),
    RuntimeError,  # zipfile: the archive is encrypted, or packed in a way it does not know
)


def write_recording(recording: ProbeRecording, file: str) -> None:
    """Write a recording; a regular file completely or not at all.

    Raises:
        UsageError, StorageError: the file cannot be written.
    """
    facts = {
        "version": VERSION,
        "recorded": asdict(recording.facts),
        "clock": asdict(recording.clock),
        "costs": asdict(recording.costs),
        "names": recording.names.section().hex(),
        "slots": [asdict(slot) for slot in recording.slots],
        "tasks": [asdict(task) for task in recording.tasks],
        "stopped": recording.stopped,
    }
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(_FACTS, json.dumps(facts, indent=1))
        archive.writestr(_CONTENT, recording.content)
    write_bytes(packed.getvalue(), file)


def read_recording(file: str) -> ProbeRecording:
    """Read a file that `write_recording` has written.

    Raises:
        ReportFileError: it cannot be read, is damaged, or is of a later version.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            if sum(entry.file_size for entry in archive.infolist()) > _MOST_BYTES:
                raise ValueError("it unpacks to more than 8 GiB")
            facts: dict[str, Any] = json.loads(archive.read(_FACTS))
            content = archive.read(_CONTENT)
        if facts["version"] != VERSION:
            raise ValueError(f"it has version {facts['version']}, not {VERSION}")
        return ProbeRecording(
            Recorded(**facts["recorded"]),
            TraceClock(**facts["clock"]),
            read_names(bytes.fromhex(facts["names"])),
            ProbeCosts(**facts["costs"]),
            content,
            tuple(Slot(**slot) for slot in facts["slots"]),
            tuple(Task(**task) for task in facts["tasks"]),
            facts.get("stopped"),  # not in files of 0.2.0
        )
    except OSError as error:
        raise ReportFileError(f"{file} cannot be read: {error.strerror}.") from error
    except _DAMAGED as error:
        raise ReportFileError(
            f"{file} is not a trace of this boardprof: {error}.",
            hint="a file that `boardprof trace -o FILE` wrote",
        ) from error
