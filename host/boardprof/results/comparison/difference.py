# SPDX-License-Identifier: Apache-2.0
"""The difference of one metric, judged: the same, better, worse, or only noise; and of outputs.

Reports keep a checksum of each array that a call wrote, and of small arrays of numbers the values.
Without values, floats can only be compared bit by bit.
"""

from __future__ import annotations

import base64
import math
import struct
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from boardprof.base.errors import ReportFileError, option
from boardprof.base.metrics import Percent, Ratio
from boardprof.results.comparison.comparison import (
    DIFFERENT,
    Difference,
    OutputChange,
    Unjudged,
    Verdict,
    first_of,
    keys_of,
)
from boardprof.results.comparison.compatibility import Pairing
from boardprof.results.record import RETURN, MeasurementRecord, Output
from boardprof.results.report.calls import IN_PLACE
from boardprof.results.report.report import Report
from boardprof.results.row_origins import GroupKey, keyed_measurements
from boardprof.results.stats.groups import GroupSummary
from boardprof.results.stats.summary import mann_whitney, signed_rank, smallest_p, summarize

_GRAINS = 2  # a window and its calibration are each uncertain by one step of the clock
_ROUNDED = 1 + 1e-9  # values per call and times are rounded, which is not a difference


def difference(
    key: GroupKey,
    before: GroupSummary | None,
    after: GroupSummary | None,
    alpha: float,
    sessions: int = 1,
) -> Difference:
    """Compare one metric of one group; either side may be missing.

    Exact values differ by any difference. They come from a deterministic board, and either all
    samples are equal, or both runs made the same calls, so that the n-th samples belong together.
    Otherwise they are not comparable, since any difference may come from the function's state.
    Values of its clock differ if the difference is more than the clock's steps. Other values differ
    if the rank test gives p < alpha, and if the difference is more than the clock's steps and the
    uncertainty of the overhead. All samples of a run share an error of the overhead. If there are
    too few samples for such a p, the verdict says so.

    If each side has several sessions that alternated, with equally many samples one after the
    other, their medians are compared in pairs. What varies from session to session, such as the
    placement of code and other programs, then varies between the pairs, and so enters p. The
    medians of sessions that did not alternate are compared, too, but not in pairs: the samples of
    one session are not independent.

    Of a ratio or a percentage, neither side is better by itself: an added instruction that does
    nothing raises the IPC. Only a rule judges it.

    A change is not judged if the arrays had other contents: these may be what changed it. Nor is
    it if a side's numbers may be wrong.
    """
    one = before or after
    assert one is not None
    is_paired = False
    if before and after and not _is_exact(before, after):
        each = (sessions, sessions) if sessions > 1 else (before.sessions, after.sessions)
        sides = _by_session(before, each[0]), _by_session(after, each[1])
        if sides[0] and sides[1]:
            (before, after), is_paired = sides, sessions > 1
    change, p, is_cold_apart = None, None, False
    verdict: Verdict = "removed" if before is not None else "added"
    is_exact = False
    if before is not None and after is not None:
        change = _change(before, after)
        is_exact = _is_exact(before, after)
        is_of_calls = _repeats(before) and _repeats(after)
        if key.label == IN_PLACE:  # what firmware does by itself, it does not do twice the same way
            is_exact = is_exact and _is_steady(before) and _is_steady(after)
            is_of_calls = False
        p = None if is_exact or is_of_calls else _p(before, after, is_paired)
        verdict = _verdict(before, after, p, alpha, is_paired)
        if is_of_calls and not is_exact and verdict != "same":
            verdict = "other calls"
        is_exact = is_exact and verdict != "noise"
        is_cold_apart = _is_cold_apart(before, after)
        has_other_inputs = before.inputs and after.inputs and before.inputs != after.inputs
        if has_other_inputs and (is_cold_apart or verdict in DIFFERENT):
            verdict = "other inputs"
        if before.doubts or after.doubts:
            verdict, is_cold_apart = "doubtful", False
    return Difference(
        **keys_of(key),
        metric=one.metric,
        kind=one.kind,
        before=before.summary if before else None,
        after=after.summary if after else None,
        change=change,
        p=p,
        is_exact=is_exact,
        verdict=verdict,
        is_cold_apart=is_cold_apart,
        doubt=_doubt(before, after) if before and after and not is_paired else 0.0,
        is_emulated=bool(before and after and before.is_emulated and after.is_emulated),
        is_paired=is_paired,
    )


def _by_session(group: GroupSummary, sessions: int) -> GroupSummary | None:
    """Return a group with the median of each session as its samples; None if a session failed."""
    size, rest = divmod(len(group.values), sessions)
    if rest or not size:
        return None
    if size == 1 or sessions == 1:
        return group
    parts = (group.values[i * size : (i + 1) * size] for i in range(sessions))
    values = tuple(summarize(part).median for part in parts)
    return replace(group, values=values, summary=summarize(values, first=group.summary.first))


