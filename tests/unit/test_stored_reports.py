# SPDX-License-Identifier: Apache-2.0
"""Stored Reports of all kinds are shown, exported, compared and decoded as an earlier version did.

``tests/golden/reports`` has a Report for each kind, and ``views.json`` has the hash of each of its
views. These are what an earlier version printed; change them only on purpose. To renew all hashes::

    python -m tests.unit.test_stored_reports --write

To see what has changed, write all views at both commits, and compare the folders::

    python -m tests.unit.test_stored_reports FOLDER

Views are made by the command and the public methods of a Report, so that no view depends on where a
module is. The version of boardprof is written as VERSION.
"""

from __future__ import annotations

import base64
import contextlib
import gzip
import hashlib
import io
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import boardprof
from boardprof.ui.cli import main

STORED = Path(__file__).parents[1] / "golden" / "reports"
HASHES = STORED / "views.json"
REPORTS = sorted(file.stem for file in STORED.glob("*.json") if file != HASHES)
_DIGITS = 20
"""Of a hash, in hexadecimal."""

_ENVIRONMENT = {"BOARDPROF_HISTORY": "off", "XDG_CONFIG_HOME": "/nowhere", "TZ": "UTC"}
_WRITTEN_S = 1_700_000_000
"""When all files were written, which a page names them with: 2023-11-14T22:13:20Z."""

Views = dict[str, Callable[[], bytes]]

EXPORTERS = (
    "baseline",
    "bencher",
    "benchmark-action",
    "callgrind",
    "chrome",
    "collapsed",
    "csv",
    "html",
    "json",
    "markdown",
    "openmetrics",
    "pprof",
    "speedscope",
    "table",
)
OF_PROFILES = ("callgrind", "pprof")
SHOWN = {
    "answer": (),
    "answer-80": ("--width", "80"),
    "answer-configuration": ("--configuration", "--width", "100"),
    "table-80": ("--table", "--width", "80"),
    "table-samples": ("--table", "--samples"),
    "table-by-board": ("--by-board",),
    "table-one-column": ("--one-column",),
    "statistics-80": ("--stats", "--width", "80"),
    "statistics": ("--stats",),  # the last one has no width, so that none is left for other tests
}
PROFILES = {
    "functions": ("--hotspots", "--width", "80"),
    "lines": ("--lines", "--width", "80"),
    "instructions": ("--asm",),
}
COMPARISONS = ("editor", "github", "gitlab", "json", "junit", "markdown", "summary", "table")
PAIRS: dict[str, tuple[str, ...]] = {
    "same": ("function", "function"),
    "slower": ("fir_before", "fir_after", "--fail-if", "instructions:max>0"),
    "faster": ("fir_after", "fir_before", "--fail-if", "*>5%", "--fail-if-missing"),
    "baseline": ("baseline", "fir_after", "--fail-if", "instructions>10%"),
    "baseline-same": ("baseline", "fir_before", "--fail-if", "instructions:max>0"),
    "flags": ("native_before", "native_after", "--allow", "compiler", "--fail-if", "time>2%"),
    "flags-refused": ("native_before", "native_after"),
    "noise": ("native_after", "noisy_samples", "--allow", "compiler", "--alpha", "0.2"),
    "alternating": ("alternating_before", "alternating", "--allow", "compiler"),
    "hotspots": ("hotspots", "hotspots_os", "--allow", "compiler", "--fail-if", "instructions>1%"),
    "sweep": ("flag_sweep", "two_boards_swept", "--fail-if", "instructions>1%"),
    "boards": ("array_arguments", "three_boards"),
    "missing": ("fir_after", "failed_function"),
    "spread": ("noisy_samples", "noisy_samples", "--fail-if", "time>4spread"),
    "programs": ("program_repeated", "program_repeated", "--fail-if", "time>5%"),
    "programs-of-tvm": ("program_from_tvm", "program", "--fail-if", "instructions>1%"),
    "ranges": ("ranges", "ranges_statistics"),
    "ranges-of-clocks": ("ranges", "ranges_ticks"),
    "interrupts": ("interrupts_hooked", "interrupts_missed", "--fail-if", "ticks:median>1%"),
    "parts": ("board_with_parts", "board_with_parts", "--fail-if", "busy:mean>1%"),
    "passes": ("counter_passes", "counter_passes", "--fail-if", "time>5%"),
    "batch": ("fleet_batch", "fleet_batch", "--fail-if", "instructions:max>0"),
    "odd": ("odd_values", "odd_values", "--fail-if", "time>1%"),
    "odd-empty": ("odd_values", "empty", "--fail-if", "time>1%", "--fail-if-missing"),
}
REFUSED = ("boards", "flags-refused", "missing", "odd-empty", "ranges-of-clocks", "spread")
"""Pairs that cannot be compared; the error is the only view."""

