# SPDX-License-Identifier: Apache-2.0
"""A profile as text: its functions, its source with a count at each line, its instructions."""

from __future__ import annotations

import posixpath
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from boardprof.base.errors import UsageError
from boardprof.results.report.profile import Interval, LineCost, Profile
from boardprof.results.report.report import Report
from boardprof.results.row_origins import ProfiledRow, profiles_of
from boardprof.show.cells import plural
from boardprof.show.layout import Column, Page, Table

CONTEXT = 2
"""Lines of source that are shown around those that ran."""

_LEAST_SHARE = 0.0005
"""Less than this rounds to 0.0 %."""

_INTERVAL = "95 % interval"

_SINGULAR = {"cycles": "cycle", "instructions": "instruction", "samples": "sample"}


def profiles_in(report: Report) -> list[ProfiledRow]:
    """Return the profiles in a Report.

    Raises:
        UsageError: it has none.
    """
    found = list(profiles_of(report))
    if not found:
        raise UsageError(
            "The Report has no profile.",
            hint="measure with: boardprof run --hotspots",
        )
    return found


def functions_page(profile: Profile, metric: str | None = None, most: int | None = None) -> Page:
    """Return the functions of a call, the one that costs most by itself first.

    Args:
        profile: of the call.
        metric: what is shown; see `Profile.metric`.
        most: rows; None for all.
    """
    found = profile.functions(metric)
    shown = found if most is None else found[:most]
    total = profile.sum(metric)
    totals = [each.total for each in shown]
    columns = [
        Column("Function", [each.name for each in shown]),
        Column("Self" if profile.exact else "Samples", [f"{each.self:,}" for each in shown]),
        Column("Self %", [_percent(each.self, total) for each in shown]),
        Column(_INTERVAL, [interval_text(each.interval) for each in shown]),
        Column("Total", ["" if cost is None else f"{cost:,}" for cost in totals]),
        Column("Total %", ["" if cost is None else _percent(cost, total) for cost in totals]),
        Column("Calls", [f"{each.calls:,}" if each.calls else "" for each in shown]),
        Column("Where", [_place(each.file, each.line) for each in shown], is_text=True),
    ]
    unknown = () if profile.exact else ("Total", "Total %", "Calls")
    columns = [
        each
        for each in columns
        if each.header not in unknown and (each.header != _INTERVAL or any(each.cells))
    ]
    rest = len(found) - len(shown)
    left = [f"{rest} more function{'s' * (rest > 1)}: --all"] if rest else []
    return [Table(columns, spare=("Total %", "Where")), *left]


def titles(rows: Sequence[ProfiledRow]) -> list[str]:
    """Return what each profile is of: the function, and more where that is not enough."""
    several = Counter((row.name, row.device) for row in rows)
    return [row.title if several[row.name, row.device] > 1 else row.name for row in rows]


def heading(profile: Profile, metric: str | None = None, title: str | None = None) -> str:
    """Return what was recorded, in a line; its title is the function's name unless given."""
    name = profile.metric if metric is None else metric
    how = profile.sampled
    kind = "" if how is None else f" in {how.calls:,} call{'s' * (how.calls != 1)}"
    what = profile.function if title is None else title
    return f"{what} on {profile.board}: {_count(profile.sum(metric), name)}{kind}"


def notes(profile: Profile, metric: str | None = None) -> list[str]:
    """Return what a reader must know besides the figures; how the total was checked comes last."""
    told = []
    if not profile.is_complete:
        told.append(f"incomplete: {profile.failure or profile.state}")
    name = profile.metric if metric is None else metric
    handlers = profile.interrupts(name)
    if handlers and profile.is_complete:
        verb = "is" if handlers == 1 else "are"
        told.append(f"interrupts took {_count(handlers, name)}, which {verb} not in the total")
    if profile.newer:
        names = ", ".join(map(posixpath.basename, profile.newer))
        told.append(f"newer than the image, so lines may be others: {names}")
    if profile.sampled is not None and profile.sum() < profile.sampled.wanted:
        told.append(
            f"{profile.sampled.wanted:,} samples were wanted; a call is so short that it is hardly "
            "ever hit"
        )
    if profile.sampled is not None and profile.sampled.outside:
        told.append(f"{profile.sampled.outside:,} more hit the agent or another stack")
    if profile.sampled is not None and profile.sampled.unreadable:
        told.append(
            f"{profile.sampled.unreadable:,} reads found no program counter: the core was halted, "
            "or what it executed must not be debugged"
        )
    told += _edges(profile, name)
    told.append(_check(profile))
    return told


