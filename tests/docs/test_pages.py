# SPDX-License-Identifier: Apache-2.0
"""Every command and every snippet of the documentation does what its page shows."""

from __future__ import annotations

import json
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

import click
import jsonschema
import pytest

from boardprof.ui.cli.commands import cli
from boardprof.ui.cli.group import commands_below
from tests.docs.page import (
    PAGES,
    Block,
    Command,
    blocks_of,
    commands_of,
    name_of,
    prose_of,
)
from tests.docs.running import Reader, is_shown
from tests.support import ROOT, requires_tool

LANGUAGES = {
    "bash",
    "c",
    "console",
    "groovy",
    "json",
    "python",
    "sh",
    "systemverilog",
    "text",
    "toml",
    "yaml",
}
TEXTS = {name_of(page): page.read_text(encoding="utf-8") for page in PAGES}
BLOCKS = [(name, block) for name, text in TEXTS.items() for block in blocks_of(text)]
TOOLS = {
    "qemu-rv32": [
        ("riscv64-unknown-elf-gcc", "gcc-riscv64-unknown-elf"),
        ("qemu-system-riscv32", "qemu-system-misc"),
    ],
    "qemu-cortex-m3": [
        ("arm-none-eabi-gcc", "gcc-arm-none-eabi"),
        ("qemu-system-arm", "qemu-system-arm"),
    ],
    "arduino-uno": [("avr-gcc", "gcc-avr")],
}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", TEXTS)
def test_what_a_page_shows_is_what_happens(name: str, tmp_path: Path) -> None:
    blocks = blocks_of(TEXTS[name])
    run = "".join(block.text for block in blocks if block.reason is None)
    for board, tools in TOOLS.items():
        if board in run:
            for tool, package in tools:
                requires_tool(tool, package)
    reader = Reader(tmp_path)
    for block in blocks:
        reader.do(block)


def test_each_block_says_what_it_is() -> None:
    places = {f"{name}:{block.line}": block for name, block in BLOCKS}
    assert {place: b.language for place, b in places.items() if b.language not in LANGUAGES} == {}
    for block in places.values():
        if block.language == "json":
            json.loads(block.text)


def test_the_report_on_the_page_about_json_fits_the_schema() -> None:
    schema = json.loads((ROOT / "docs" / "report.schema.json").read_text(encoding="utf-8"))
    (shown,) = [b for b in blocks_of(TEXTS["docs/report-json.md"]) if b.language == "json"]
    jsonschema.Draft202012Validator(schema).validate(json.loads(shown.text))


def test_what_is_not_run_says_why() -> None:
    reasons = {f"{name}:{b.line}": b.reason for name, b in BLOCKS if b.reason is not None}
    assert {place: why for place, why in reasons.items() if len(why.split()) < 3} == {}


def test_every_other_block_is_run_or_becomes_a_file() -> None:
    kinds = {
        (b.language, b.file is None) for name, b in BLOCKS if b.reason is None and name in TEXTS
    }
    assert kinds <= {
        ("bash", False),
        ("c", False),
        ("console", True),
        ("groovy", False),
        ("json", False),
        ("json", True),
        ("python", False),
        ("python", True),
        ("sh", True),
        ("systemverilog", False),
        ("text", True),
        ("toml", False),
        ("yaml", False),
    }


# -- prose ----------------------------------------------------------------------------------------


def all_text() -> str:
    return "".join(TEXTS[name] for name in TEXTS)


def test_every_command_is_shown_or_named_on_a_written_page() -> None:
    commands = [c.name for _, c in commands_below(cli, click.Context(cli))]
    text = all_text()
    assert [n for n in commands if not re.search(rf"boardprof (\w+ )*{n}\b", text)] == []


def test_the_options_that_make_a_gate_are_on_the_page_about_gates() -> None:
    plugin = (ROOT / "host/boardprof/ui/pytest_plugin/options.py").read_text(encoding="utf-8")
    ours = set(re.findall(r'"(--bp-[a-z-]+)"', plugin))
    every = options(found("show"))  # quietness, width and the like
    compare = {n for n in options(found("compare")) - every if n.startswith("--")}
    assert "--fail-if-missing" in compare
    assert "--bp-require-baseline" in ours
    assert {name for name in ours | compare if name not in TEXTS["docs/gates.md"]} == set()


def test_every_name_of_the_package_that_prose_gives_is_there() -> None:
    wrong = []
    for name in TEXTS:
        for path in re.findall(r"`(boardprof(?:\.\w+)+)[`(]", prose_of(TEXTS[name])):
            if path not in GROUPS and not is_importable(path):
                wrong.append(f"{name}: {path}")
    assert wrong == []


GROUPS = {"boardprof.boards", "boardprof.collectors", "boardprof.transports", "boardprof.exporters"}
GROUPS |= {"boardprof.comparison_exporters", "boardprof.histories", "boardprof.meters"}


def is_importable(path: str) -> bool:
    try:
        pkgutil.resolve_name(path)
    except (ImportError, AttributeError):
        return path in ("boardprof.toml", "boardprof.mk")
    return True


