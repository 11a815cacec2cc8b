# SPDX-License-Identifier: Apache-2.0
"""Who may import whom. The rules are those of the architecture: one straight line, two ends.

Each rule is one test over all modules or files, and names every one that breaks it.
"""

from __future__ import annotations

import ast
import importlib
import re
import sys
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from pathlib import Path

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


def breaking(found: Mapping[str, Collection[str]]) -> dict[str, list[str]]:
    """Return the modules or files that break a rule, with what is wrong in each."""
    assert found, "a rule about nothing"
    return {name: sorted(wrong) for name, wrong in found.items() if wrong}


def test_the_contract_knows_construct_and_nothing_else() -> None:
    contract = [module for module in MODULES if module.startswith("boardprof_protocol")]
    assert breaking({module: third_party(module) - {"construct"} for module in contract}) == {}
    assert breaking({module: reaches(module) - set(contract) for module in contract}) == {}


TRANSPORTS = ours("transport", "connection", "link", "board.fetch_dictionary", "board.open_board")
MEANING = ours("decode", "metrics", "report", "render")


def test_meaning_knows_no_transport() -> None:
    modules = MEANING | ours("measure.selection")
    assert breaking({module: reaches(module) & TRANSPORTS for module in modules}) == {}


def test_a_transport_knows_errors_and_entry_points_only() -> None:
    known = ours(
        "transport", "errors", "packages", "port_name", "printable", "processes", "writing"
    )
    assert known & MEANING == set()
    assert breaking({module: reaches(module) - known for module in ours("transport")}) == {}


def test_the_state_machine_has_no_input_output_or_clock() -> None:
    reached = reaches("boardprof.link.rpc")
    ours_reached = {name for name in reached if name.startswith("boardprof.")}
    assert ours_reached == {"boardprof.link.rpc"}
    used = {name.partition(".")[0] for module in reached for name in imports(module)}
    assert used & {"asyncio", "datetime", "os", "select", "socket", "threading", "time"} == set()


def test_what_commands_print_goes_through_one_place() -> None:
    """Where it is made printable: names and messages are often a stranger's."""
    own = {"boardprof.cli", "boardprof.cli.output"}
    printing = re.compile(r"\bclick\.s?echo|\bprint$|\bsys\.std(out|err)\.write|\bos\.write$")
    found = {}
    for module in ours("cli", "run", "doctor", "scaffold", "decode_again", "devices") - own:
        tree = ast.parse(MODULES[module].read_text(encoding="utf-8"))
        called = [ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)]
        found[module] = [name for name in called if printing.search(name)]
    assert breaking(found) == {}


def test_rendering_knows_reports_only() -> None:
    known = ours("report", "stats", "comparison", "history", "metrics", "errors", "packages")
    known |= ours("render", "exporters", "printable", "processes", "writing") | {"boardprof"}
    known |= ours("settings", "toml_table")  # the name of the history's project
    known |= ours("events", "decode", "formula")  # traces, and the Reports of their ranges
    known |= {each for each in MODULES if each.startswith("boardprof_protocol")}
    assert breaking({module: reaches(module) - known for module in ours("render")}) == {}


def test_the_command_reaches_boards_through_the_runner_and_connect_only() -> None:
    imported = {name for module in ours("cli") for name in imports(module)}
    assert imported & (TRANSPORTS | MEANING) - ours("render") == {
        "boardprof.connection",
        "boardprof.report.report_file",
    }


ORDER = [
    "cli",
    "fleet",
    "pytest_plugin",
    "doctor",
    "scaffold",
    "decode_again",
    "devices",
    "tune",
    "run",
    "trace",
    "profiling",
    "connection",
    "firmware",
    "board",
    "hotspots",
    "measure",
    "link",
    "elf",
    "toolchain",
    "boards",
    "transport",
    "history",
    "render",
    "comparison",
    "stats",
    "events",
    "report",
    "decode",
    "arguments",
    "cfunction",
    "metrics",
]
"""The parts of the host, each before those that it uses."""

