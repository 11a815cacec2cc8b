# SPDX-License-Identifier: Apache-2.0
"""The record of a Report as JSON, which is under the key ``boardprof``; docs/report-json.md.

Only this module knows the keys. They are the attributes of the record's types, and annotations say
what a value may be: `form_of` makes a form of a type, which reads, writes and describes it.

Nothing is required, so that Reports of all releases can be read. Unknown keys are ignored. A text
or a number may be null if it is not known.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from enum import IntEnum
from functools import cache, cached_property
from itertools import chain
from types import NoneType, UnionType
from typing import Any, Final, TypeAlias, Union, get_args, get_origin, get_type_hints

from boardprof.base.errors import DecodeError, ReportFileError
from boardprof.base.metrics import Metric, metric_from_json, metric_to_json
from boardprof.results.record import (
    ColdRecord,
    Device,
    MeasurementRecord,
    Output,
    PassRecord,
    Record,
    SampleRecord,
)
from boardprof.results.report.calls import place_text
from boardprof.results.report.profile import (
    Profile,
    ProfileTables,
    SampledCalls,
    profile_of,
    tables_of,
)
from boardprof.wire.decode.dictionary import CollectorInfo, CounterInfo

SCHEMA_VERSION: Final = 1  # version of the layout that this package writes and reads

Place: TypeAlias = tuple[str | int, ...]

_KEYS: Final[Mapping[type, str]] = {
    Record: "devices measurements missing alternatives?",
    Device: (
        "clock_kind emulated cpu? port agent_version build_id cflags boot_id unsupported collectors"
    ),
    CounterInfo: "name source bits hz coarse_hz counts_in_sleep status detail instruction_ns?",
    MeasurementRecord: (
        "name device arguments inputs_crc32? label? stack stack_unknown? result outputs "
        "output_call? output_crc32s? tolerance? flags build_id clock_fit number warmup "
        "calls_before formulas compilers? libc? source? interrupts? cold? calibration hotspots? "
        "findings? energy? passes*"
    ),
    Output: "dtype shape crc32 values?",
    PassRecord: "collectors events samples calibration_samples totals interrupt_costs?",
    ColdRecord: "metrics calibration sample*",
    SampleRecord: "raw wraps? estimated? ambiguous? blobs",
    ProfileTables: (
        "function board columns exact state failure recorder total counted symbols totals paths "
        "calls frames instructions counts sources newer? sampled? modelled? unmodelled?"
    ),
}
"""The keys of a type, if not all of its attributes.

``?``: absent if it has its default; ``*``: the keys of the value are among the type's own.
"""

_BLANKS: Final[Mapping[type, dict[str, Any]]] = {CollectorInfo: {"index": -1}}
"""What a missing value is, if it is not the usual one of its type: an index of 0 is valid."""

_WHOLE: Final = frozenset([ProfileTables, SampledCalls])
"""Types that have all keys without a default in Reports of all releases."""

_NEEDED: Final = {str: "a string", int: "an integer", bool: "true or false", float: "a number"}


# -- the record -----------------------------------------------------------------------------------


def read_record(value: object) -> Record:
    """Read a record from parsed JSON, which is used up: its samples become the record's."""
    found = need_object(value, "boardprof")
    if "schema_version" not in found:
        raise _refusal("the schema version is missing", ("schema_version",))
    version = found["schema_version"]
    if type(version) is not int or version != SCHEMA_VERSION:
        raise ReportFileError(
            f"the file has schema version {version!r}, this boardprof reads {SCHEMA_VERSION}",
            where=place_text("boardprof", "schema_version"),
            hint="read it with the release of boardprof that wrote it, or with a newer one",
        )
    known = {"schema_version", *(key.rstrip("?") for key in _KEYS[Record].split())}
    others = {key: each for key, each in found.items() if key not in known}
    record: Record = form_of(Record).read(found, ())
    devices = {
        name: replace(device, name=name, clock_given=True)
        for name, device in record.devices.items()
    }
    return replace(record, devices=devices, others=others)


