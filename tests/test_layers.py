# SPDX-License-Identifier: Apache-2.0
"""Who may import whom. The rules are those of the architecture: one straight line, two ends."""

from __future__ import annotations

import ast
import importlib
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.support import AGENT, ROOT

HOST = ROOT / "host"
PROTOCOL = ROOT / "protocol"
BOARDS = sorted(path.parent.name for path in ROOT.glob("boards/*/board.toml"))


def module_name(path: Path) -> str:
    for root in (HOST, PROTOCOL):
        if path.is_relative_to(root):
            parts = path.relative_to(root).with_suffix("").parts
            return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    raise ValueError(path)


MODULES = {
    module_name(path): path
    for root in (HOST / "boardprof", PROTOCOL / "boardprof_protocol")
    for path in sorted(root.rglob("*.py"))
    if "data" not in path.parts
}


@cache
def imports(module: str) -> frozenset[str]:
    """Return the modules that one names in its imports, wherever they stand in it.

    What stands under ``if TYPE_CHECKING`` never runs; it is left out.
    """
    tree = ast.parse(MODULES[module].read_text(encoding="utf-8"))
    return frozenset(name for node in running(tree) for name in imported(module, node))


def running(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    for child in ast.iter_child_nodes(node):
        is_typing = isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"
        if not is_typing:
            yield from running(child)


def imported(module: str, node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        assert node.level == 0, f"{module} has a relative import"
        source = node.module or ""
        names = [f"{source}.{alias.name}" for alias in node.names]
        return [name if name in MODULES else source for name in names]
    return []


@cache
def reaches(module: str) -> frozenset[str]:
    """Return all modules of ours that importing one can bring in, itself included."""
    found: set[str] = set()
    left = [module]
    while left:
        name = left.pop()
        if name in MODULES and name not in found:
            found.add(name)
            left += imports(name)
    return frozenset(found)


def ours(*names: str) -> set[str]:
    """Return the modules of these names and below them."""
    whole = {f"boardprof.{name}" for name in names}
    return {m for m in MODULES for w in whole if m == w or m.startswith(f"{w}.")}


def third_party(module: str) -> set[str]:
    tops = {name.partition(".")[0] for name in imports(module)}
    return tops - set(sys.stdlib_module_names) - {"boardprof", "boardprof_protocol", "__future__"}


def test_the_names_of_the_rules_are_modules() -> None:
    """A rule about a module that was renamed would hold for ever and say nothing."""
    for name in (
        "decode.samples",
        "link.rpc",
        "report.report",
        "metrics",
        "link.session",
        "connection",
        "cli",
        "errors",
    ):
        assert f"boardprof.{name}" in MODULES
    assert len(ours("transport")) >= 5
    assert len(ours("render")) >= 4
    assert imports("boardprof.link.rpc") >= {"boardprof_protocol.frame"}


@pytest.mark.parametrize("module", [m for m in MODULES if m.startswith("boardprof_protocol")])
def test_the_contract_knows_construct_and_nothing_else(module: str) -> None:
    assert third_party(module) <= {"construct"}
    assert all(name.startswith("boardprof_protocol") for name in reaches(module))


TRANSPORTS = ours("transport", "connection", "link", "board.describe")
MEANING = ours("decode", "metrics", "report", "render")


@pytest.mark.parametrize("module", sorted(MEANING | ours("board.selection")))
def test_meaning_knows_no_transport(module: str) -> None:
    assert reaches(module) & TRANSPORTS == set()


@pytest.mark.parametrize("module", sorted(ours("transport")))
def test_a_transport_knows_no_meaning(module: str) -> None:
    known = reaches(module) - ours("transport")
    assert known & MEANING == set()
    assert known <= ours("errors", "packages")


def test_the_state_machine_has_no_input_output_or_clock() -> None:
    reached = reaches("boardprof.link.rpc")
    ours_reached = {name for name in reached if name.startswith("boardprof.")}
    assert ours_reached == {"boardprof.link.rpc", "boardprof.link.rtt"}
    used = {name.partition(".")[0] for module in reached for name in imports(module)}
    assert used & {"asyncio", "datetime", "os", "select", "socket", "threading", "time"} == set()


@pytest.mark.parametrize("module", sorted(ours("render")))
def test_rendering_knows_reports_only(module: str) -> None:
    below = ours("report", "stats", "comparison", "history", "metrics", "errors", "packages")
    below |= ours("_version", "writing")
    assert reaches(module) - ours("render") <= below


def test_the_command_reaches_boards_through_the_runner_and_connect_only() -> None:
    imported = {name for module in ours("cli") for name in imports(module)}
    assert imported & (TRANSPORTS | MEANING) == {
        "boardprof.connection",
        "boardprof.report.report_file",
    }


ORDER = [
    "cli",
    "pytest_plugin",
    "run",
    "trace",
    "profiling",
    "connection",
    "board",
    "firmware",
    "link",
    "elf_and_dwarf",
    "toolchain",
    "boards",
    "transport",
    "history",
    "render",
    "comparison",
    "stats",
    "report",
    "decode",
    "arguments",
    "cfunction",
    "metrics",
]
"""The parts of the host, each before those that it uses."""

BACK = {
    ("boardprof.firmware.firmware", "boardprof.connection"): "Firmware.open, when it is called",
    ("boardprof.report.report", "boardprof.render"): "Report.table, csv and json, likewise",
    ("boardprof.comparison.comparison", "boardprof.render"): "Comparison.table and its like",
    ("boardprof.comparison.compare", "boardprof.history"): "names of runs, when it is called",
}


def part(module: str) -> str | None:
    name = module.split(".")[1] if "." in module else ""
    name = "elf_and_dwarf" if name in {"elf", "dwarf"} else name
    return name if name in ORDER else None


@pytest.mark.parametrize("module", [m for m in MODULES if part(m)])
def test_the_parts_of_the_host_use_each_other_one_way(module: str) -> None:
    for name in imports(module):
        user, used = part(module), part(name)
        if user and used and not any(module == m and name.startswith(n) for m, n in BACK):
            assert ORDER.index(user) <= ORDER.index(used), f"{module} imports {name}"


BOARD_SOURCES = sorted(p for p in ROOT.glob("boards/*/*") if p.suffix in {".c", ".h", ".S"})
ARCH = {path.name for path in (AGENT / "arch").glob("*/*.h")}


@pytest.mark.parametrize("path", BOARD_SOURCES, ids=lambda p: f"{p.parent.name}/{p.name}")
def test_a_board_includes_the_public_headers_and_its_own_only(path: Path) -> None:
    own = {p.name for p in path.parent.iterdir()}
    public = {"bp.h", "bp_port.h", "bp_wire.h", "bp_le.h"}
    allowed = {f"boardprof/{name}" for name in public} | ARCH | own
    text = path.read_text(encoding="utf-8")
    assert set(re.findall(r'^\s*#\s*include\s+"([^"]+)"', text, re.MULTILINE)) <= allowed


def test_nobody_imports_the_command() -> None:
    users = {module for module in MODULES if imports(module) & ours("cli")}
    assert users - ours("cli") == {"boardprof.__main__"}


# -- boards -----------------------------------------------------------------------------------


def code_of(path: Path) -> str:
    """Return a Python file without comments and docstrings, which may give examples."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            node.value = ast.Constant(None)
    return ast.unparse(tree)


def words_of(path: Path) -> str:
    """Return a C file without comments and without the system's headers."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    return re.sub(r"#include <[^>]*>", "", text)


def named_boards(text: str) -> list[str]:
    return [name for name in BOARDS if re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text)]


@pytest.mark.parametrize("module", MODULES)
def test_no_module_names_a_board(module: str) -> None:
    assert named_boards(code_of(MODULES[module])) == []
    assert not any(name.partition(".")[0] == "boards" for name in imports(module))


C_FILES = sorted(
    path for path in AGENT.rglob("*") if path.suffix in {".c", ".h", ".S"} and "o" not in path.parts
)


@pytest.mark.parametrize("path", C_FILES, ids=lambda path: path.relative_to(AGENT).as_posix())
def test_no_source_of_the_agent_names_a_board(path: Path) -> None:
    assert named_boards(words_of(path)) == []


def test_a_boards_name_would_be_found() -> None:
    assert named_boards('connect("qemu-rv32")') == ["qemu-rv32"]
    assert named_boards("bp_linux_clock linux_clock nativeness qemu-rv32i") == []


# -- the agent --------------------------------------------------------------------------------

FREESTANDING = {
    "float.h",
    "iso646.h",
    "limits.h",
    "stdalign.h",
    "stdarg.h",
    "stdbool.h",
    "stddef.h",
    "stdint.h",
    "stdnoreturn.h",
}
"""The headers of a freestanding implementation (C11, 4, paragraph 6)."""

HOSTED = (
    "arch/avr/simulator/",
    "arch/posix/",
    "collectors/bp_linux_",
    "collectors/bp_papi.c",
    "libc/",
)
"""What runs on an operating system, or is linked with a C library, only: it may use headers."""


@pytest.mark.parametrize("path", C_FILES, ids=lambda path: path.relative_to(AGENT).as_posix())
def test_the_agent_includes_its_own_headers_only(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    place = path.relative_to(AGENT).as_posix()
    own = re.findall(r'^\s*#\s*include\s+"([^"]+)"', text, re.MULTILINE)
    system = re.findall(r"^\s*#\s*include\s+<([^>]+)>", text, re.MULTILINE)
    folders = [path.parent, AGENT / "include", *(AGENT / "arch").iterdir()]
    for name in own:
        assert any((folder / name).is_file() for folder in folders), f"{place} includes {name}"
    if not place.startswith(HOSTED):
        assert set(system) <= FREESTANDING


# -- public names -----------------------------------------------------------------------------


@pytest.mark.parametrize("module", [m for m in MODULES if not m.endswith("__main__")])
def test_a_module_lists_its_public_names_and_has_them(module: str) -> None:
    tree = ast.parse(MODULES[module].read_text(encoding="utf-8"))
    defined = [
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_")
    ]
    loaded = importlib.import_module(module)
    listed = getattr(loaded, "__all__", None)
    if listed is None:
        assert defined == [], f"{module} has public names and no __all__"
        return
    assert len(set(listed)) == len(listed)
    for name in listed:
        assert getattr(loaded, name) is not None
