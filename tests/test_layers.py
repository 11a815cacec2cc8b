# SPDX-License-Identifier: Apache-2.0
"""Which room of the host may import which, and that no module imports itself through others."""

from __future__ import annotations

from tests.modules import MODULES, breaking, imports, reaches

ROOMS = {
    "base": "",
    "wire": "base",
    "target": "base wire",
    "results": "base wire",
    "measure": "base wire target results",
    "show": "base wire results",
    "jobs": "base wire target results measure show",
    "compat": "base wire target results measure show jobs",
    "ui": "base wire target results measure show jobs compat",
}
"""Each room below ``host/boardprof``, and those that it may import."""


def room(module: str) -> str:
    package, _, rest = module.partition(".")
    return rest.partition(".")[0] if package == "boardprof" else ""


def beyond(module: str) -> set[str]:
    """Return the modules that one imports although its room may not."""
    known = {"", room(module), *ROOMS[room(module)].split()}
    return {name for name in imports(module) if room(name) not in known}


def test_a_room_imports_those_of_the_table_only() -> None:
    inside = [module for module in MODULES if room(module) in ROOMS]
    assert {room(module) for module in MODULES} - {"", "__main__"} == set(ROOMS)
    assert {module: beyond(module) for module in inside if beyond(module)} == {}


def test_no_module_imports_itself_through_others() -> None:
    """Imports inside functions count as well: they are for a quick start, and hide no circle."""
    back = {m: {n for n in imports(m) if n != m and m in reaches(n)} for m in MODULES}
    assert breaking(back) == {}
