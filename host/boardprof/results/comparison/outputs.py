# SPDX-License-Identifier: Apache-2.0
"""Outputs that changed: what one call returned and wrote, before and after.

Reports keep a checksum of each array, and of small arrays of numbers the values. Without values,
floats can only be compared bit by bit.
"""

from __future__ import annotations

import base64
import math
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from boardprof.base.errors import ReportFileError, option
from boardprof.results.comparison.comparison import OutputChange, first_of, keys_of, row_title
from boardprof.results.comparison.compatibility import Pairing
from boardprof.results.record import RETURN, MeasurementRecord, Output
from boardprof.results.report.report import Report
from boardprof.results.row_origins import GroupKey, keyed_measurements

Number: TypeAlias = int | float
_Place: TypeAlias = tuple[int, ...]

_CODES: Final = {
    **{f"int{8 * size}": code for size, code in ((1, "b"), (2, "h"), (4, "i"), (8, "q"))},
    **{f"uint{8 * size}": code for size, code in ((1, "B"), (2, "H"), (4, "I"), (8, "Q"))},
    **{"bool": "?", "float16": "e", "float32": "f", "float64": "d"},
}
"""Python's code (module struct) of each of numpy's types whose values are kept."""


def values_of(output: Output) -> Sequence[Number] | None:
    """Return the values of an output in row-major order; None if they are not kept."""
    code = _CODES.get(output.dtype)
    if not output.values or code is None:
        return None
    form = f"<{math.prod(output.shape)}{code}"
    try:
        content = base64.b64decode(output.values, validate=True)
        most = struct.calcsize(form) + 1  # so that a longer content is noticed
        return struct.unpack(form, zlib.decompressobj().decompress(content, most))
    except (ValueError, zlib.error, struct.error):
        raise ReportFileError(
            f"the values of an output, {_kind(output)}, are damaged",
            hint="measure again, or leave out `values` of this output in the file",
        ) from None


@dataclass(frozen=True)
class ComparedOutputs:
    """The outputs that changed, and notes on those that were not compared."""

    changes: tuple[OutputChange, ...] = ()
    notes: tuple[str, ...] = ()


def compare_outputs(
    before: Report, after: Report, pairing: Pairing, tolerance: float = 0.0
) -> ComparedOutputs:
    """Compare the outputs of the functions that both Reports have, on the same board.

    ``tolerance``: the largest relative difference of floats. A measurement may have its own one.
    """
    olds = {pairing.key(key, is_old=True): each for key, each in keyed_measurements(before)}
    changes: list[OutputChange] = []
    unknown: dict[str, None] = {}
    others: dict[str, dict[str, None]] = {}
    for key, new in keyed_measurements(after):
        old = olds.get(pairing.key(key, is_old=False))
        if old is None or old.device != new.device:  # another board has other types
            continue
        is_early = None in (old.output_call, new.output_call)
        had, has = _outputs(old, is_early), _outputs(new, is_early)
        if has and not had:
            unknown[key.title] = None
        found = [*_changes(key, had, has, max(tolerance, new.tolerance))] if had else []
        if found and (why := _why_not(old, new)):
            others.setdefault(why, {})[row_title(key)] = None
        else:
            changes += found
    notes = [
        f"The outputs of {first_of(names)} differ, but {why}." for why, names in others.items()
    ]
    if unknown:
        names = first_of(unknown)
        notes.append(f"Outputs are not compared, because the older side has none: {names}.")
    return ComparedOutputs(tuple(changes), tuple(notes))


def _outputs(measurement: MeasurementRecord, is_early: bool) -> Mapping[str, object]:
    """Return the outputs by name; the return value first, if it is a number or a text.

    The checksums of structs in early Reports cover the padding, so they are left out.
    """
    found: dict[str, object] = {
        name: each
        for name, each in measurement.outputs.items()
        if not (is_early and each.dtype.startswith(("[", "{")))
    }
    if measurement.result is None or RETURN in measurement.outputs:
        return found
    return {RETURN: measurement.result, **found}