def _edges(profile: Profile, metric: str) -> list[str]:
    """Say by how much the Report's count differs, where that is not a fault: on a pipeline."""
    checked = profile.checked
    if checked is None or metric not in profile.counted or metric == checked:
        return []
    has_interrupts = profile.counted[checked] != profile.sum(checked)
    interrupts = profile.interrupts(metric) if has_interrupts else 0
    more = profile.counted[metric] - profile.sum(metric) - interrupts
    if not more:
        return []
    return [
        f"the Report counts {profile.counted[metric]:,} {metric}: {more:+,} are of the core's work "
        "before the first instruction and after the last one (docs/numbers.md)"
    ]


def _check(profile: Profile) -> str:
    if profile.sampled is not None:
        return (
            f"sampled by {profile.sampled.timer}, not counted: a function's true share is within "
            "its interval in 95 of 100 such profiles; lines are less certain (docs/hotspots.md)"
        )
    if not profile.is_complete:
        return "total not checked: the call did not return"
    name = profile.checked
    if profile.recorder:
        return f"total not checked: {profile.recorder} simulates its own CPU"
    if name is None:
        return "total not checked: this board has no instruction counter"
    return f"total checked: the board has counted the same {_count(profile.sum(name), name)}"


def lines_page(profile: Profile, metric: str | None = None) -> Page:
    """Return the source with the cost of each line, file by file, the costliest of them first.

    Of files that could not be read, as most of libraries, only the functions are named.
    """
    by_file: defaultdict[str, dict[int, list[LineCost]]] = defaultdict(dict)
    for each in profile.lines(metric):
        by_file[each.file].setdefault(each.line, []).append(each)
    costs = {file: _sum(lines) for file, lines in by_file.items()}
    total = profile.sum(metric)
    page: list[Table | str] = []
    for file in sorted(by_file, key=lambda f: (f not in profile.sources, -costs[f], f)):
        told = f"{costs[file]:,} ({_percent(costs[file], total)} %)"
        text = profile.sources.get(file)
        if page and (text is not None or isinstance(page[-1], Table)):
            page.append("")
        if text is None:
            names = dict.fromkeys(e.function for found in by_file[file].values() for e in found)
            page.append(f"{posixpath.basename(file) or 'no file'}: {told}, {', '.join(names)}")
        else:
            page += [f"{file}: {told}", _listing(by_file[file], text, total)]
    return page


def _sum(lines: Mapping[int, Sequence[LineCost]]) -> int:
    return sum(each.self for found in lines.values() for each in found)


def _listing(lines: Mapping[int, Sequence[LineCost]], text: str, total: int) -> Table:
    source = text.splitlines()
    rows = list(_rows(lines, source))
    own = [sum(each.self for each in lines.get(number, ())) for number in rows]
    below = [sum(each.calls for each in lines.get(number, ())) for number in rows]
    times = [max((e.executions for e in lines.get(number, ())), default=0) for number in rows]
    words = [
        "..." if number < 0 else source[number - 1].expandtabs(4) if number <= len(source) else ""
        for number in rows
    ]
    ranges = [
        " | ".join(filter(None, (interval_text(each.interval) for each in lines.get(number, ()))))
        for number in rows
    ]
    columns = [
        Column("Line", [str(number) if number > 0 else "" for number in rows]),
        Column("Samples" if any(ranges) else "Self", [f"{cost:,}" if cost else "" for cost in own]),
        Column("Self %", [_percent(cost, total) if cost else "" for cost in own]),
        Column(_INTERVAL, ranges),
        Column("Calls' cost", [f"{cost:,}" if cost else "" for cost in below]),
        Column("Times", [f"{count:,}" if count else "" for count in times]),
        Column("Source", words, is_text=True),
    ]
    kept = [each for each in columns if any(each.cells)]
    return Table(kept, spare=("Calls' cost", "Times"), cuts_last=True)