BACK = {
    ("boardprof.comparison.compare", "boardprof.history"): "names of runs, when it is called",
}


def part(module: str) -> str | None:
    package, _, rest = module.partition(".")
    name = rest.partition(".")[0] if package == "boardprof" else ""
    return name if name in ORDER else None


def backwards(module: str) -> set[str]:
    """Return the modules that one imports although their part stands above its own."""
    own = ORDER.index(part(module) or "")
    parts = {name: part(name) for name in imports(module)}
    above = {name for name, its in parts.items() if its and ORDER.index(its) < own}
    return {name for name in above if not any(module == m and name.startswith(n) for m, n in BACK)}


def test_the_parts_of_the_host_use_each_other_one_way() -> None:
    assert breaking({module: backwards(module) for module in MODULES if part(module)}) == {}


def test_no_module_imports_itself_through_others() -> None:
    """Imports inside functions count as well: they are for a quick start, and hide no circle."""
    back = {m: {n for n in imports(m) if n != m and m in reaches(n)} for m in MODULES}
    assert breaking(back) == {}


BOARD_SOURCES = sorted(p for p in ROOT.glob("boards/*/*") if p.suffix in {".c", ".h", ".S"})
ARCH = {path.name for path in (AGENT / "arch").glob("*/*.h")}


def included(path: Path, marks: str = '""') -> set[str]:
    """Return the headers that a C file includes: its own side's, or the system's by ``<>``."""
    opening, closing = marks
    pattern = rf"^\s*#\s*include\s+{opening}([^{closing}]+){closing}"
    return set(re.findall(pattern, path.read_text(encoding="utf-8"), re.MULTILINE))


def place_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_a_board_includes_the_public_headers_and_its_own_only() -> None:
    public = {f"boardprof/{name}" for name in ("bp.h", "bp_port.h", "bp_wire.h", "bp_le.h")}
    own = {path: {p.name for p in path.parent.iterdir()} for path in BOARD_SOURCES}
    wrong = {place_of(p): included(p) - public - ARCH - own[p] for p in BOARD_SOURCES}
    assert breaking(wrong) == {}


def test_nobody_imports_the_command() -> None:
    users = {module for module in MODULES if imports(module) & ours("cli")}
    assert users - ours("cli") == {"boardprof.__main__"}


def test_nothing_imports_the_interfaces_of_tvm_and_torch() -> None:
    """They stand beside each other, on what everything else uses."""
    known = {
        "profiling": {"boardprof", "boardprof.tvm.network"},
        "trace": {"boardprof", "boardprof.itt"},
    }
    users = {name: {m for m in MODULES if imports(m) & ours(name)} - ours(name) for name in known}
    assert breaking({name: users[name] - known[name] for name in known}) == {}


def test_tuning_is_a_room_of_its_own() -> None:
    users = {module for module in MODULES if imports(module) & ours("tune")} - ours("tune")
    assert users == {"boardprof.cli.tune", "boardprof.fleet.runner", "boardprof.tvm.tuning"}
    assert {m for m in MODULES if "optuna" in third_party(m)} == {"boardprof.tune.search"}


def test_a_fleet_is_a_room_of_its_own() -> None:
    users = {module for module in MODULES if imports(module) & ours("fleet")} - ours("fleet")
    assert users == {"boardprof.cli.fleet", "boardprof.cli.tune", "boardprof.cli.worker"}
    assert {m for m in MODULES if "distributed" in third_party(m)} == {"boardprof.fleet.extra"}
    assert {m for m in MODULES if "dask" in third_party(m)} == {"boardprof.fleet.dask_worker"}
    pure = {"boardprof.fleet.policy"}
    assert reaches("boardprof.fleet.policy") == pure
    assert third_party("boardprof.fleet.policy") == set()
    own = imports("boardprof.fleet.policy")
    assert own & {"asyncio", "datetime", "os", "random", "socket", "threading", "time"} == set()