def _why_not(old: MeasurementRecord, new: MeasurementRecord) -> str:
    """Return why a difference says nothing about the code; "" if it does."""
    if old.inputs_crc32 and new.inputs_crc32 and old.inputs_crc32 != new.inputs_crc32:
        return "the arrays had other contents before"
    if _are_of_other_calls(old, new):
        same = ", ".join(map(option, ("--repeat", "--number", "--warmup", "--cold")))
        return f"they are from different calls: give both runs the same {same}"
    return ""


def _are_of_other_calls(old: MeasurementRecord, new: MeasurementRecord) -> bool:
    """Tell whether outputs are from different calls, as far as it is known."""
    if None not in (old.output_call, new.output_call):
        return old.output_call != new.output_call
    if None in (old.warmup, new.warmup):
        return False
    calls = [
        (each.warmup, each.number, [len(one.samples) for one in each.passes]) for each in (old, new)
    ]
    return calls[0] != calls[1]


def _changes(
    key: GroupKey, had: Mapping[str, object], has: Mapping[str, object], tolerance: float
) -> Iterator[OutputChange]:
    for name in dict.fromkeys([*had, *has]):
        text = _difference(name, had.get(name), has.get(name), tolerance)
        if text:
            yield OutputChange(**keys_of(key), metric=f"output {name}", text=text)


def _difference(name: str, old: object, new: object, tolerance: float) -> str:
    """Return how two outputs differ; "" if they are the same."""
    if isinstance(old, Output) and isinstance(new, Output):
        return _array_difference(name, old, new, tolerance)
    if isinstance(old, Output) or isinstance(new, Output) or old is None or new is None:
        return f"it is {_kind(old)} before, {_kind(new)} after"
    if is_same(old, new, tolerance):
        return ""
    return f"{old} before, {new} after"


def _kind(output: object) -> str:
    if isinstance(output, Output):
        return f"{output.dtype}{[*output.shape]}"
    return "absent" if output is None else f"{output}"


def _array_difference(name: str, old: Output, new: Output, tolerance: float) -> str:
    if (old.dtype, old.shape) != (new.dtype, new.shape):
        return f"it is {_kind(old)} before, {_kind(new)} after"
    if old.crc32 == new.crc32:
        return ""
    olds, news = values_of(old), values_of(new)
    if olds is None or news is None:
        is_float = old.dtype.startswith("float")
        untested = "; without its values, no tolerance applies" if tolerance and is_float else ""
        return f"its checksum is {old.crc32} before, {new.crc32} after{untested}"
    differs = [
        at for at, pair in enumerate(zip(olds, news, strict=True)) if not is_same(*pair, tolerance)
    ]
    if not differs:
        return ""  # floats within the tolerance, or NaNs with other bits
    first = differs[0]
    place = "".join(f"[{index}]" for index in _index(old.shape, first))
    few = f"{len(differs):,} of {len(olds):,} values differ; the first is "
    return f"{few if len(olds) > 1 else ''}{name}{place}: {olds[first]} before, {news[first]} after"


def _index(shape: Sequence[int], at: int) -> _Place:
    """Return the indices of the value at a place in row-major order."""
    found: list[int] = []
    for length in reversed(shape):
        at, index = divmod(at, length)
        found.insert(0, index)
    return tuple(found)


def is_same(old: object, new: object, tolerance: float) -> bool:
    """Compare two numbers or texts: floats within a share of the old one; NaN equals NaN."""
    if isinstance(old, float) or isinstance(new, float):
        if not (isinstance(old, int | float) and isinstance(new, int | float)):
            return False
        if math.isnan(old) or math.isnan(new):
            return math.isnan(old) and math.isnan(new)
        if not tolerance:
            return old == new and math.copysign(1, old) == math.copysign(1, new)
        return old == new or abs(new - old) <= tolerance * abs(old) < math.inf
    return old == new
