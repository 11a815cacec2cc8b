# SPDX-License-Identifier: Apache-2.0
"""What sources may contain: other people's packages, headers, names of boards, public names.

Each rule is one test over all modules or files, and names every one that breaks it.
"""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

from tests.modules import MODULES, breaking, imports, ours, reaches, third_party
from tests.support import AGENT, ROOT

BOARDS = sorted(path.parent.name for path in ROOT.glob("boards/*/board.toml"))


def test_the_contract_knows_construct_and_nothing_else() -> None:
    contract = [module for module in MODULES if module.startswith("boardprof_protocol")]
    assert breaking({module: third_party(module) - {"construct"} for module in contract}) == {}
    assert breaking({module: reaches(module) - set(contract) for module in contract}) == {}


def test_the_state_machine_has_no_input_output_or_clock() -> None:
    reached = reaches("boardprof.wire.link.requests")
    ours_reached = {name for name in reached if name.startswith("boardprof.")}
    assert ours_reached == {"boardprof.wire.link.requests"}
    used = {name.partition(".")[0] for module in reached for name in imports(module)}
    assert used & {"asyncio", "datetime", "os", "select", "socket", "threading", "time"} == set()


def test_what_commands_print_goes_through_one_place() -> None:
    """Where it is made printable: names and messages are often a stranger's."""
    own = {"boardprof.ui.cli", "boardprof.ui.cli.output"}
    printing = re.compile(r"\bclick\.s?echo|\bprint$|\bsys\.std(out|err)\.write|\bos\.write$")
    found = {}
    for module in (
        ours("ui", "jobs.run", "measure.doctor", "target.scaffold", "results.redecode") - own
    ):
        tree = ast.parse(MODULES[module].read_text(encoding="utf-8"))
        called = [ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)]
        found[module] = [name for name in called if printing.search(name)]
    assert breaking(found) == {}


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


def test_a_package_of_an_extra_is_used_in_one_place() -> None:
    users = {"optuna": "jobs.tune.search", "distributed": "jobs.fleet.dask_worker"}
    users["dask"] = "jobs.fleet.dask_worker"
    found = {package: {m for m in MODULES if package in third_party(m)} for package in users}
    assert found == {package: {f"boardprof.{place}"} for package, place in users.items()}


def test_the_fleets_policy_has_no_input_output_or_clock() -> None:
    pure = {"boardprof.jobs.fleet.policy"}
    assert reaches("boardprof.jobs.fleet.policy") == pure
    assert third_party("boardprof.jobs.fleet.policy") == set()
    own = imports("boardprof.jobs.fleet.policy")
    assert own & {"asyncio", "datetime", "os", "random", "socket", "threading", "time"} == set()


def test_tvms_compiler_is_used_in_one_room_that_nothing_needs() -> None:
    assert {module for module in MODULES if "tvm" in third_party(module)} <= ours("compat.tvm")
    assert {module for module in MODULES if imports(module) & ours("compat.tvm")} <= ours(
        "compat.tvm"
    )


MIGRATIONS = ours("results.history.postgres.migrations")
SERVER = {"alembic", "psycopg"}
STUDY = "boardprof.jobs.tune.search"  # optuna keeps a study with SQLAlchemy, in a file


def test_the_packages_of_postgresql_are_used_in_one_room_that_is_imported_by_its_name() -> None:
    room = ours("results.history.postgres")
    assert {module for module in MODULES if third_party(module) & SERVER} <= room
    assert {module for module in MODULES if "sqlalchemy" in third_party(module)} <= {STUDY, *room}
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
    "proof/posix/",
    "collectors/bp_linux_",
    "collectors/bp_papi.c",
    "libc/",
    "recorder/",
    "simulator/",
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
    modules = [
        module for module in modules if module not in ours("compat.tvm")
    ]  # its extra is large
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
