# SPDX-License-Identifier: Apache-2.0
"""Lines on a terminal: no longer than it is wide, and what goes on below stands under its like."""

from __future__ import annotations

from boardprof.render.cells import display_width
from boardprof.render.folding import folded
from boardprof.render.plain_table import plain_table


def test_what_is_said_of_an_item_goes_on_where_it_began() -> None:
    text = "native  this machine, inside the host's own process\nlinux   likewise"
    assert folded(text, 30) == (
        "native  this machine, inside\n        the host's own process\nlinux   likewise"
    )


def test_a_line_without_an_item_goes_on_four_columns_deeper() -> None:
    assert (
        folded("  flags: -O2 -funroll-loops -g", 22)
        == "  flags: -O2\n      -funroll-loops\n      -g"
    )


def test_an_item_that_takes_more_than_half_does_not_squeeze_what_is_said_of_it() -> None:
    text = "a_function_with_a_long_name  is here and there"
    assert folded(text, 40) == "a_function_with_a_long_name  is here and\n    there"


def test_wide_characters_are_not_parted() -> None:
    lines = folded("漢字" * 20, 21).split("\n")
    assert max(map(display_width, lines)) <= 21
    assert "".join(line.strip() for line in lines) == "漢字" * 20


def test_too_few_columns_to_fold_into_leave_the_text_alone() -> None:
    assert folded("one two three four five six", 0) == "one two three four five six"


def test_columns_without_any_value_are_left_out_of_a_plain_table() -> None:
    table = plain_table(("Port", "Serial", "State"), [("/dev/a", "", "free"), ("b\n", "", "no")])
    assert table == "Port    State\n/dev/a  free\nb\\n     no\n"
