# SPDX-License-Identifier: Apache-2.0
"""Write docs/report.schema.json: the form of rows, and that of the record by its types."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from boardprof.results.record_json import SCHEMA_VERSION, record_definitions

FILE = Path(__file__).parents[1] / "docs" / "report.schema.json"

ROW = {"$ref": "#/$defs/row"}
METRICS = {
    "count": {"type": "integer", "description": "Of any size: it may be beyond 64 bits."},
    "microseconds": {"$ref": "#/$defs/real"},
    "percent": {"$ref": "#/$defs/real"},
    "ratio": {"$ref": "#/$defs/real"},
    "string": {"type": "string"},
}
DEFINITIONS: dict[str, Any] = {
    "row": {
        "description": "Column name -> metric.",
        "type": "object",
        "additionalProperties": {"$ref": "#/$defs/metric"},
    },
    "metric": {
        "description": "A value with its kind: an object with one key.",
        "oneOf": [
            {
                "type": "object",
                "required": [tag],
                "additionalProperties": False,
                "properties": {tag: value},
            }
            for tag, value in METRICS.items()
        ],
    },
    "real": {
        "description": "A finite number, or the name of one that JSON does not have.",
        "oneOf": [{"type": "number"}, {"enum": ["inf", "-inf", "nan"]}],
    },
}
SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "$id": f"urn:boardprof:report:{SCHEMA_VERSION}",
    "title": f"boardprof Report, schema version {SCHEMA_VERSION}",
    "description": (
        "What Report.json(), `boardprof run --json` and `boardprof export json` write. "
        "docs/report-json.md explains it."
    ),
    "type": "object",
    "required": ["calls", "device_metrics", "configuration"],
    "additionalProperties": False,
    "properties": {
        "calls": {"description": "One row a sample, in run order.", "type": "array", "items": ROW},
        "device_metrics": {
            "description": "Totals of the whole run, by device.",
            "type": "object",
            "additionalProperties": ROW,
        },
        "configuration": {"description": "Facts about the run.", **ROW},
        "boardprof": {"$ref": "#/$defs/boardprof"},
    },
    "$defs": {**DEFINITIONS, **record_definitions()},
}


def main() -> int:
    """Write the file, or with ``--check`` say whether it is current."""
    text = json.dumps(SCHEMA, indent=2) + "\n"
    if sys.argv[1:] != ["--check"]:
        FILE.write_text(text, encoding="utf-8")
    elif FILE.read_text(encoding="utf-8") != text:
        print("docs/report.schema.json is not current: run make gen.", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
