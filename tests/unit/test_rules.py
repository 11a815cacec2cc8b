# SPDX-License-Identifier: Apache-2.0
"""Rules for changes: how they are read, what they are for, and what breaks them."""

from __future__ import annotations

import pytest

from boardprof.results.comparison.rule import Rule, RuleError, Usual, parse_rule, statistic
from boardprof.results.stats.summary import summarize


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("cycles:median>2%", ("cycles", "median", ">", 2.0, "%")),
        ("cycles>2%", ("cycles", "median", ">", 2.0, "%")),
        ("instructions:max>0", ("instructions", "max", ">", 0.0, "")),
        ("*:median>1%", ("*", "median", ">", 1.0, "%")),
        ("npu.stall:mean>1pp", ("npu.stall", "mean", ">", 1.0, "pp")),
        ("IPC<-5%", ("IPC", "median", "<", -5.0, "%")),
        ("Duration (us):p95>.5", ("Duration (us)", "p95", ">", 0.5, "")),
        (" Data waits (%) : MAX > +1.5e1 pp ", ("Data waits (%)", "max", ">", 15.0, "pp")),
        ("perf::INSTRUCTIONS:u>1%", ("perf::INSTRUCTIONS:u", "median", ">", 1.0, "%")),
        ("a:b:min<0", ("a:b", "min", "<", 0.0, "")),
        ("cycles:cold>10%", ("cycles", "cold", ">", 10.0, "%")),
        ("cycles>4spread", ("cycles", "median", ">", 4.0, "spread")),
        ("IPC:mean < -2.5 spreads", ("IPC", "mean", "<", -2.5, "spread")),
    ],
)
def test_a_rule_is_metric_statistic_sign_limit_and_unit(
    text: str, parts: tuple[str, str, str, float, str]
) -> None:
    rule = parse_rule(text)
    assert (rule.metric, rule.statistic, rule.sign, rule.limit, rule.unit) == parts
    assert str(rule) == text


@pytest.mark.parametrize(
    ("text", "column", "words"),
    [
        ("", 0, "no '>' or '<'"),
        ("cycles", 6, "no '>' or '<'"),
        (">2%", 0, "names no metric"),
        (":median>2%", 0, "names no metric"),
        ("cycles:medain>2%", 7, "no statistic 'medain'"),
        ("cycles:>2%", 7, "The colon has no statistic"),
        ("cycles>", 7, "The limit is not a number"),
        ("cycles> two", 8, "The limit is not a number"),
        ("cycles>nan", 7, "The limit is not a number"),
        ("cycles>1e999", 7, "too large"),
        ("cycles>" + 1001 * "9", 7, "too large"),
        ("cycles>=2%", 7, "'=' is not supported"),
        ("cycles>>2%", 7, "two signs"),
        ("cycles=>2%", 7, "two signs"),
        ("cycles>2 q", 9, "no unit 'q'"),
        ("cycles>2%%", 8, "no unit '%%'"),
        ("cycles>2sd", 8, "no unit 'sd'"),
        ("cycles>-2%", 6, "growth beyond a limit"),
        ("IPC<5%", 3, "growth beyond a limit"),
    ],
)
def test_what_does_not_parse_is_shown_with_a_caret(text: str, column: int, words: str) -> None:
    with pytest.raises(RuleError) as caught:
        parse_rule(text)
    message, shown, caret = caught.value.message.split("\n")
    assert words in message
    assert shown == f"  {text}"
    assert caret == "  " + " " * column + "^"
    assert caught.value.hint


def test_what_was_probably_meant_is_proposed() -> None:
    statistics = ("cycles:medain>2%", "cycles:p7>0", "cycles:p50>0", "cycles:p99>0")
    hints = {}
    for text in (*statistics, "cycles>-2%", "IPC<5%"):
        with pytest.raises(RuleError) as caught:
            parse_rule(text)
        hints[text] = caught.value.hint
    assert hints == {
        "cycles:medain>2%": "'median'",
        "cycles:p7>0": "'p5'",
        "cycles:p50>0": "'median'",
        "cycles:p99>0": "'p95'",
        "cycles>-2%": "cycles>2%",
        "IPC<5%": "IPC<-5%",
    }


def test_a_newline_in_a_rule_does_not_move_the_caret() -> None:
    with pytest.raises(RuleError) as caught:
        parse_rule("a\nb")
    assert caught.value.message.split("\n")[1:] == ["  a?b", "     ^"]


def test_the_caret_stands_under_the_place_whatever_the_width_of_what_is_before_it() -> None:
    with pytest.raises(RuleError) as caught:
        parse_rule("\u6642\u9593e\u0301>x")
    assert caught.value.message.split("\n")[1:] == ["  \u6642\u9593e\u0301>x", " " * 8 + "^"]