def record_text(record: Record) -> str:
    """Return a record as JSON."""
    members = [f'"schema_version":{SCHEMA_VERSION}', form_of(Record).text(record)[1:-1]]
    members += [f"{dumped(key)}:{dumped(value)}" for key, value in record.others.items()]
    return "{" + ",".join(members) + "}"


# -- forms ----------------------------------------------------------------------------------------


class Form:
    """What a type looks like in JSON; this one takes anything."""

    blank: Any = None  # a missing value, if its attribute has no default

    def read(self, value: Any, place: Place) -> Any:
        """Return what parsed JSON at a place means, or raise ReportFileError."""
        return value

    def text(self, value: Any) -> str:
        """Return a value as JSON."""
        return dumped(value)


class _Scalar(Form):
    """Values of some plain types; or null, which means that they are not known."""

    def __init__(self, *kinds: type, blank: object = None) -> None:
        self._types = frozenset(kinds) | ({int} if float in kinds else set())
        self.kinds = kinds
        self.blank = blank

    def read(self, value: Any, place: Place) -> Any:
        if type(value) in self._types:
            return value
        if value is None:
            return self.blank
        needed = " or ".join(_NEEDED[kind] for kind in self.kinds)
        raise _refusal(f"{needed} is needed, not {json_kind(value)}", place)

    def are_right(self, values: Iterable[object]) -> bool:
        """Tell whether none of many values is null or of another type."""
        return {*map(type, values)} <= self._types


class _OrNull(Form):
    def __init__(self, form: Form) -> None:
        self.form = form

    def read(self, value: Any, place: Place) -> Any:
        return None if value is None else self.form.read(value, place)

    def text(self, value: Any) -> str:
        return "null" if value is None else self.form.text(value)


class _Array(Form):
    blank = ()

    def __init__(self, form: Form) -> None:
        self.form = form

    def read(self, value: Any, place: Place) -> tuple[Any, ...]:
        found = _list(value, place)
        if isinstance(self.form, _Scalar) and self.form.are_right(found):
            return tuple(found)
        return tuple([self.form.read(each, (*place, i)) for i, each in enumerate(found)])

    def text(self, value: Any) -> str:
        if isinstance(self.form, _Scalar):
            return dumped(value)
        return "[" + ",".join(map(self.form.text, value)) + "]"


class _Samples(_Array):
    """Many samples: to look at them one by one takes several times as long."""

    def read(self, value: Any, place: Place) -> tuple[SampleRecord, ...]:
        try:
            return tuple(_quick_samples(_list(value, place)))
        except (KeyError, TypeError, ValueError):
            return super().read(value, place)

    def text(self, value: Sequence[SampleRecord]) -> str:
        return "[" + ",".join(_sample_texts(value, self.form)) + "]"


class _Pair(Form):
    """An array with a type for each place."""

    def __init__(self, *forms: Form) -> None:
        self.forms = forms

    def read(self, value: Any, place: Place) -> tuple[Any, ...]:
        found = _list(value, place)
        if len(found) != len(self.forms):
            raise _refusal(f"{len(self.forms)} values are needed, not {len(found)}", place)
        pairs = enumerate(zip(self.forms, found, strict=True))
        return tuple([form.read(each, (*place, i)) for i, (form, each) in pairs])


class _ByName(Form):
    blank: Mapping[str, Any] = {}  # nothing changes it

    def __init__(self, form: Form) -> None:
        self.form = form

    def read(self, value: Any, place: Place) -> dict[str, Any]:
        found = need_object(value, "boardprof", *place)
        if isinstance(self.form, _Scalar) and self.form.are_right(found.values()):
            return found
        return {key: self.form.read(each, (*place, key)) for key, each in found.items()}

    def text(self, value: Mapping[str, Any]) -> str:
        parts = (f"{dumped(key)}:{self.form.text(each)}" for key, each in value.items())
        return "{" + ",".join(parts) + "}"


class _Number(Form):
    """A member of an enumeration, by its number."""

    def __init__(self, kind: type[IntEnum]) -> None:
        self.kind = kind
        self.blank = kind(0)

    def read(self, value: Any, place: Place) -> IntEnum:
        try:
            return self.kind(form_of(int).read(value, place))
        except ValueError:
            raise _refusal(f"{value} is not a {self.kind.__name__}", place) from None


