# SPDX-License-Identifier: Apache-2.0
"""Rows in columns: what goes in as dicts comes out as the same dicts, and takes little room."""

from __future__ import annotations

import copy
import enum
import math
import pickle
import subprocess
import sys
import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from boardprof.base.metrics import Count, Duration, Metric, Percent, Ratio
from boardprof.results.report.calls import Calls, Column
from boardprof.results.report.report import Report

ROWS: list[dict[str, Metric]] = [
    {"Name": "f", "Count": Count(2), "t": Duration(1.5)},
    {"Name": "g", "Count": Count(3)},
    {"t": Duration(2.5), "Name": "f", "Count": Count(4)},
]


class TestSequence:
    def test_rows_are_dicts_in_their_own_order(self) -> None:
        calls = Calls(ROWS)
        assert [list(row.items()) for row in calls] == [list(row.items()) for row in ROWS]
        assert [list(calls[i]) for i in range(3)] == [list(row) for row in ROWS]

    def test_it_has_a_length_an_end_and_slices(self) -> None:
        calls = Calls(ROWS)
        assert len(calls) == 3
        assert calls[-1] == ROWS[2]
        assert calls[1:] == ROWS[1:]
        assert calls[::-2] == [ROWS[2], ROWS[0]]
        with pytest.raises(IndexError):
            calls[3]

    def test_a_list_of_the_same_dicts_is_equal_from_both_sides(self) -> None:
        assert Calls(ROWS) == ROWS
        assert ROWS == Calls(ROWS)  # noqa: SIM300  # the list is asked first
        assert Calls(ROWS) != ROWS[:2]
        assert Calls(ROWS) != [*ROWS[:2], {}]
        assert Calls(ROWS) != "f"

    def test_changing_a_row_changes_nothing(self) -> None:
        calls = Calls(ROWS)
        calls[0]["Name"] = "other"
        assert calls == ROWS
        with pytest.raises(TypeError):
            calls[0] = {}  # type: ignore[index]

    def test_a_generator_may_use_one_dict_again_and_again(self) -> None:
        def same() -> Any:
            row: dict[str, Any] = {}
            for n in range(3):
                row["n"] = n
                yield row

        assert Calls(same()) == [{"n": Count(0)}, {"n": Count(1)}, {"n": Count(2)}]

    def test_names_are_those_of_all_rows_in_first_seen_order(self) -> None:
        assert Calls([{"b": 1}, {"a": 1, "b": 2}]).names == ("b", "a")

    def test_a_name_that_is_an_enums_member_is_its_text(self) -> None:
        class Name(str, enum.Enum):  # noqa: UP042  # str() of it is not its text
            CYCLES = "cycles"

        calls = Calls([{"cycles": 1}, {Name.CYCLES: 2}])
        assert calls == [{"cycles": Count(1)}, {"cycles": Count(2)}]
        assert [type(name) for row in calls for name in row] == [str, str]

    def test_rows_without_columns_are_rows(self) -> None:
        calls = Calls([{}, {"a": 1}, {}])
        assert list(calls) == [{}, {"a": Count(1)}, {}]
        assert len(Calls([{}, {}])) == 2
        assert Report(calls, {}, {}).json().startswith('{"calls":[{},{"a":{"count":1}},{}],')

    def test_it_is_copied_and_pickled(self) -> None:
        calls = Calls([*ROWS, {"t": "mixed"}])
        assert copy.deepcopy(calls) == calls
        assert pickle.loads(pickle.dumps(calls)) == calls

    def test_the_repr_is_short(self) -> None:
        assert repr(Calls(ROWS)) == "<Calls: 3 rows of Name, Count, t>"
        assert repr(Calls()) == "<Calls: 0 rows of nothing>"


