# SPDX-License-Identifier: Apache-2.0
"""The size table: what of an image counts, budgets, and the real agent on a real target."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.collectors import main as collectors
from scripts.size import main
from scripts.size_budget import Budget, BudgetError, exceeded, load_budgets
from scripts.size_build import OPTIONS, TARGETS, Figures, Sections, StackRules, measure
from tests.support import AGENT, requires_tool, run

pytestmark = pytest.mark.slow

ROWS = [option.name for option in OPTIONS]
NAMES = [target.name for target in TARGETS]

CORTEX_M3 = next(target for target in TARGETS if target.name == "cortex-m3")

SIZES = """
#include <stdint.h>
const uint8_t table[40] = {1};
uint32_t counts[2] = {1, 2};
uint8_t zeros[12];
uint8_t kept[4] __attribute__((section(".noinit,\\"aw\\",%nobits@")));
"""

TABLE = """
[one]
text = 100
ram = { m0 = 20, m3 = 30 }
reason = "a reason"
"""


def cross_compiler() -> str:
    return requires_tool("arm-none-eabi-gcc", "gcc-arm-none-eabi")


def written(folder: Path, text: str) -> Path:
    path = folder / "table.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_only_what_a_target_holds_counts(tmp_path: Path) -> None:
    (tmp_path / "sizes.c").write_text(SIZES, encoding="utf-8")
    image = tmp_path / "sizes.elf"
    flags = ["-mcpu=cortex-m3", "-mthumb", "-g", "-nostdlib", "-Wl,--entry=0"]
    run([cross_compiler(), *flags, tmp_path / "sizes.c", "-o", image])
    assert Sections.read(image) == Sections(text=40, data=8, bss=16)


def test_a_size_at_its_budget_is_not_over_it() -> None:
    budget = Budget(text={"m3": 100}, ram={"m3": 30}, reason="a reason")
    assert exceeded(Figures("one", "m3", text=100, data=10, bss=20, stack=999), budget) == []


def test_a_size_over_its_budget_names_row_target_figure_and_budget() -> None:
    budget = Budget(text={"m3": 100}, ram={"m3": 30}, reason="a reason")
    assert exceeded(Figures("one", "m3", text=101, data=10, bss=25, stack=0), budget) == [
        "one on m3: text is 101 bytes, 1 more than its budget of 100",
        "one on m3: ram is 35 bytes, 5 more than its budget of 30",
    ]


def test_a_budget_is_for_all_targets_or_for_each(tmp_path: Path) -> None:
    assert load_budgets(written(tmp_path, TABLE), ["one"], ["m0", "m3"]) == {
        "one": Budget(text={"m0": 100, "m3": 100}, ram={"m0": 20, "m3": 30}, reason="a reason")
    }


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[one]", "[two]", "the row 'one' is missing"),
        ("[one]", "[two]\n[one]", "there is no row 'two'"),
        ('reason = "a reason"', "", r"\[one\]: the key 'reason' is missing"),
        ('"a reason"', '" "', r"\[one\] reason: say in a few words why"),
        ("m0 = 20, ", "", r"\[one\] ram: the target 'm0' is missing"),
        ("m0 = 20", "m0 = 20, m9 = 1", r"\[one\] ram: there is no target 'm9'"),
        ("100", '"much"', r"\[one\] text: 'much' is not a number of bytes"),
        ("100", "-1", r"\[one\] text: -1 is not a number of bytes"),
        ("100", "100, 200", "table.toml: "),
    ],
)
def test_a_table_that_says_too_little_or_too_much_is_an_error(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    path = written(tmp_path, TABLE.replace(old, new))
    with pytest.raises(BudgetError, match=message):
        load_budgets(path, ["one"], ["m0", "m3"])


def test_the_smallest_agent_has_4_kib_of_text_and_1_kib_of_ram_on_every_target() -> None:
    smallest = load_budgets(AGENT / "size_budget.toml", ROWS, NAMES)["smallest"]
    assert smallest.text == {"cortex-m0plus": 4096, "cortex-m3": 4096, "rv32imac": 4096}
    assert smallest.ram == {"cortex-m0plus": 1024, "cortex-m3": 1024, "rv32imac": 1024}


def test_the_smallest_agent_has_two_buffers_and_an_arena_comes_on_top() -> None:
    cross_compiler()
    options = [option for option in OPTIONS if option.name in ("smallest", "+arena")]
    rules = StackRules(AGENT / "stack_rules.toml")
    smallest, arena = measure(CORTEX_M3, options, rules)
    assert 1024 < smallest.text <= 4096
    assert 253 + 256 <= smallest.ram <= 1024  # a decoded frame of a 256-byte MTU, and the reply
    assert smallest.text + 100 < arena.text
    assert smallest.ram + 4096 < arena.ram < smallest.ram + 4096 + 256
    assert 200 < smallest.stack < 1024


def test_what_no_image_has_is_found_in_the_stack_rules(tmp_path: Path) -> None:
    rules = StackRules(written(tmp_path, '[indirect]\npoll = ["add", "fir"]\n'))
    graph = tmp_path / "a.ci"
    graph.write_text('node: { title: "a.c:add" label: "add\\na.c:1:1\\n8 bytes (static)" }\n')
    assert rules.for_graph([graph]).indirect == {"poll": ["add"]}
    assert rules.unused() == ["fir"]


def test_a_missing_compiler_is_named_with_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main([]) == 7
    assert "gcc-arm-none-eabi" in capsys.readouterr().err


def test_a_table_of_budgets_that_is_not_there_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--budgets", str(tmp_path / "absent.toml")]) == 1
    assert "absent.toml" in capsys.readouterr().err


def test_the_collectors_benchmark_names_a_missing_compiler_with_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert collectors([]) == 7
    assert "gcc-riscv64-unknown-elf" in capsys.readouterr().err