def _is_exact(before: GroupSummary, after: GroupSummary) -> bool:
    if before.summary.is_exact and after.summary.is_exact:
        return True
    sides = (before, after)
    if not all(map(_repeats, sides)):
        return False
    return _is_paired(before, after) or all(_is_steady(side) for side in sides)


def _repeats(side: GroupSummary) -> bool:
    return side.is_deterministic or side.is_stepped


def _is_steady(side: GroupSummary) -> bool:
    """Tell whether all samples are equal within the clock's steps."""
    return _is_within(side.summary.maximum - side.summary.minimum, side.grain)


def _is_within(step: float, grain: int | float) -> bool:
    """Tell whether a difference may come from the steps of the clock."""
    return abs(step) <= _GRAINS * float(grain) * _ROUNDED


def _is_paired(before: GroupSummary, after: GroupSummary) -> bool:
    """Tell whether the n-th samples are of the same calls, as on emulators."""
    if not (before.is_emulated and after.is_emulated and before.course):
        return False
    return before.course == after.course and len(before.values) == len(after.values)


def _change(before: GroupSummary, after: GroupSummary) -> int | float | None:
    """Return the difference of the medians, relative to the old one: an int if it is whole."""
    old, new = before.summary.median, after.summary.median
    if old == 0:
        return None
    whole, rest = divmod(new - old, abs(old))
    return (new - old) / abs(old) if rest else int(whole)


def _p(before: GroupSummary, after: GroupSummary, is_paired: bool) -> float:
    """Return p of the rank test; values measured in turns are paired."""
    if _is_same(before, after):
        return 1.0
    if is_paired:
        pairs = zip(before.values, after.values, strict=True)
        return signed_rank([new - old for old, new in pairs])
    return mann_whitney(before.values, after.values)


def _verdict(
    before: GroupSummary, after: GroupSummary, p: float | None, alpha: float, is_paired: bool
) -> Verdict:
    if _is_same(before, after) or _is_one_value(before, after):
        return "same"
    step = _step(before, after)
    grain = max(before.grain, after.grain)
    is_within_steps = _is_within(step, grain)
    if p is None and grain and is_within_steps:
        return "noise"
    if p is not None:
        if p >= alpha or is_within_steps:
            n1, n2 = before.summary.n, after.summary.n
            is_few = (0.5 ** (n1 - 1) if is_paired else smallest_p(n1, n2)) >= alpha
            return "too few samples" if is_few else "noise"
        if not is_paired and abs(step) <= _doubt(before, after):
            return "within overhead"
    if before.kind in (Ratio, Percent):
        return "changed"
    is_more = step > 0 if step else sorted(before.values)[::-1] < sorted(after.values)[::-1]
    return "worse" if is_more else "better"


def _doubt(before: GroupSummary, after: GroupSummary) -> float:
    """Return how much of a difference may come from the subtracted overhead of both sides."""
    sides = [s.overhead for s in (before, after) if s.summary.minimum != s.summary.maximum]
    most = max((side.taken for side in sides), default=0)
    return float(min(most, sum(side.doubt for side in sides)))


def _is_same(before: GroupSummary, after: GroupSummary) -> bool:
    """Tell whether both sides have the same samples, in any order."""
    old, new = before.summary, after.summary  # most differences show here, without sorting
    if (old.n, old.minimum, old.mean, old.maximum) != (new.n, new.minimum, new.mean, new.maximum):
        return False
    return sorted(before.values) == sorted(after.values)


def _is_one_value(before: GroupSummary, after: GroupSummary) -> bool:
    """Tell whether all samples of both sides are equal, regardless of their number."""
    if before.summary.minimum != after.summary.maximum:
        return False
    return len({*before.values, *after.values}) == 1


def _step(before: GroupSummary, after: GroupSummary) -> int | float:
    """Return the difference of the medians, or of the means if the medians are equal."""
    old, new = before.summary, after.summary
    return new.median - old.median or new.mean - old.mean


def _is_cold_apart(before: GroupSummary, after: GroupSummary) -> bool:
    old, new = before.summary.first, after.summary.first
    if old is None or new is None:
        return False
    grain = max(before.cold_grain, after.cold_grain)
    return not _is_within(new - old, grain)


# -- outputs --------------------------------------------------------------------------------------


_CODES: Final = {
    **{f"int{8 * size}": code for size, code in ((1, "b"), (2, "h"), (4, "i"), (8, "q"))},
    **{f"uint{8 * size}": code for size, code in ((1, "B"), (2, "H"), (4, "I"), (8, "Q"))},
    **{"bool": "?", "float16": "e", "float32": "f", "float64": "d"},
}
"""Python's code (module struct) of each of numpy's types whose values are kept."""