class TestFaults:
    @pytest.mark.parametrize("before", [0, 3, 1024, 2000])
    def test_the_row_is_counted_however_many_are_put_away_at_once(self, before: int) -> None:
        rows: list[dict[str, Any]] = [{"a": 1}] * before
        with pytest.raises(TypeError, match=rf'^calls\[{before + 1}\]\["b"\]: a float \(1\.5\)'):
            Calls([*rows, {"b": 1}, {"a": 1, "b": 1.5}, {"a": None}])

    @pytest.mark.parametrize("later", [["x"], 3, {2: 1}])
    def test_of_several_faults_the_first_row_is_named(self, later: Any) -> None:
        with pytest.raises(TypeError, match=r'^calls\[1\]\["b"\]: a bool'):
            Calls([{"a": 1}, {"a": 1, "b": True}, later])

    def test_what_is_no_dict_is_named_though_a_row_of_its_columns_came_before(self) -> None:
        with pytest.raises(TypeError, match=r"^calls\[1\]: a dict of metrics is needed, not \['a"):
            Calls([{"a": 1}, ["a"]])  # type: ignore[list-item]


class TestColumn:
    def test_each_kind_has_its_values_side_by_side(self) -> None:
        calls = Calls([{"n": 1, "t": Duration(1.0), "s": "x"}, {"n": 2, "t": Duration(2), "s": ""}])
        assert [calls.column(name).kind for name in "nts"] == [Count, Duration, str]
        assert list(calls.column("n").values) == [1, 2]
        assert list(calls.column("t").values) == [1.0, 2.0]
        assert list(calls.column("s").values) == ["x", ""]
        assert calls.column("n").present is None

    def test_numpy_takes_numbers_as_they_lie(self) -> None:
        column = Calls([{"n": n, "t": Duration(n)} for n in range(3)]).column
        assert np.asarray(column("n").values).dtype == np.int64
        assert np.asarray(column("t").values).dtype == np.float64

    def test_where_rows_lack_a_value_a_mask_says_so(self) -> None:
        column = Calls([{}, {"n": 7}, {"m": "x"}]).column
        assert list(column("n").values) == [0, 7, 0]
        assert list(column("n").present or ()) == [0, 1, 0]
        assert list(column("m").values) == ["", "", "x"]
        assert list(column("n").filled(None)) == [None, Count(7), None]
        assert list(column("n").metrics()) == [Count(7)]

    def test_a_name_that_no_row_has_is_a_column_without_values(self) -> None:
        column = Calls([{"n": 7}]).column("m")
        assert list(column.filled("none")) == ["none"]
        assert list(column.present or ()) == [0]

    @pytest.mark.parametrize("huge", [2**63, -(2**63) - 1, 10**400])
    def test_a_count_beyond_64_bit_stays_exact_and_so_do_its_neighbours(self, huge: int) -> None:
        calls = Calls([{"n": n} for n in (2**63 - 1, huge, -1)])
        assert list(calls.column("n").values) == [2**63 - 1, huge, -1]
        assert calls.column("n").kind is Count

    def test_kinds_that_are_mixed_stay_metrics(self) -> None:
        calls = Calls([{"n": 1}, {"n": Ratio(0.5)}, {}, {"n": "none"}])
        assert calls.column("n").kind is None
        assert list(calls.column("n").values) == [Count(1), Ratio(0.5), None, "none"]
        assert list(calls.column("n").of(Ratio).filled(None)) == [None, Ratio(0.5), None, None]
        assert list(calls.column("n").of(str).metrics()) == ["none"]

    def test_equal_texts_are_one_string(self) -> None:
        texts = Calls([{"s": "".join(["a", "b"])} for _ in range(3000)]).column("s").values
        assert len(set(map(id, texts))) == 1

    def test_columns_are_equal_by_content(self) -> None:
        def column(*metrics: Metric) -> Column:
            return Calls([{"x": metric} for metric in metrics]).column("x")

        assert column(Duration(math.nan)) == column(Duration(math.nan))
        assert column(Duration(math.nan)) != column(Duration(1.0))
        assert column(Duration(1.0)) != column(Duration(math.nan))
        assert column(Duration(1.0)) != column(Duration(2.0))
        assert column(Duration(1.0)) != column(Percent(1.0))
        assert column(Count(2**64)) == column(Count(2**64))
        assert column(Count(1)) != 1


