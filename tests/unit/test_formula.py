# SPDX-License-Identifier: Apache-2.0
"""Formulas are read as people write them, and never give a number where there is none."""

from __future__ import annotations

import re

import pytest

from boardprof.base.formula import FormulaError, marked, parse_formula

VALUES = {"a": 6.0, "b": 3.0, "branch-misses": 5.0, "cpu/x": 1.0, "zero": 0.0}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a / b", 2.0),
        ("a/b", 2.0),
        ("a - b - 1", 2.0),
        ("a / b / 2", 1.0),
        ("1 + a * b", 19.0),
        ("(1 + a) * b", 21.0),
        ("-a + 10", 4.0),
        ("2 * -b", -6.0),
        ("100 * branch-misses / a", 83.33333333333333),
        ("branch-misses - b", 2.0),
        ("0.5 * a", 3.0),
        ("((a))", 6.0),
        ("a / zero", None),
        ("a / (b - 3)", None),
        ("zero / a", 0.0),
        ("a / missing", None),
    ],
)
def test_a_formula_gives(text: str, value: float | None) -> None:
    assert parse_formula(text).value(VALUES) == value


def test_a_formula_names_what_it_needs_once_in_the_order_of_the_text() -> None:
    assert parse_formula("(b + a) / b - INST_RETIRED").names == ("b", "a", "INST_RETIRED")


def test_a_formula_of_values_with_other_names_is_the_same_formula() -> None:
    formula = parse_formula("x.a / x.b").renamed(lambda name: name.removeprefix("x."))
    assert (formula.names, formula.text, formula.value(VALUES)) == (("a", "b"), "x.a / x.b", 2.0)


@pytest.mark.parametrize(
    ("text", "at"),
    [("", 0), ("a /", 3), ("a /  * b", 5), ("a b", 2), ("  (a", 4), ("1 / 2", 0), ("a  ? b", 3)],
)
def test_what_is_no_formula_is_wrong_at_a_place(text: str, at: int) -> None:
    with pytest.raises(FormulaError) as caught:
        parse_formula(text)
    assert caught.value.at == at


def test_each_name_has_the_place_where_it_first_stands() -> None:
    assert parse_formula(" (b + a) / b").places == (2, 6)


def test_a_place_is_marked_on_the_next_line() -> None:
    assert marked("a + bb", 4, 2) == "  a + bb\n      ^^"


def test_a_formula_may_have_500_numbers_names_and_signs_and_no_more() -> None:
    assert parse_formula("-a" + " + a" * 249).value({"a": 1.0}) == 248.0
    with pytest.raises(ValueError, match="is too long: 500 numbers, names and signs are allowed"):
        parse_formula("a" + " + a" * 250)


def test_a_minus_behind_a_name_belongs_to_it() -> None:
    assert parse_formula("a-b").names == ("a-b",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", '"": a number, a name or a bracket is expected, but it ends'),
        ("a /", '"a /": a number, a name or a bracket is expected, but it ends'),
        ("a b", '"a b": an operator is expected, but "b" was found'),
        ("a % b", '"a % b": an operator is expected, but "% b" was found'),
        ("(a / b", '"(a / b": ")" is expected, but it ends'),
        ("a ** 2", 'a number, a name or a bracket is expected, but "* 2" was found'),
        ("a / b)", 'an operator is expected, but ")" was found'),
        ("__import__('os')", "an operator is expected, but \"('os')\" was found"),
        ("1 / 2", '"1 / 2" does not name a counter'),
        ("(" * 99 + "a", "is nested too deeply"),
    ],
)
def test_what_is_no_formula_is_told_with_its_place(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        parse_formula(text)