HISTORY = {
    "list": ("history",),
    "run": ("history", "show", "#4"),
    "trend": ("trend", "step", "--all"),
    "trend-json": ("trend", "step", "--all", "--json"),
    "show": ("show", "#6", "--width", "80"),
    "html": ("export", "html", "#6"),
    "html-diff": ("export", "html", "#6", "--diff", "#1"),
    "compare": ("compare", "#3", "#4", "--fail-if", "instructions:max>0"),
    "compare-spread": ("compare", "#3", "#4", "--fail-if", "instructions>4spread"),
}
"""Commands on the runs of ``runs.jsonl``, in which the fourth of six runs is slower."""

OTHER_LAYOUT = """
from dataclasses import replace
from boardprof_protocol.collectors.cycles_instret import LAYOUT as BEFORE
NAMES = {"instructions": "retired"}
LAYOUT = replace(
    BEFORE, counters=tuple(replace(c, name=NAMES.get(c.name, c.name)) for c in BEFORE.counters)
)
"""
RENAMED = ("cold_call", "fir_before", "fleet_batch", "flag_sweep", "hotspots", "program")
"""Reports to decode again with this layout."""


def views_of(name: str) -> Views:
    """Return what makes the views of a stored Report, in the current folder."""
    file, has_profile = f"{name}.json", name.startswith("hotspots")
    views: Views = {}
    for exporter in EXPORTERS:
        if exporter in OF_PROFILES and not has_profile:
            continue
        views[f"export-{exporter}"] = lambda exporter=exporter: command("export", exporter, file)
    views["export-collapsed-instructions"] = lambda: command(
        *("export", "collapsed", file, "--metric", "instructions")
    )
    for view, options in SHOWN.items():
        views[f"show-{view}"] = lambda options=options: command(
            "show", file, "--warnings", *options
        )
    for view, options in PROFILES.items() if has_profile else ():
        views[f"show-{view}"] = lambda options=options: command("show", file, *options)
    if name == "baseline":
        return views
    views["decode"] = lambda: command("decode", file, "--json")
    if name in RENAMED:
        Path("layout.py").write_text(OTHER_LAYOUT)
        again = ("decode", file, "--schema", "layout.py")
        views["decode-renamed"] = lambda: command(*again, "--json")
        views["decode-renamed-table"] = lambda: command(*again, "--table")
    report = boardprof.Report.from_json(Path(file).read_bytes())
    assert boardprof.Report.from_json(report.json()) == report
    texts: dict[str, Callable[[], str]] = {
        "repr": lambda: repr(report),
        "table": report.table,
        "table-raw": lambda: report.table(sort=False, aggregate=False, col_sums=False),
        "table-tvm": lambda: report.table(compat="tvm"),
        "table-tvm-raw": lambda: report.table(compat="tvm", aggregate=False, separator=""),
        "csv-tvm": lambda: report.csv(compat="tvm"),
        "json-tvm": lambda: report.json(compat="tvm"),
        "statistics": report.statistics,
    }
    views |= {f"method-{view}": lambda make=make: make().encode() for view, make in texts.items()}
    return views


def views_of_pair(name: str) -> Views:
    """Return what makes the views of a comparison, in the current folder."""
    before, after, *options = PAIRS[name]
    pair = ("compare", f"{before}.json", f"{after}.json", *options)
    if name in REFUSED:
        return {"refused": lambda: command(*pair)}
    allowed = [word for at, word in enumerate(options) if "--allow" in (word, options[at - 1])]
    views: Views = {
        "printed": lambda: command(*pair),
        "printed-80": lambda: command(*pair, "--width", "80"),
        "printed-changed": lambda: command(*pair, "--changed"),
        "html": lambda: command("export", "html", pair[2], "--diff", pair[1], *allowed),
    }
    for form in COMPARISONS:
        views[form] = lambda form=form: command(*pair, "--export", f"{form}=-")
    return views


def views_of_history() -> Views:
    """Return what makes the views of a history of runs, in the current folder."""
    os.environ["BOARDPROF_HISTORY"] = "history.sqlite"
    os.environ["BOARDPROF_PROJECT"] = "d95a0b2e9b5d45d34cab5a1736f107099326b16a"  # of these runs
    command("history", "import", str(STORED / "runs.jsonl"))
    return {view: lambda words=words: command(*words) for view, words in HISTORY.items()}