def test_every_file_and_make_target_that_prose_names_is_there() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    wrong = []
    for name, words in inline():
        if words[0] == "make" and len(words) == 2 and words[1] not in targets:
            wrong.append(f"{name}: {' '.join(words)}")
        top = words[0].partition("/")[0]
        is_path = top in TOPS and "NAME" not in words[0]
        if len(words) == 1 and is_path and not (ROOT / words[0]).exists():
            wrong.append(f"{name}: {words[0]}")
    assert wrong == []


TOPS = {"boards", "device_runtime_c", "examples", "host", "protocol", "scripts", "tests"}


def found(name: str) -> click.Command | None:
    return cli.get_command(click.Context(cli), name)


def options(command: click.Command | None) -> set[str]:
    assert command is not None
    return {name for each in command.params for name in (*each.opts, *each.secondary_opts)}


def all_options() -> set[str]:
    commands = dict(commands_below(cli, click.Context(cli))).values()
    return {name for command in [cli, *commands] for name in [*options(command), "--help"]}


def inline() -> Iterator[tuple[str, list[str]]]:
    for name in TEXTS:
        for code in re.findall(r"`([^`\n]*\w[^`\n]*)`", prose_of(TEXTS[name])):
            yield name, code.split()


def test_every_command_that_prose_names_is_there_with_its_options() -> None:
    wrong = []
    for name, words in inline():
        if words[0] != "boardprof" or len(words) < 2 or not words[1].isalpha():
            continue
        command = found(words[1])
        if isinstance(command, click.Group) and len(words) > 2:
            command = command.commands.get(words[2], command)
        known = options(command) if command is not None else set()
        if command is None or any(
            w.startswith("-") and w[:2] != "-O" and w.split("=")[0] not in known for w in words
        ):
            wrong.append(f"{name}: {' '.join(words)}")
    assert wrong == []


def test_every_option_that_prose_names_is_there() -> None:
    plugin = (ROOT / "host/boardprof/ui/pytest_plugin/options.py").read_text(encoding="utf-8")
    names = re.findall(r'\badd\(\s*"([a-z-]+)"', plugin)
    known = all_options() | {f"--bp-{name}" for name in names}
    named = {(name, words[0]) for name, words in inline() if words[0].startswith("--")}
    assert [each for each in sorted(named) if each[1].split("=")[0] not in known] == []


def without_code(text: str) -> str:
    return re.sub(r"`[^`\n]*`", "", text)


def anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower()).replace(" ", "-")


OUTSIDE_DOCS = ["ARCHITECTURE.md", "CONTRIBUTING.md", "benchmarks/README.md", "boards/README.md"]
OUTSIDE_DOCS += ["protocol/SPEC.md"]


def test_every_link_leads_somewhere() -> None:
    wrong = []
    texts = {name: (ROOT / name).read_text(encoding="utf-8") for name in OUTSIDE_DOCS}
    for name, text in (TEXTS | texts).items():
        for target in re.findall(r"\]\(([^)\s]+)\)", without_code(prose_of(text))):
            path, _, fragment = target.partition("#")
            page = (ROOT / name).parent / path if path else ROOT / name
            if path.startswith("http"):
                continue
            if not page.exists():
                wrong.append(f"{name}: {target}")
            elif fragment and page.suffix == ".md":
                headings = re.findall(r"^#+ +(.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
                if fragment not in map(anchor, headings):
                    wrong.append(f"{name}: {target}")
    assert wrong == []


def test_the_glossary_has_each_word_once_in_alphabetical_order() -> None:
    words = re.findall(r"^- \*\*(.+?)\*\*:", TEXTS["docs/glossary.md"], re.MULTILINE)
    assert words == sorted(set(words), key=str.casefold)
    assert {"agent", "blob", "clock kind", "hotspots", "in place", "packed function"} <= {*words}


# -- what the tests themselves go by --------------------------------------------------------------


def test_dots_stand_for_lines_and_for_text() -> None:
    printed = ["a  1", "", "b 2", "c 3 us"]
    assert is_shown(printed, ["a 1", "...", "c ... us"], exactly=True)
    assert is_shown(printed, ["a 1", "b 2", "c 3 us"], exactly=True)
    assert not is_shown(printed, ["a 1", "b 2"], exactly=True)
    assert not is_shown(printed, ["a 2", "..."], exactly=True)
    assert is_shown(printed, ["a 2", "..."], exactly=False)
    assert not is_shown(printed, ["d 1", "..."], exactly=False)


def test_commands_go_on_behind_a_backslash_and_have_what_is_shown_below() -> None:
    console = Block("console", "$ a \\\n    b\nshown\n\n$ c\n", 1, None, None, False)
    assert commands_of(console) == [Command("a b", ("shown",)), Command("c", ())]
    script = Block("sh", "a \\\n    b\nc\n", 1, None, None, False)
    assert [command.text.split() for command in commands_of(script)] == [["a", "b"], ["c"]]


def test_a_command_that_fails_fails_its_page_unless_its_exit_code_is_shown(tmp_path: Path) -> None:
    reader = Reader(tmp_path)
    reader.do(Block("console", "$ (exit 3)\n$ echo $?\n3\n", 1, None, None, False))
    with pytest.raises(AssertionError, match="ended with 3"):
        reader.do(Block("console", "$ (exit 3)\n", 1, None, None, False))
