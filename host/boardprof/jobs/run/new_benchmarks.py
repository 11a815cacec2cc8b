# SPDX-License-Identifier: Apache-2.0
"""A first file of benchmarks, from the functions that sources have."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from boardprof.base.errors import UsageError
from boardprof.base.settings import BENCHMARKS
from boardprof.jobs.run.benchmarks import KEYS_OF_CODE, NOT_IN_NAMES
from boardprof.jobs.run.function_choice import example
from boardprof.jobs.run.plan import ALL
from boardprof.target.arguments.signature import parse_signature
from boardprof.target.build.build_options import BuildOptions
from boardprof.target.build.builder import Build
from boardprof.target.cfunction import CFunction, signature
from boardprof.target.descriptions.board import board_spec, default_board

COMMON = f"[{BENCHMARKS}]"
"""The head of the table of what all benchmarks have."""

MARK = "CHANGE:"
"""What stands beside each value that only the user knows."""


@dataclass(frozen=True)
class FirstBenchmarks:
    """The text of the tables, and what they lack."""

    text: str
    count: int
    left_out: Mapping[str, str]  # function -> why it cannot be called


def first_benchmarks(
    sources: Sequence[str], board: str | None, options: BuildOptions, given: Collection[str]
) -> FirstBenchmarks:
    """Return a table for each function, and one of the ``given`` board and options for all.

    Raises a UsageError if no function can be called.
    """
    spec = board_spec(board) if board else default_board()
    tables: dict[str, str] = {}
    left_out: dict[str, str] = {}
    for source in sources:
        found, _ = Build(spec, [source], options, None).functions()
        for function in found:
            if function.reason is not None:
                left_out[function.name] = function.reason
            else:
                name = re.sub(NOT_IN_NAMES, "-", function.name)
                numbered = (name if n == 1 else f"{name}-{n}" for n in itertools.count(1))
                name = next(each for each in numbered if each not in (*tables, ALL))
                tables[name] = "\n".join(_table(name, source, function))
    if not tables:
        raise UsageError(
            f"No function in {', '.join(sources)} can be called.",
            hint=f"boardprof functions {' '.join(sources)} gives the reasons",
        )
    common = [f"boards = [{_toml(board)}]"] if board and "boards" in given else []
    for key, attribute in KEYS_OF_CODE.items():
        if attribute in given:
            value = getattr(options, attribute)
            written = value.removeprefix("-O") if key == "optimize" else value
            common.append(f"{key} = {_toml(written)}")
    head = ["\n".join([COMMON, *common, ""])] if common else []
    return FirstBenchmarks("\n".join([*head, *tables.values()]), len(tables), left_out)


def _toml(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _table(name: str, source: str, function: CFunction) -> Iterator[str]:
    yield "[[benchmark]]"
    yield f"name = {_toml(name)}"
    yield f"target = {_toml(f'{source}:{function.name}')}"
    parsed = parse_signature(signature(function))
    for parameter, kind in parsed.parameters:
        text = example(parsed, parameter).strip("'")
        value = text if text.replace(".", "").isdigit() or text == "true" else _toml(text)
        key = parameter if parameter.isascii() else _toml(parameter)
        yield f"arguments.{key} = {value}  # {MARK} {kind}"
    yield ""
