# SPDX-License-Identifier: Apache-2.0
"""Write docs/report.schema.json: the form of rows, and that of the record by its types."""

from __future__ import annotations

import inspect
import json
import re
import sys
from pathlib import Path
from typing import Any

from boardprof.results.record import Record, SourcePlace
from boardprof.results.record_json import (
    SCHEMA_VERSION,
    Form,
    _Array,
    _ByName,
    _Bytes,
    _Metric,
    _Number,
    _Object,
    _OrNull,
    _Pair,
    _Passes,
    _Profile,
    _Scalar,
    form_of,
)
from boardprof.results.report.profile import ProfileTables, SampledCalls
from boardprof.wire.decode.clock import ClockFit
from boardprof.wire.decode.dictionary import CollectorInfo, CounterInfo

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
TYPES = {str: "string", int: "integer", bool: "boolean", float: "number"}
NAMES: dict[type, str] = {
    Record: "boardprof",
    CollectorInfo: "collector",
    CounterInfo: "counter",
    ClockFit: "clock_fit",
    SampledCalls: "sampled",
    ProfileTables: "hotspots",
    SourcePlace: "source",
}
"""Names of types in the schema, if they are not those of the type."""

VERSION = {
    "description": (
        "Of this object. Raised when a reader of the version before would misread it; new keys "
        "alone do not raise it."
    ),
    "const": SCHEMA_VERSION,
}


def schema(form: Form, found: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON Schema of a form; add those of the types that it refers to."""
    match form:
        case _Scalar():
            names = [TYPES[kind] for kind in form.kinds] + ["null"] * (form.blank is None)
            return {"type": names[0] if len(names) == 1 else names}
        case _OrNull():
            return {"anyOf": [schema(form.form, found), {"type": "null"}]}
        case _Array():
            return {"type": "array", "items": schema(form.form, found)}
        case _Pair():
            parts = [schema(each, found) for each in form.forms]
            size = len(parts)
            return {"type": "array", "prefixItems": parts, "minItems": size, "maxItems": size}
        case _ByName():
            return {"type": "object", "additionalProperties": schema(form.form, found)}
        case _Number():
            names = [f"{each.value} {each.name.lower()}" for each in form.kind]
            return {"enum": [each.value for each in form.kind], "description": ", ".join(names)}
        case _Bytes():
            return {"type": "string", "pattern": "^([0-9a-f]{2})*$"}
        case _Metric():
            return {"$ref": "#/$defs/metric"}
        case _Profile():
            return schema(form.tables, found)
        case _Object():
            name = NAMES.get(form.kind) or form.kind.__name__.removesuffix("Record").lower()
            if name not in found:
                found[name] = {"type": "object"}  # before those that it refers to
                found[name]["properties"] = properties(form, found)
            return {"$ref": f"#/$defs/{name}"}
    return {}


def properties(form: _Object, found: dict[str, Any]) -> dict[str, Any]:
    """Return the schemas of the keys of an object."""
    texts = attribute_texts(form.kind)
    keys: dict[str, Any] = {}
    for key in form.keys:
        if isinstance(key.form, _Object) and key.is_inline:
            keys |= properties(key.form, found)
        else:
            text = {"description": texts[key.name]} if key.name in texts else {}
            keys[key.name] = {**text, **schema(key.form, found)}
    if isinstance(form, _Passes):
        keys["further_passes"] = schema(form.further, found)
    return keys


def attribute_texts(kind: type[Any]) -> dict[str, str]:
    """Return what comments say of a type's attributes, as whole sentences."""
    found: dict[str, str] = {}
    for own in (each for each in kind.__mro__ if each.__module__.startswith("boardprof.")):
        attributes = r"^((?:    #:? .*\n)*)    (\w+): [^#\n]*(?:#:? (.*))?$"
        for before, name, behind in re.findall(attributes, inspect.getsource(own), re.MULTILINE):
            lines = re.sub(r"^    #:? ", "", f"{before}{behind}", flags=re.MULTILINE)
            text = " ".join(lines.split()).replace("``", "").removesuffix(".")
            found |= {name: f"{text[:1].upper()}{text[1:]}."} if text else {}
    return found


def record_definitions() -> dict[str, Any]:
    """Return the schemas of a record's types by name; ``boardprof`` is the record itself."""
    found: dict[str, Any] = {}
    schema(form_of(Record), found)
    record = found["boardprof"]
    record["properties"] = {"schema_version": VERSION, **record["properties"]}
    record["required"] = ["schema_version"]
    return found


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
