# SPDX-License-Identifier: Apache-2.0
"""Writes docs/reference-*.md and the manual page, of docstrings, C headers and the command's help.

Run from the repository: ``python scripts/reference.py`` writes them, with ``--check`` it ends with
1 when one of them is not current.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from boardprof.ui.cli import main as command
from boardprof.ui.cli.commands import cli
from scripts.reference_c import c_page
from scripts.reference_command import command_page
from scripts.reference_man import manual_page
from scripts.reference_python import python_pages

__all__ = ["main", "pages"]

_ROOT = Path(__file__).resolve().parents[1]
_HEADERS = _ROOT / "device_runtime_c" / "include" / "boardprof"

PYTHON: tuple[tuple[str, str, str, tuple[str, ...]], ...] = (
    (
        "boardprof",
        "The top of the package",
        "Each of these is a name of `boardprof` itself, loaded when it is first used.",
        (),
    ),
    (
        "boardprof.profiling",
        "boardprof.profiling: what TVM's functions return",
        "The package has the names above that are TVM's, too.",
        ("Metrics", "ProfiledFunction", "TimeEvaluator", "BenchmarkResult"),
    ),
    (
        "boardprof.compat.torch.event_lists",
        "What a profile gives",
        "",
        ("EventList", "EventAverages"),
    ),
    ("boardprof.compat.torch.events", "", "", ("FunctionEvent",)),
    ("boardprof.compat.torch.memory_change", "", "", ("MemoryChange",)),
    ("boardprof.compat.torch.averages", "", "", ("FunctionEventAvg",)),
    ("boardprof.itt", "boardprof.itt: markers", "", ()),
    (
        "boardprof.compat.torch.flops",
        "boardprof.compat.torch.flops: operations of a call",
        "",
        ("conv2d", "mm", "bmm", "mul", "unregister_flops"),
    ),
    (
        "boardprof.target.build.firmware",
        "Firmware",
        "What `boardprof.build` returns.",
        ("Firmware",),
    ),
    (
        "boardprof.measure.session.memory",
        "Parts of a board",
        "What `boardprof.Board` has.",
        ("Memory",),
    ),
    ("boardprof.target.arguments.passing", "", "", ("Block",)),
    ("boardprof.target.arguments.dtypes", "", "", ("Dtypes",)),
    ("boardprof.measure.sampling.window", "", "", ("Window",)),
    ("boardprof.wire.link.stream", "", "", ("Stream",)),
    ("boardprof.wire.decode.clock", "", "", ("ClockFit",)),
    ("boardprof.results.report.calls", "Calls of a Report", "What `Report.calls` is.", ("Calls",)),
    ("boardprof.results.report.columns", "", "", ("Column",)),
    (
        "boardprof.show.html",
        "Forms of a Report",
        "[Forms](forms.md) has what each is for.",
        ("render_html", "read_page"),
    ),
    ("boardprof.show.exporters", "", "", ("find_exporter", "exporter_names")),
    (
        "boardprof.results.stats.groups",
        "Statistics",
        "",
        ("GroupKey", "GroupSummary", "summaries", "LeftOut", "left_out"),
    ),
    ("boardprof.results.stats.summary", "", "", ("Summary", "summarize")),
    ("boardprof.results.stats.warnings", "", "", ("Warning_", "warnings")),
    ("boardprof.results.stats.change_points", "", "", ("change_points", "Change")),
    ("boardprof.results.history.run_comparison", "Comparing", "", ("compare",)),
    ("boardprof.results.comparison.comparison", "", "", ("Comparison", "Difference", "Unjudged")),
    ("boardprof.results.comparison.rule", "", "", ("Rule", "Usual", "parse_rule")),
    ("boardprof.results.history.store", "History", "", ("History",)),
    ("boardprof.results.history.report_lookup", "", "", ("find_report",)),
    (
        "boardprof.ui.pytest_plugin.profiler",
        "pytest: the fixture `boardprof`",
        "The fixture is a `Profiler`; the fixture `board` is a connected `boardprof.Board`.",
        ("Profiler", "Measured"),
    ),
    (
        "boardprof.tune",
        "boardprof.tune: measuring candidates",
        "[Tune a kernel](tuning.md) shows how they are used.",
        (),
    ),
    (
        "boardprof.fleet",
        "boardprof.fleet: batches on many boards",
        "[Many boards, many hosts](fleet.md) shows how they are used.",
        (),
    ),
    (
        "boardprof.wire.transport.base",
        "Transports",
        "[Extending](extending.md#a-transport) has one of another package.",
        ("Transport", "DescriptorTransport"),
    ),
    ("boardprof.wire.transport.faulty", "", "", ("FaultyTransport",)),
    ("boardprof.wire.transport.faults", "", "", ("Faults",)),
    (
        "boardprof_protocol.layout",
        "Layouts of collectors",
        "[Extending](extending.md#a-collector) has one at work.",
        ("Layout", "Counter"),
    ),
    (
        "boardprof.base.errors",
        "Errors",
        "One tree; `exit_code` is what the command ends with.",
        (),
    ),
)
"""Module, heading ("": the one before goes on), text below it, names (none: its ``__all__``)."""

TOPICS = {
    "The top of the package": ("", "The Python reference"),
    "boardprof.profiling: what TVM's functions return": ("-tvm-torch", "Python: TVM and torch"),
    "Firmware": ("-boards", "Python: firmware and boards"),
    "Calls of a Report": ("-reports", "Python: Reports and statistics"),
    "Comparing": ("-gates", "Python: comparing, history, pytest"),
    "boardprof.tune: measuring candidates": ("-tuning", "Python: tuning and fleets"),
    "Transports": ("-extending", "Python: transports and layouts"),
    "Errors": ("-errors", "Python: errors"),
}
"""Section with which a page of the Python reference begins: end of its file's name, and title."""

C = (
    ("bp_function.h", "in a firmware project: which functions can be called and measured"),
    ("bp.h", "the agent: packed functions, targets, collectors"),
    ("bp_port.h", "functions that a board must provide"),
    ("bp_config.h", "sizes and options"),
)


def main(arguments: list[str]) -> int:
    """Write the pages, or check them; return the exit status."""
    status = 0
    for path, text in pages().items():
        if arguments != ["--check"]:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            print(f"{path} is not current: run make gen.", file=sys.stderr)
            status = 1
    return status


def exit_codes() -> str:
    """Return what the command ends with, as its docstring has it."""
    return inspect.cleandoc(command.__doc__ or "").split("\n\n")[1]


def pages() -> dict[Path, str]:
    """Return the pages by their path."""
    sections = [
        (importlib.import_module(path), head, text, names) for path, head, text, names in PYTHON
    ]
    headers = [(name, about, (_HEADERS / name).read_text(encoding="ascii")) for name, about in C]
    python = python_pages(
        sections,
        {head: (f"reference-python{end}.md", title) for head, (end, title) in TOPICS.items()},
    )
    return {
        **{_ROOT / "docs" / name: page for name, page in python.items()},
        _ROOT / "docs" / "reference-c.md": c_page(headers),
        _ROOT / "docs" / "reference-command.md": command_page(cli, "boardprof"),
        _ROOT / "docs" / "boardprof.1": manual_page(cli, "boardprof", exit_codes()),
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
