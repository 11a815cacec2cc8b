# SPDX-License-Identifier: Apache-2.0
"""The agent's size on each target, smallest and with each option, held against its budgets.

Run from the repository: ``python scripts/size.py``. Ends with 1 when a size is over its budget in
``device_runtime_c/size_budget.toml``, and with 7 when something cannot be built, for want of a
compiler, say. ``size_build.py`` says what is counted.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from boardprof.base.errors import BoardprofError
from boardprof.base.files import runtime_dir
from scripts.size_budget import Budget, BudgetError, exceeded, load_budgets
from scripts.size_build import OPTIONS, TARGETS, Figures, StackRules, Target, measure
from scripts.stack_depth import StackDepthError

__all__ = ["main"]

_BUDGETS = runtime_dir() / "size_budget.toml"
_STACK_RULES = runtime_dir() / "stack_rules.toml"
_HEAD = ("option", "target", "text", "budget", "data", "bss", "ram", "budget", "stack")
_FOOT = """\
Bytes of a whole image less one with an empty main: text is code and constants, ram is data and
bss, stack is the deepest path from main without the measured function's own. A budget is raised in
device_runtime_c/size_budget.toml, with the reason."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; return the exit status."""
    parser = argparse.ArgumentParser(description="The agent's size, against its budgets.")
    parser.add_argument("--budgets", type=Path, default=_BUDGETS, metavar="TOML")
    options = parser.parse_args(arguments)
    try:
        over = _sizes(options.budgets)
    except BoardprofError as error:
        print(f"size: {error}", file=sys.stderr)
        return error.exit_code
    except (BudgetError, StackDepthError) as error:
        print(f"size: {error}", file=sys.stderr)
        return 1
    print(_FOOT)
    for line in over:
        print(f"size: over budget: {line}", file=sys.stderr)
    return 1 if over else 0


def _sizes(path: Path) -> list[str]:
    """Print all rows; return what is over its budget."""
    budgets = load_budgets(
        path, [option.name for option in OPTIONS], [target.name for target in TARGETS]
    )
    over: list[str] = []
    unused = None
    _line(*_HEAD)
    with ProcessPoolExecutor() as pool:  # each build has a cache of its own, by the environment
        for rows, left in pool.map(_measured, TARGETS):
            for figures in rows:
                budget = budgets[figures.option]
                _row(figures, budget)
                over += exceeded(figures, budget)
            unused = left if unused is None else unused & left
    if unused:
        names = ", ".join(sorted(unused))
        raise StackDepthError(f"{_STACK_RULES}: no image has {names}: remove the names")
    return over


def _measured(target: Target) -> tuple[list[Figures], set[str]]:
    """Return a target's rows, and the names of stack rules that none of its images has."""
    rules = StackRules(_STACK_RULES)
    return list(measure(target, OPTIONS, rules)), set(rules.unused())


def _row(figures: Figures, budget: Budget) -> None:
    text, ram = budget.text[figures.target], budget.ram[figures.target]
    sizes = (figures.text, text, figures.data, figures.bss, figures.ram, ram, figures.stack)
    _line(figures.option, figures.target, *map(str, sizes))


def _line(option: str, target: str, *cells: str) -> None:
    print(f"{option:<20}{target:<15}" + "".join(f"{cell:>7}" for cell in cells), flush=True)


if __name__ == "__main__":
    sys.exit(main())