def _rows(lines: Mapping[int, object], source: Sequence[str]) -> Iterator[int]:
    """Yield the numbers of the lines to show; -1 for a gap."""
    near = {n + d for n in lines for d in range(-CONTEXT, CONTEXT + 1) if n}
    shown = sorted(n for n in near if 1 <= n <= len(source))
    last = None
    for number in shown:
        if last is not None and number != last + 1:
            yield -1
        yield number
        last = number
    yield from (n for n in sorted(lines) if not 1 <= n <= len(source))


def instructions_page(profile: Profile, metric: str | None = None) -> Page:
    """Return the instructions that ran, each under its line, the costliest function first.

    A line's instructions stand together only where the compiler has left them together.
    """
    column, total = profile.column(metric), profile.sum(metric)
    costs: defaultdict[int, list[int]] = defaultdict(lambda: [0, 0])
    for node, number, cost in profile.counts:
        if node not in profile.in_interrupts:
            costs[number][0] += cost[0]
            costs[number][1] += cost[column]
    order = [each.name for each in profile.functions(metric)]
    numbers: defaultdict[str, list[int]] = defaultdict(list)
    for number in sorted(costs, key=lambda each: profile.instructions[each].address):
        numbers[profile.symbols[profile.instructions[number].symbol].name].append(number)
    page: list[Table | str] = []
    for name in sorted(numbers, key=order.index):
        own = sum(costs[number][1] for number in numbers[name])
        page += [""] if page else []
        page += [f"{name}: {own:,} ({_percent(own, total)} %)"]
        page.append(_instruction_table(profile, numbers[name], costs, total))
    return page


def _instruction_table(
    profile: Profile, numbers: Sequence[int], costs: Mapping[int, Sequence[int]], total: int
) -> Table:
    rows: list[tuple[str, str, str, str, str]] = []
    last = None
    for number in numbers:
        instruction = profile.instructions[number]
        frame = instruction.frames[0] if instruction.frames else None
        place = (frame.file, frame.line) if frame is not None else ("", 0)
        if place != last and place[1]:
            lines = profile.sources.get(place[0], "").splitlines()
            said = lines[place[1] - 1].strip() if place[1] <= len(lines) else ""
            rows.append(("", "", "", "", f"{_place(*place)}  {said}".rstrip()))
        last = place
        times, cost = costs[number]
        share = _percent(cost, total)
        text = "    " + instruction.text.replace("\t", " ")
        rows.append((f"{instruction.address:x}", f"{times:,}", f"{cost:,}", share, text))
    first = "Times" if profile.exact else "Samples"
    headers = ("Address", first, "Self", "Self %", "Instruction")
    columns = [
        Column(header, cells, is_text=header == "Instruction")
        for header, cells in zip(headers, zip(*rows, strict=True), strict=True)
    ]
    if len(profile.columns) == 1:  # each time costs one
        del columns[2]
    return Table(columns, cuts_last=True)


def interval_text(interval: Interval | None) -> str:
    """Return an interval in percent; "" if there is none."""
    if interval is None:
        return ""
    low, high = interval
    return f"{100 * low:.1f} to {100 * high:.1f}"


def _count(number: int, metric: str) -> str:
    """Return a cost: ``1 cycle``, ``1,200 cycles``; the names of other metrics stay as they are."""
    one = _SINGULAR.get(metric)
    return f"{number:,} {metric}" if one is None else plural(number, one)


def _place(file: str, line: int) -> str:
    return f"{posixpath.basename(file)}:{line}" if file else ""


def _percent(part: int, whole: int) -> str:
    share = part / whole if whole else 0.0
    return "<0.1" if 0 < share < _LEAST_SHARE else f"{100 * share:.1f}"