@pytest.mark.parametrize(
    ("text", "column", "hint"),
    [
        ("instructions:max>0,ticks>1", 19, "--fail-if 'instructions:max>0' --fail-if 'ticks>1'"),
        ("a>0; IPC<-5%; b>1", 4, "--fail-if 'a>0' --fail-if 'IPC<-5%' --fail-if 'b>1'"),
    ],
)
def test_of_several_rules_in_one_each_is_to_be_given_apart(
    text: str, column: int, hint: str
) -> None:
    with pytest.raises(RuleError, match="more than one rule") as caught:
        parse_rule(text)
    assert (caught.value.column, caught.value.hint) == (column, f"pass each one separately: {hint}")


METRICS = ["cycles", "instructions", "Duration (us)", "cache-misses", "branch-misses", "IPC", "ipc"]


@pytest.mark.parametrize(
    ("metric", "chosen"),
    [
        ("cycles", {"cycles"}),
        ("Cycles", {"cycles"}),
        ("cpu-cycles", {"cycles"}),
        ("CPU-CYCLES", {"cycles"}),
        ("duration", {"Duration (us)"}),
        ("duration (US)", {"Duration (us)"}),
        ("IPC", {"IPC"}),
        ("Ipc", {"IPC", "ipc"}),
        ("*-misses", {"cache-misses", "branch-misses"}),
        ("*-MISSES", set()),
        ("[ci]*s", {"cycles", "instructions", "cache-misses"}),
        ("cycle", set()),
    ],
)
def test_a_name_is_itself_then_a_glob_then_an_alias_in_any_case(
    metric: str, chosen: set[str]
) -> None:
    assert parse_rule(f"{metric}>0").chosen(METRICS) == chosen


def test_a_name_that_looks_like_a_glob_is_itself_where_it_exists() -> None:
    assert parse_rule("a[0]>0").chosen(["a[0]", "a0"]) == {"a[0]"}


@pytest.mark.parametrize(
    ("text", "before", "after", "broken"),
    [
        ("x>2%", 100, 102, False),
        ("x>2%", 100, 102.01, True),
        ("x>2%", -100, -97, True),
        ("x>2%", -100, -103, False),
        ("x>2%", 0, 0, False),
        ("x>2%", 0, 1, True),
        ("x>0", 5, 5, False),
        ("x>0", 5, 6, True),
        ("x>0", 5, 4, False),
        ("x>3", 5, 8, False),
        ("x>3", 5, 9, True),
        ("x>1pp", 40, 41, False),
        ("x>1pp", 40, 41.5, True),
        ("x<-5%", 2.0, 1.9, False),
        ("x<-5%", 2.0, 1.8, True),
        ("x<0", 5, 6, False),
        ("x<0", 5, 4, True),
        ("x>0.1%", 1000, 1001, False),
        ("x>10%", 1.0, 1.1, False),
        ("x>0", 1 << 53, (1 << 53) + 1, True),
        ("x>9007199254740993", 0, (1 << 53) + 1, False),
        ("x>9007199254740993", 0, (1 << 53) + 2, True),
        ("x>1%", 10**15, 10**15 + 10**13, False),
        ("x>1%", 10**15, 10**15 + 10**13 + 1, True),
        ("x>0", 10 / 3, 10 / 3, False),
    ],
)
def test_a_change_beyond_the_limit_breaks_a_rule_and_one_of_just_the_limit_does_not(
    text: str, before: float, after: float, broken: bool
) -> None:
    assert parse_rule(text).is_broken(before, after) is broken


def test_each_statistic_is_that_of_the_summary() -> None:
    summary = summarize([1, 2, 4, 8, 16], first=99)
    found = {name: statistic(summary, name) for name in ("min", "median", "mean", "max", "cold")}
    assert found == {"min": 1, "median": 4, "mean": 6.2, "max": 16, "cold": 99}
    assert statistic(summary, "p25") == 2
    assert statistic(summarize([3]), "stddev") is None
    assert statistic(summarize([3]), "cold") is None


def test_a_rule_can_be_made_without_text() -> None:
    assert Rule("", "cycles", "max", ">", 0.0, "").is_broken(1, 2)


@pytest.mark.parametrize(
    ("text", "after", "is_broken"),
    [
        ("cycles>4spread", 108, False),
        ("cycles>4spread", 109, True),
        ("cycles>0spread", 100, False),
        ("cycles<-2spread", 96, False),
        ("cycles<-2spread", 95, True),
    ],
)
def test_a_limit_in_spreads_is_a_distance_from_the_usual_value_and_not_from_the_old_one(
    text: str, after: int, is_broken: bool
) -> None:
    usual = Usual(100, 2.0, 20)
    assert parse_rule(text).is_broken(50, after, usual) is is_broken
    assert parse_rule(text).is_broken(50, after) is False  # nothing is known


def test_exact_counts_have_no_spread_and_any_growth_breaks_a_rule() -> None:
    usual = Usual(10**30, 0.0, 20)
    assert parse_rule("instructions>4spread").is_broken(1, 10**30 + 1, usual) is True
    assert parse_rule("instructions>4spread").is_broken(1, 10**30, usual) is False