SUBJECTS: dict[str, Callable[[], Views]] = {
    **{name: lambda name=name: views_of(name) for name in REPORTS},
    **{f"compare-{name}": lambda name=name: views_of_pair(name) for name in PAIRS},
    "history": views_of_history,
}


def command(*words: str) -> bytes:
    """Return what ``boardprof`` prints, then its notes and its exit code if there are any."""
    out, err = io.BytesIO(), io.BytesIO()
    with (
        io.TextIOWrapper(out, "utf-8", write_through=True) as stdout,
        io.TextIOWrapper(err, "utf-8", write_through=True) as stderr,
        contextlib.redirect_stdout(stdout),
        contextlib.redirect_stderr(stderr),
    ):
        code = main(list(words))
        assert code != 70, err.getvalue().decode()
        beside = err.getvalue() + (b"exit code %d\n" % code if code else b"")
        return out.getvalue() + (b"\n--- stderr ---\n" + beside if beside else b"")


def plain(view: bytes) -> bytes:
    """Return a view without what differs between machines: versions of boardprof, zlib, Python."""
    if view.startswith(b"\x1f\x8b"):
        view = gzip.decompress(view)
    packed = rb'(<script type="application/gzip;base64" id="\w+">)([^<]*)(</script>)'
    unpacked = re.sub(
        packed, lambda found: found[1] + gzip.decompress(base64.b64decode(found[2])), view
    )
    # Python 3.12 adds floats more exactly than 3.11, which shows in the last digit of this sum.
    rounded = re.sub(
        rb'"endValue":([\d.]+)', lambda found: b'"endValue":%.9g' % float(found[1]), unpacked
    )
    return rounded.replace(boardprof.__version__.encode(), b"VERSION")


def made(subject: str) -> dict[str, bytes]:
    """Return all views of a Report, a pair or the history."""
    with folder_of_reports():
        return {view: plain(make()) for view, make in SUBJECTS[subject]().items()}


def digest(view: bytes) -> str:
    return hashlib.sha256(view).hexdigest()[:_DIGITS]


@contextlib.contextmanager
def folder_of_reports() -> Iterator[None]:
    """Work in a folder with the Reports alone, and in an environment without settings."""
    before, environment = Path.cwd(), dict(os.environ)
    with tempfile.TemporaryDirectory(prefix="boardprof-") as folder:
        for name in REPORTS:
            copy = shutil.copy(STORED / f"{name}.json", folder)
            os.utime(copy, (_WRITTEN_S, _WRITTEN_S))
        try:
            for name in [name for name in environment if name.startswith("BOARDPROF_")]:
                del os.environ[name]
            os.environ.update(_ENVIRONMENT)
            os.chdir(folder)
            yield
        finally:
            os.chdir(before)
            os.environ.clear()
            os.environ.update(environment)


@pytest.mark.parametrize("subject", SUBJECTS)
def test_all_views_of_a_stored_report_are_those_of_an_earlier_version(
    subject: str, tmp_path: Path
) -> None:
    views = made(subject)
    known = json.loads(HASHES.read_text())[subject]
    assert views.keys() == known.keys()
    differing = [view for view, content in views.items() if digest(content) != known[view]]
    for view in differing:
        (tmp_path / view).write_bytes(views[view])
    if differing:
        files = "\n".join(str(tmp_path / view) for view in differing)
        pytest.fail(f"These views of {subject} are different:\n{files}\n\n{__doc__}", pytrace=False)


def test_each_known_view_belongs_to_a_stored_report() -> None:
    assert json.loads(HASHES.read_text()).keys() == SUBJECTS.keys()


def write_hashes() -> None:
    found = {name: {k: digest(v) for k, v in made(name).items()} for name in SUBJECTS}
    HASHES.write_text(json.dumps(found, indent=0) + "\n")


def write_views(folder: Path) -> None:
    """Write all views as files: ``folder/REPORT/VIEW``."""
    for name in SUBJECTS:
        (folder / name).mkdir(parents=True, exist_ok=True)
        for view, content in made(name).items():
            (folder / name / view).write_bytes(content)


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        write_hashes()
    elif len(sys.argv) == 2 and not sys.argv[1].startswith("-"):
        write_views(Path(sys.argv[1]).absolute())
    else:
        sys.exit(__doc__)
