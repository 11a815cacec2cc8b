# SPDX-License-Identifier: Apache-2.0
"""scripts/options.py: the table of options as C and Kconfig."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from boardprof.target.descriptions.tables import agent_options
from scripts import options
from scripts.options import Option, pages, read_options
from tests.support import AGENT

HEADER = """\
before
/* These options are generated from options/options.toml: make gen */
old
/* end of the options */
after
"""

ONE = """
[size]
title = "Bytes of something"
default = 64
kconfig = 128
range = "0, multiples of 8 from 64 to BP_CFG_MTU"
about = "Bytes of something, by BP_CFG_MTU."
sources = ["arch/<arch>/size*.c"]
needs = [["BP_CFG_SIZE != 0 && BP_CFG_MTU < 64", "BP_CFG_SIZE needs BP_CFG_MTU"]]
"""


def written(text: str) -> dict[str, str]:
    return {path.name: content for path, content in pages(read_options(text), HEADER).items()}


def test_an_option_has_its_default_and_its_range_in_c() -> None:
    assert (
        written(ONE)["bp_config.h"]
        == """\
before
/* These options are generated from options/options.toml: make gen */

/* Bytes of something, by BP_CFG_MTU. */
#ifndef BP_CFG_SIZE
#define BP_CFG_SIZE 64
#endif

#if BP_CFG_SIZE != 0 && (BP_CFG_SIZE < 64 || BP_CFG_SIZE > BP_CFG_MTU || BP_CFG_SIZE % 8 != 0)
#error "BP_CFG_SIZE is out of range (0, multiples of 8 from 64 to BP_CFG_MTU)"
#endif
#if BP_CFG_SIZE != 0 && BP_CFG_MTU < 64
#error "BP_CFG_SIZE needs BP_CFG_MTU"
#endif

#ifndef __ASSEMBLER__
/* A value that is a word is an error here; above, it counts as 0. */
enum {
    bp_size_is_a_number = sizeof(BP_CFG_SIZE),
};
#endif

/* end of the options */
after
"""
    )


def test_an_option_has_its_own_default_in_kconfig_and_the_widest_range() -> None:
    assert (
        written(ONE)["Kconfig"].split("\n\n", 1)[1]
        == """\
config BOARDPROF_SIZE
\tint "Bytes of something"
\tdefault 128
\trange 0 BOARDPROF_MTU
\thelp
\t  Bytes of something, by BOARDPROF_MTU.
"""
    )


def test_what_an_option_brings_is_told_to_each_build_system() -> None:
    made = written(ONE)
    assert "set(boardprof_sources_SIZE\n    arch/<arch>/size*.c)\n" in made["options.cmake"]
    assert "boardprof_sources_SIZE := \\\n    arch/<arch>/size*.c\n" in made["options.mk"]
    assert '"BP_CFG_SIZE": {' in made["options.json"]


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("1..8", "BP_CFG_X < 1 || BP_CFG_X > 8"),
        ("1 or more", "BP_CFG_X < 1"),
        ("0, 1, 8", "BP_CFG_X != 0 && BP_CFG_X != 1 && BP_CFG_X != 8"),
        ("0, 64..0x100", "BP_CFG_X != 0 && (BP_CFG_X < 64 || BP_CFG_X > 0x100)"),
        (
            "0, powers of two up to 0x40",
            "BP_CFG_X < 0 || BP_CFG_X > 0x40 || (BP_CFG_X & (BP_CFG_X - 1)) != 0",
        ),
    ],
)
def test_a_range_is_a_condition_in_c(text: str, condition: str) -> None:
    (option,) = read_options(f'[x]\ntitle = ""\ndefault = 0\nrange = "{text}"\nabout = ""')
    header = {path.name: page for path, page in pages([option], HEADER).items()}["bp_config.h"]
    assert f"#if {condition}\n" in header


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("BP_CFG_ARENA=(8 * 1024)", ""),
        ("BP_CFG_ARENA=-1", "BP_CFG_ARENA is out of range (0..0x7fffffff)"),
        ("BP_CFG_ARENA=4kb", '"kb"'),
        ("BP_CFG_ARENA=large", "large"),
        ("BP_CFG_TRACE_CORES=yes", "BP_CFG_TRACE_CORES is out of range (1..8)"),
    ],
)
def test_a_value_that_is_not_a_number_of_its_range_does_not_compile(
    option: str, message: str
) -> None:
    done = subprocess.run(
        ["cc", f"-D{option}", "-fsyntax-only", AGENT / "include/boardprof/bp_config.h"],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert (done.returncode == 0) == (not message), done.stderr
    assert message in done.stderr


def test_a_range_or_an_entry_that_is_not_known_is_an_error() -> None:
    with pytest.raises(ValueError, match="BP_CFG_X: range 'odd numbers' is not of a known form"):
        pages([Option("x", "", 0, "odd numbers", "")], HEADER)
    with pytest.raises(TypeError, match="color"):
        read_options('[x]\ncolor = "red"')


def test_the_header_has_the_options_and_defaults_of_the_table() -> None:
    """boardprof reads the header."""
    table = read_options((AGENT / "options" / "options.toml").read_text(encoding="utf-8"))
    assert {option.name: option.default for option in table} == dict(agent_options())


def test_a_file_that_is_not_current_is_reported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "options.toml").write_text(ONE)
    (tmp_path / "bp_config.h").write_text(HEADER)
    monkeypatch.setattr(options, "_FOLDER", tmp_path)
    monkeypatch.setattr(options, "_HEADER", tmp_path / "bp_config.h")
    assert options.main(["--check"]) == 1
    assert "options.mk is not current: run make gen." in capsys.readouterr().err
    assert options.main([]) == 0
    assert options.main(["--check"]) == 0