class TestGroups:
    def test_rows_of_equal_name_shapes_and_device_are_one_group(self) -> None:
        calls = Calls(
            [
                {"Name": "f", "Device": "a"},
                {"Name": "f", "Device": "b"},
                {"Name": "f", "Device": "a", "Argument Shapes": ""},
                {"Name": "f", "Device": "a", "Flags": "-O3"},
            ]
        )
        assert calls.tvm_groups().keys == (("f", "", "a"), ("f", "", "b"))
        assert [list(rows) for rows in calls.tvm_groups().rows] == [[0, 2, 3], [1]]

    def test_a_hash_takes_the_place_of_the_name_where_a_row_has_one(self) -> None:
        calls = Calls([{"Name": "f"}, {"Name": "f", "Hash": "h"}, {"Name": "h"}])
        assert [key[0] for key in calls.tvm_groups().keys] == ["f", "h"]
        assert [list(rows) for rows in calls.tvm_groups().rows] == [[0], [1, 2]]

    def test_values_are_split_by_group_where_rows_have_all_of_the_columns(self) -> None:
        calls = Calls(
            [{"k": "x", "n": 1}, {"k": "y", "n": 2, "m": 5}, {"k": "x", "n": 3, "m": 6}, {"m": 7}]
        )
        groups = calls.group_by("k")
        assert groups.keys == (("x",), ("y",), ("",))
        assert list(groups.split(calls.column("n"))) == [[[1, 3]], [[2]], [[]]]
        both = groups.split(calls.column("n"), calls.column("m"))
        assert list(both) == [[[3], [6]], [[2], [5]], [[], []]]

    def test_no_rows_are_no_groups(self) -> None:
        groups = Calls().tvm_groups()
        assert (len(groups), groups.keys, groups.rows) == (0, (), [])


names = st.sampled_from(["Name", "Hash", "Count", "t", "%s", 'a"%d', "\u202e"])
metrics = st.one_of(
    st.builds(Count, st.integers() | st.just(2**63) | st.integers(-(2**63), 2**63 - 1)),
    *(st.builds(kind, st.floats()) for kind in (Duration, Percent, Ratio)),
    st.text(max_size=3),
)
rows = st.lists(st.dictionaries(names, metrics, max_size=4), max_size=12)


@settings(deadline=None)
@given(rows, rows)
@example([{"t": Duration(0.0)}], [{"t": Duration(-0.0)}])
@example([{"t": Duration(math.nan)}], [{"t": Duration(math.nan)}])
def test_it_is_a_list_of_dicts_to_all_who_ask(
    mine: list[dict[str, Metric]], theirs: list[dict[str, Metric]]
) -> None:
    calls = Calls(mine)
    assert list(calls) == mine
    assert [calls[i] for i in range(len(mine))] == mine
    assert (calls == Calls(theirs)) == (mine == theirs)
    assert [list(row) for row in Report.from_json(Report(calls, {}, {}).json()).calls] == [
        list(row) for row in mine
    ]


class TestCost:
    def test_a_call_takes_a_tenth_of_a_kibibyte(self) -> None:
        def call(n: int) -> dict[str, Any]:
            same = {"Name": f"f{n % 7}", "Device": "board", "Count": 10, "Percent": Percent(n)}
            return {**same, "Duration (us)": Duration(n / 3), "cycles": n, "instructions": n}

        tracemalloc.start()
        report = Report(map(call, range(20_000)), {}, {})
        text = report.json()
        held, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        again = Report.from_json(text)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert again == report
        assert (held - len(text)) / 20_000 < 100
        assert (most - held) / 20_000 < 400  # a tree of dicts, as json.loads makes it, takes 2000

    def test_columns_that_few_rows_have_cost_only_those_rows(self) -> None:
        wide: list[dict[str, Metric | int]] = [{f"counter {n}": n} for n in range(3000)]
        tracemalloc.start()
        report = Report(wide, {}, {})
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert most < 10_000_000  # 3000 full columns are 72 MB
        assert Report.from_json(report.json()) == report

    def test_a_small_report_is_read_and_shown_without_numpy(self) -> None:
        code = (
            "import sys; from boardprof.results.report.report import Report; "
            "from boardprof.base.metrics import Duration; "
            "text = Report([{'Name': 'f', 'Count': 1, 'Duration (us)': Duration(n)} for n"
            " in range(2000)], {}, {}).json(); report = Report.from_json(text); report.table(); "
            "report.table(by_board=True); report.csv(); print('numpy' in sys.modules)"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
        )
        assert done.stdout == "False\n"
