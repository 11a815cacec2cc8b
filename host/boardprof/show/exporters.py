# SPDX-License-Identifier: Apache-2.0
"""Exporters of Reports, Comparisons and runs of probes by name, and the files that they write.

Other packages bring more: an entry point of the group ``boardprof.exporters`` has the exporter's
name, and names a function that takes a `Report` and returns a str or bytes. Likewise, one of
``boardprof.comparison_exporters`` takes a `Comparison`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from boardprof.base.errors import BoardprofError, UnknownNameError, UsageError
from boardprof.base.files import check_is_file, write_bytes, write_folder
from boardprof.base.packages import entries, named_function

if TYPE_CHECKING:
    from boardprof.results.comparison.comparison import Comparison
    from boardprof.results.probes.run import ProbeRun
    from boardprof.results.report.report import Report


Exporter: TypeAlias = "Callable[[Report], str | bytes]"

_REPORT = {  # name -> module below ``boardprof``, and its function; imported when it is asked for
    "baseline": "results.baseline:render_baseline",
    "bencher": "show.rows:render_bencher",
    "benchmark-action": "show.rows:render_benchmark_action",
    "callgrind": "show.profile_files:render_callgrind",
    "chrome": "show.chrome_trace:render_chrome",
    "collapsed": "show.flame_graph:render_collapsed",
    "csv": "show.rows:render_csv",
    "html": "show.html:render_html",
    "hyperfine": "show.rows:render_hyperfine",
    "json": "results.report_json:render_json",
    "markdown": "show.markdown:render_markdown",
    "medians": "show.rows:render_medians",
    "openmetrics": "show.rows:render_openmetrics",
    "pprof": "show.profile_files:render_pprof",
    "speedscope": "show.flame_graph:render_speedscope",
    "table": "show.table:render_table",
}

_COMPARISON = {  # ``summary`` is ``markdown`` under a name that no Report's has
    "editor": "show.comparison_files:render_editor",
    "github": "show.comparison_files:render_github",
    "gitlab": "show.comparison_files:render_gitlab",
    "json": "show.comparison_files:comparison_json",
    "junit": "show.comparison_files:comparison_junit",
    "markdown": "show.markdown:comparison_markdown",
    "summary": "show.markdown:comparison_markdown",
    "table": "show.comparison_table:comparison_table",
}

_PROBES = {  # the same for runs of probes
    "chrome": "show.probe_files:render_probe_chrome",
    "collapsed": "show.probe_files:render_probe_collapsed",
    "ctf": "show.ctf:render_ctf",
    "html": "show.probe_files:render_probe_page",
    "memory": "show.probe_tables:render_memory",
    "perfetto": "show.probe_files:render_perfetto",
    "speedscope": "show.probe_files:render_probe_speedscope",
}

FOLDERS = frozenset({"ctf"})  # exporters of runs of probes that write a folder
_COMPARISON_GROUP = "comparison_exporters"

WITH_PLACES = frozenset({"html", "memory"})  # those that take ``places``: calls by return address


def exporter_names() -> list[str]:
    """Return the names of all exporters, those of other packages included."""
    return sorted({*_REPORT, *(entry.name for entry in entries("exporters"))})


def comparison_exporter_names() -> list[str]:
    """Return the names of all exporters of Comparisons, those of other packages included."""
    return sorted({*_COMPARISON, *(entry.name for entry in entries(_COMPARISON_GROUP))})


def find_comparison_exporter(name: str) -> Callable[[Comparison], str | bytes]:
    """Return the exporter of Comparisons called ``name``; see `find_exporter`."""
    found = _found(name, _COMPARISON, _COMPARISON_GROUP)
    if found is None:
        raise UnknownNameError("exporter of comparisons", name, comparison_exporter_names())
    return found


def probe_exporter_names() -> list[str]:
    """Return the names of the exporters of runs of probes."""
    return sorted(_PROBES)


def find_probe_exporter(name: str) -> Callable[..., Any] | None:
    """Return the exporter of runs of probes that is called ``name``; None if there is none."""
    return _own(name, _PROBES) if name in _PROBES else None


def find_exporter(name: str) -> Exporter:
    """Return the exporter called ``name``.

    Raises:
        UnknownNameError: there is none.
        UsageError: another package's cannot be used.
    """
    found = _found(name, _REPORT, "exporters")
    if found is not None:
        return found
    if name in _PROBES:
        raise UsageError(
            f"The exporter {name} is for recordings of probes, not for Reports.",
            hint="give it a file of `boardprof trace -o FILE`",
        )
    if name == "pandas":
        raise UsageError(
            "The command line cannot use the exporter pandas: a DataFrame is not a file: use "
            "report.to_pandas().",
            hint="use boardprof export csv, and read it with pandas.read_csv",
        )
    if name in _COMPARISON:
        raise UsageError(
            f"The exporter {name} is for comparisons, not for Reports.",
            hint=f"boardprof compare BEFORE AFTER --export {name}=FILE",
        )
    raise UnknownNameError("exporter", name, exporter_names())


def _found(name: str, known: Mapping[str, str], group: str) -> Callable[..., Any] | None:
    """Return an exporter of boardprof's own or of another package; None if there is none."""
    if name in known:
        return _own(name, known)
    found = named_function(group, name, f"The exporter {name}")
    return None if found is None else found.function


