# SPDX-License-Identifier: Apache-2.0
"""The modules of the host and the protocol, and what each of them imports."""

from __future__ import annotations

import ast
import sys
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path

from tests.support import ROOT

HOST = ROOT / "host"
PROTOCOL = ROOT / "protocol"


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

    Those in a function count, and those for types, which never run.
    """
    tree = ast.parse(MODULES[module].read_text(encoding="utf-8"))
    return frozenset(name for node in ast.walk(tree) for name in imported(module, node))


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


def breaking(found: Mapping[str, Collection[str]]) -> dict[str, list[str]]:
    """Return the modules or files that break a rule, with what is wrong in each."""
    assert found, "a rule about nothing"
    return {name: sorted(wrong) for name, wrong in found.items() if wrong}