class _Bytes(Form):
    """Bytes as text: two hexadecimal digits each."""

    blank = b""

    def read(self, value: Any, place: Place) -> bytes:
        if value is not None and not isinstance(value, str):
            raise _refusal(f"hexadecimal text is needed, not {json_kind(value)}", place)
        try:
            found = bytes.fromhex(value or "")
        except ValueError:
            found = b""
        if len(value or "") != 2 * len(found):  # fromhex ignores blanks
            raise _refusal(f"{value:.20} is not hexadecimal, two digits a byte", place)
        return found

    def text(self, value: bytes) -> str:
        return f'"{value.hex()}"'


class _Metric(Form):
    """A value as in rows."""

    def read(self, value: Any, place: Place) -> Metric:
        try:
            return metric_from_json(value)
        except ValueError as error:
            raise _refusal(str(error), place) from None

    def text(self, value: Metric) -> str:
        return dumped(metric_to_json(value))


@dataclass(frozen=True)
class _Key:
    """A key of an object, and the attribute of the same name."""

    name: str
    form: Form
    default: Any
    is_written: bool  # even if the value is the default
    is_inline: bool  # the keys of the value are among the object's own


class _Object(Form):
    """An object with a key for each attribute of a type."""

    def __init__(self, kind: type[Any]) -> None:
        self.kind = kind

    @cached_property
    def keys(self) -> list[_Key]:
        hints, defaults = get_type_hints(self.kind), _defaults(self.kind)
        text = _KEYS.get(self.kind, " ".join(hints))
        found = []
        for key in text.split():
            name = key.rstrip("?*")
            form = form_of(hints[name])
            default = defaults.get(name, MISSING if self.kind in _WHOLE else form.blank)
            found.append(_Key(name, form, default, key == name, key.endswith("*")))
        return found

    def read(self, value: Any, place: Place) -> Any:
        found = need_object(value, "boardprof", *place)
        return self.kind(**{key.name: self._value(key, found, place) for key in self.keys})

    def _value(self, key: _Key, found: dict[str, Any], place: Place) -> Any:
        if key.is_inline:
            return key.form.read(found, place)
        value = found.get(key.name, MISSING)
        if value is not MISSING and not (value is None and isinstance(key.form, _Scalar)):
            return key.form.read(value, (*place, key.name))
        if key.default is MISSING:
            raise _refusal(f"the key {key.name} is missing", place)
        return key.default

    def members(self, value: Any) -> Iterator[str]:
        for key in self.keys:
            each = getattr(value, key.name)
            if isinstance(key.form, _Object) and key.is_inline:
                yield from key.form.members(each)
            elif key.is_written or each != key.default:
                yield f'"{key.name}":{key.form.text(each)}'

    def text(self, value: Any) -> str:
        return "{" + ",".join(self.members(value)) + "}"


class _Passes(_Object):
    """The passes of a measurement: the first one's keys are among the measurement's own."""

    def __init__(self) -> None:
        super().__init__(PassRecord)
        self.further = _Array(_Object(PassRecord))

    def read(self, value: Any, place: Place) -> tuple[PassRecord, ...]:
        further = value.get("further_passes", [])
        further_place = (*place, "further_passes")
        return (super().read(value, place), *self.further.read(further, further_place))

    def members(self, value: Sequence[PassRecord]) -> Iterator[str]:
        yield from super().members(value[0])
        yield f'"further_passes":{self.further.text(value[1:])}'


class _Profile(Form):
    """A profile, as tables whose rows name rows of others by number."""

    tables = _Object(ProfileTables)

    def read(self, value: Any, place: Place) -> Profile:
        tables = self.tables.read(value, place)
        try:
            return profile_of(tables)
        except DecodeError as error:
            raise _refusal(error.message, place) from error

    def text(self, value: Profile) -> str:
        return self.tables.text(tables_of(value))


