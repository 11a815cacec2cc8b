# SPDX-License-Identifier: Apache-2.0
"""Which room of the host may import which, and that no module imports itself through others."""

from __future__ import annotations

from graphlib import TopologicalSorter

from tests.modules import MODULES, breaking, imports

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
    assert {room(module) for module in MODULES} - {"", "__main__"} == set(ROOMS)
    inside = [module for module in MODULES if room(module) in ROOMS]
    assert breaking({module: beyond(module) for module in inside}) == {}


def test_no_module_imports_itself_through_others() -> None:
    """The package itself lists the public names of all rooms, and knows their version."""
    used = {m: imports(m) & MODULES.keys() - {m, "boardprof"} for m in MODULES if m != "boardprof"}
    order = TopologicalSorter(used)
    order.prepare()  # raises CycleError, with the modules of a circle
