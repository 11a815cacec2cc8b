# SPDX-License-Identifier: Apache-2.0
"""Files of a Report in whatever form: ``--export NAME=FILE``, ``boardprof export``."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from boardprof.errors import BoardprofError, UsageError
from boardprof.exporters import Exporter, exporter_names, find_exporter
from boardprof.history.report_lookup import Found, like_runs
from boardprof.report.report import Report
from boardprof.writing import check_is_file, unwritable

__all__ = ["Export", "Exporter", "exported", "exporter_names", "find_exporter", "option_exporter"]
__all__ += ["read_exports", "write_export", "write_exported"]


@dataclass(frozen=True)
class Export:
    """A file to write, and its exporter."""

    name: str
    file: Path
    exporter: Exporter


def read_exports(texts: Sequence[str]) -> list[Export]:
    """Read ``NAME=FILE``, before anything is measured.

    Raises:
        UsageError: one has another form, its exporter cannot be used, or its folder is missing.
        UnknownNameError: the exporter does not exist.
    """
    return [_export(text) for text in texts]


def _export(text: str) -> Export:
    name, equals, file = text.partition("=")
    if not equals or not name or not file:
        raise UsageError(
            f"{text!r} is not a valid --export.", hint="NAME=FILE, e.g. csv=report.csv"
        )
    check_is_file(file)
    path = Path(file)
    if not path.parent.is_dir():
        raise UsageError(f"{file} cannot be written: there is no folder {path.parent}.")
    return Export(name, path, find_exporter(name))


def write_export(report: Report, export: Export) -> None:
    """Write a Report's file.

    Raises:
        UsageError, StorageError: the exporter fails, or the file cannot be written.
    """
    write_exported(exported(report, export.name, export.exporter), export.file)


def exported(report: Report, name: str, exporter: Exporter) -> bytes:
    """Return the output of an exporter for a Report.

    Raises:
        UsageError: the Report has nothing for it, or it fails.
    """
    try:
        made = exporter(report)
        return made.encode() if isinstance(made, str) else bytes(made)
    except BoardprofError:
        raise
    except Exception as error:  # whatever another package raises
        raise UsageError(f"The exporter {name} failed: {error!r}.") from error


def option_exporter(
    name: str,
    after: Found,
    *,
    before: Found | None,
    allow: Sequence[str],
    metric: str | None,
) -> Exporter:
    """Return an exporter with what only one of them takes: an option, or earlier runs.

    Args:
        name: of the exporter.
        after: what is to be exported.
        before: an older Report, for the page.
        allow: in spite of what the two are compared, see `compare`.
        metric: for collapsed stacks.

    Raises:
        UsageError: the exporter has no such option.
    """
    for option, wanted, only in (("--diff", before, "html"), ("--metric", metric, "collapsed")):
        if wanted is not None and name != only:
            raise UsageError(f"{option} is for {only}, not for {name}.")
    if metric is not None:
        from boardprof.render.flame_graph import render_collapsed

        return partial(render_collapsed, metric=metric)
    if name != "html":
        return find_exporter(name)
    from boardprof.render.html import render_html

    page = partial(render_html, earlier=_earlier(after))
    if before is None:
        return page
    return partial(page, before=before.report, allow=allow, names=(before.dated, after.dated))


def _earlier(found: Found) -> list[tuple[str, Report]]:
    """Return the runs like one of the history that are older, the oldest first."""
    if found.run is None:
        return []
    runs: list[Found] = []
    with contextlib.suppress(BoardprofError):  # if one is damaged, the page has the newer ones
        for run in like_runs(found.report, before=found.run):
            runs.append(run)
    return [(run.label, run.report) for run in reversed(runs)]


def write_exported(content: bytes, file: Path) -> None:
    """Write an export.

    Raises:
        UsageError, StorageError: the file cannot be written.
    """
    try:
        file.write_bytes(content)
    except OSError as error:
        raise unwritable(file, error) from error