@cache
def form_of(hint: Any) -> Form:
    """Return the form of a type in annotations."""
    if hint in _FORMS:
        return _FORMS[hint]()
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        kinds = [kind for kind in arguments if kind is not NoneType]
        if all(kind in _NEEDED for kind in kinds):
            return _Scalar(*kinds)
        return _OrNull(form_of(kinds[0]))
    if origin is tuple and arguments[-1] is Ellipsis:
        return _Array(form_of(arguments[0]))
    if origin is tuple:
        return _Pair(*map(form_of, arguments))
    if origin is not None:
        return _ByName(form_of(arguments[1]))
    return _Number(hint) if issubclass(hint, IntEnum) else _Object(hint)


_FORMS: Final[Mapping[Any, Callable[[], Form]]] = {
    Any: Form,
    object: Form,
    str: lambda: _Scalar(str, blank=""),
    int: lambda: _Scalar(int, blank=0),
    bool: lambda: _Scalar(bool, blank=False),
    float: lambda: _Scalar(float, blank=0.0),
    bytes: _Bytes,
    Metric: _Metric,
    Profile: _Profile,
    tuple[SampleRecord, ...]: lambda: _Samples(form_of(SampleRecord)),
    tuple[PassRecord, ...]: _Passes,
}


def _defaults(kind: type[Any]) -> dict[str, Any]:
    if issubclass(kind, tuple):
        return dict(kind._field_defaults)  # type: ignore[attr-defined]
    found = {each.name: each.default for each in fields(kind) if each.default is not MISSING}
    for each in fields(kind):
        if each.default_factory is not MISSING:
            found[each.name] = each.default_factory()
    return found | _BLANKS.get(kind, {})


# -- samples --------------------------------------------------------------------------------------


def _quick_samples(values: list[Any]) -> list[SampleRecord]:
    """Turn samples that are written as usual into records, one by one; else raise any error."""
    raws = [each["raw"] for each in values]
    texts = [each["blobs"] for each in values]
    size = sum(map(len, map(bytes.fromhex, texts)))
    has_usual = {*map(len, values)} <= {2} and {*map(type, raws)} <= {dict}
    counts = chain.from_iterable(map(dict.values, raws))
    if not has_usual or not {*map(type, counts)} <= {int}:
        raise ValueError
    if sum(map(len, texts)) != 2 * size:  # fromhex ignores blanks
        raise ValueError
    del raws, texts
    for number, each in enumerate(values):
        values[number] = SampleRecord(each["raw"], bytes.fromhex(each["blobs"]))
    return values


def _sample_texts(samples: Sequence[SampleRecord], form: Form) -> Iterator[str]:
    """Yield samples as JSON: those without doubts by a template for their counters."""
    templates: dict[tuple[str, ...], str] = {}
    for sample in samples:
        raw, blobs, wraps, estimated, ambiguous = sample
        if wraps or estimated or ambiguous:
            yield form.text(sample)
            continue
        names = tuple(raw)
        if names not in templates:
            members = ",".join(dumped(name).replace("%", "%%") + ":%d" for name in names)
            templates[names] = f'{{"raw":{{{members}}},"blobs":"%s"}}'
        yield templates[names] % (*raw.values(), blobs.hex())


# -- parts ----------------------------------------------------------------------------------------


def dumped(value: object) -> str:
    """Return a value as JSON without blanks."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def json_kind(value: object) -> str:
    """Return the JSON type of a value with its article."""
    names = {dict: "an object", list: "an array", str: "a string", bool: "true or false"}
    return names.get(type(value), "null" if value is None else "a number")


def need_object(value: object, root: str, *keys: str | int) -> dict[str, Any]:
    """Return ``value`` if it is an object; raise ReportFileError otherwise."""
    if not isinstance(value, dict):
        message = f"a JSON object is needed, not {json_kind(value)}"
        raise ReportFileError(message, where=place_text(root, *keys))
    return value


def _list(value: Any, place: Place) -> list[Any]:
    if not isinstance(value, list):
        raise _refusal(f"a JSON array is needed, not {json_kind(value)}", place)
    return value


def _refusal(message: str, place: Place) -> ReportFileError:
    return ReportFileError(message, where=place_text("boardprof", *place))