def values_of(output: Output) -> Sequence[int | float] | None:
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
    """The outputs that changed, and those that differ perhaps for another reason than the code."""

    changes: tuple[OutputChange, ...] = ()
    unjudged: tuple[Unjudged, ...] = ()
    notes: tuple[str, ...] = ()


def compare_outputs(
    before: Report, after: Report, pairing: Pairing, tolerance: float = 0.0
) -> ComparedOutputs:
    """Compare the outputs of the functions that both Reports have, on the same board.

    ``tolerance``: the largest relative difference of floats. A measurement may have its own one.
    """
    olds: dict[object, list[MeasurementRecord]] = {}
    for key, each in keyed_measurements(before):
        olds.setdefault(pairing.key(key, is_old=True), []).append(each)
    seen: Counter[object] = Counter()
    changes: list[OutputChange] = []
    unjudged: list[Unjudged] = []
    unknown: dict[str, None] = {}
    for key, new in keyed_measurements(after):
        place = pairing.key(key, is_old=False)
        of_place = olds.get(place, [])
        old = of_place[min(seen[place], len(of_place) - 1)] if of_place else None
        seen[place] += 1  # a session after the other
        if old is None or old.device != new.device:  # another board has other types
            continue
        is_early = None in (old.output_call, new.output_call)
        had, has = _outputs(old, is_early), _outputs(new, is_early)
        if has and not had:
            unknown[key.title] = None
        most = max(tolerance, new.tolerance)
        texts = {name: _difference(name, had.get(name), has.get(name), most) for name in had | has}
        found = [
            OutputChange(**keys_of(key), metric=f"output {name}", text=text)
            for name, text in texts.items()
            if text and had
        ]
        if found and (why := _why_not(old, new, most)):
            unjudged += [Unjudged(**keys_of(key), metric=each.metric, why=why) for each in found]
        elif found and _are_of_other_calls(old, new):
            changes += _in_first_calls(found, old, new)
        else:
            changes += found
    none = f"Outputs are not compared, because the older side has none: {first_of(unknown)}."
    # Not in each session: the first is as good as all.
    first = {each.place: each for each in reversed(changes)}
    first_unjudged = {each.place: each for each in reversed(unjudged)}
    changes = [each for each in changes if first[each.place] is each]
    unjudged = [each for each in unjudged if first_unjudged[each.place] is each]
    return ComparedOutputs(tuple(changes), tuple(unjudged), (none,) if unknown else ())


def _in_first_calls(
    found: Sequence[OutputChange], old: MeasurementRecord, new: MeasurementRecord
) -> Sequence[OutputChange]:
    """Return what differs between the first calls, if the last ones are not the same calls."""
    before, after = old.output_crc32s[0], new.output_crc32s[0]
    if before == after:  # the function keeps state, and one side called it more often
        return ()
    if _repeats_outputs(old) and _repeats_outputs(new):
        return found
    text = f"the first call's have the checksum {before} before, {after} after"
    return [replace(found[0], metric="outputs", text=text)]


def _repeats_outputs(side: MeasurementRecord) -> bool:
    """Tell whether the first call and the last one had the same outputs."""
    return len({*side.output_crc32s}) == 1


def _outputs(measurement: MeasurementRecord, is_early: bool) -> dict[str, object]:
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


def _why_not(old: MeasurementRecord, new: MeasurementRecord, tolerance: float) -> str:
    """Return why a difference says nothing about the code; "" if it does."""
    if old.inputs_crc32 and new.inputs_crc32 and old.inputs_crc32 != new.inputs_crc32:
        return "it differs, but the arrays had other contents before"
    # A checksum knows no tolerance.
    is_told_by_first = (old.output_crc32s and new.output_crc32s) and (
        not tolerance or (_repeats_outputs(old) and _repeats_outputs(new))
    )
    if _are_of_other_calls(old, new) and not is_told_by_first:
        same = ", ".join(map(option, ("--repeat", "--number", "--warmup", "--cold")))
        return f"it differs, but it is from another call: give both runs the same {same}"
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


def _difference(name: str, old: object, new: object, tolerance: float) -> str:
    if isinstance(old, Output) and isinstance(new, Output):
        return _array_difference(name, old, new, tolerance)
    if isinstance(old, Output) or isinstance(new, Output) or old is None or new is None:
        return f"it is {_kind(old)} before, {_kind(new)} after"
    if is_equal(old, new, tolerance):
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
        at for at, pair in enumerate(zip(olds, news, strict=True)) if not is_equal(*pair, tolerance)
    ]
    if not differs:
        return ""  # floats within the tolerance, or NaNs with other bits
    import numpy as np

    first = differs[0]
    place = "".join(f"[{index}]" for index in np.unravel_index(first, old.shape))
    few = f"{len(differs):,} of {len(olds):,} values differ; the first is "
    return f"{few if len(olds) > 1 else ''}{name}{place}: {olds[first]} before, {news[first]} after"


def is_equal(old: object, new: object, tolerance: float) -> bool:
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