def _own(name: str, known: Mapping[str, str]) -> Callable[..., Any]:
    module, _, function = known[name].partition(":")
    found: Callable[..., Any] = getattr(import_module(f"boardprof.{module}"), function)
    return found


@dataclass(frozen=True)
class Export:
    """A file to write, and its exporter."""

    name: str
    file: Path
    exporter: Callable[..., Any]
    is_comparison: bool = False


def read_exports(texts: Sequence[str], *, comparisons: bool | None = False) -> list[Export]:
    """Read ``NAME=FILE`` before measuring; with ``comparisons`` None, of both kinds."""
    return [_export(text, comparisons) for text in texts]


def _export(text: str, comparisons: bool | None) -> Export:
    name, equals, file = text.partition("=")
    if not equals or not name or not file:
        csv = f"medians={text} has a line for each function and metric, csv={text} for each sample"
        json = f"hyperfine={text} has the times, json={text} everything"
        by_ending = {".csv": csv, ".json": json, ".md": f"markdown={text}", ".html": f"html={text}"}
        hint = by_ending.get(Path(text).suffix, "NAME=FILE, e.g. csv=report.csv")
        raise UsageError(f"{text!r} is not a valid --export.", hint=hint)
    check_is_file(file)
    path = Path(file)
    if not path.parent.is_dir():
        raise UsageError(f"{file} cannot be written: there is no folder {path.parent}.")
    is_both = comparisons is None and name not in exporter_names()
    if comparisons or (is_both and name in comparison_exporter_names()):
        return Export(name, path, find_comparison_exporter(name), is_comparison=True)
    return Export(name, path, find_exporter(name))


def write_export(content: Report | Comparison, export: Export) -> None:
    """Write the file of a Report or a Comparison."""
    write_exported(exported(content, export.name, export.exporter), export.file)


def exported(
    content: Report | Comparison | ProbeRun, name: str, exporter: Callable[..., Any]
) -> bytes | dict[str, bytes]:
    """Return the output of an exporter; of a run of probes, it may be a folder's files by name."""
    try:
        made = exporter(content)
        if isinstance(made, dict):
            return made
        return made.encode(errors="backslashreplace") if isinstance(made, str) else bytes(made)
    except BoardprofError:
        raise
    except Exception as error:  # whatever another package raises
        raise UsageError(f"The exporter {name} failed: {error!r}.") from error


def write_exported(content: bytes | dict[str, bytes], file: Path) -> None:
    """Write an export, completely or not at all: a file, or a folder that has no other files."""
    if isinstance(content, bytes):
        write_bytes(content, str(file))
    else:
        write_folder(content, file)