def test_tvms_compiler_is_used_in_one_room_that_nothing_needs() -> None:
    assert {module for module in MODULES if "tvm" in third_party(module)} <= ours("tvm")
    assert {module for module in MODULES if imports(module) & ours("tvm")} <= ours("tvm")


MIGRATIONS = ours("history.postgres.migrations")
SERVER = {"alembic", "psycopg", "sqlalchemy"}


def test_the_packages_of_postgresql_are_used_in_one_room_that_is_imported_by_its_name() -> None:
    room = ours("history.postgres")
    assert {module for module in MODULES if third_party(module) & SERVER} <= room
    assert {module for module in MODULES if imports(module) & room} <= room


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


NAMES = re.compile(rf"(?<![\w-])(?:{'|'.join(map(re.escape, BOARDS))})(?![\w-])")


def named_boards(text: str) -> list[str]:
    return sorted(set(NAMES.findall(text)))


def test_no_module_names_a_board() -> None:
    assert breaking({m: named_boards(code_of(path)) for m, path in MODULES.items()}) == {}
    tops = {module: {name.partition(".")[0] for name in imports(module)} for module in MODULES}
    assert breaking({module: names & {"boards"} for module, names in tops.items()}) == {}


C_FILES = sorted(
    path for path in AGENT.rglob("*") if path.suffix in {".c", ".h", ".S"} and "o" not in path.parts
)


def test_no_source_of_the_agent_names_a_board() -> None:
    assert breaking({place_of(path): named_boards(words_of(path)) for path in C_FILES}) == {}


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
    "arduino/",
    "arch/posix/",
    "collectors/bp_linux_",
    "collectors/bp_papi.c",
    "libc/",
    "recorder/",
)
"""What runs on an operating system, or is linked with a C library, only: it may use headers."""


def test_the_agent_includes_its_own_headers_only() -> None:
    shared = [AGENT / "include", AGENT / "recorder", *(AGENT / "arch").iterdir()]
    wrong = {}
    for path in C_FILES:
        folders = [path.parent, *shared]
        own = {n for n in included(path) if any((folder / n).is_file() for folder in folders)}
        hosted = path.relative_to(AGENT).as_posix().startswith(HOSTED)
        system = set() if hosted else included(path, "<>") - FREESTANDING
        if path.parent == AGENT / "zephyr":  # its hooks are compiled with Zephyr alone
            system = {name for name in system if not name.startswith("zephyr/")}
        wrong[place_of(path)] = included(path) - own | system
    assert breaking(wrong) == {}


# -- public names -----------------------------------------------------------------------------


def wrong_names(module: str) -> set[str]:
    """Return names that a module's ``__all__`` lists twice, or that do not exist.

    Without ``__all__``, whatever has no leading underscore is for the rest of the package.
    """
    loaded = importlib.import_module(module)
    listed = getattr(loaded, "__all__", None)
    if listed is None:
        return set()
    twice = {name for name in listed if listed.count(name) > 1}
    return twice | {name for name in listed if getattr(loaded, name, None) is None}


def test_a_module_has_the_names_that_it_lists() -> None:
    modules = [module for module in MODULES if not module.endswith("__main__")]
    modules = [module for module in modules if module not in ours("tvm")]  # its extra is large
    modules = [module for module in modules if module not in MIGRATIONS]  # alembic runs them
    assert breaking({module: wrong_names(module) for module in modules}) == {}


def private_names(module: str) -> set[str]:
    """Return the names with a leading underscore that a module takes from another one."""
    tree = ast.parse(MODULES[module].read_text(encoding="utf-8"))
    froms = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    names = {f"{node.module}.{alias.name}" for node in froms for alias in node.names}
    return {name for name in names if re.fullmatch(r"boardprof.*\._[^_]\w*", name)} - set(MODULES)


def test_a_leading_underscore_keeps_a_name_in_its_module() -> None:
    assert breaking({module: private_names(module) for module in MODULES}) == {}
