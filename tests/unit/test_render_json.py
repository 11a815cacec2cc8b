# SPDX-License-Identifier: Apache-2.0
"""JSON: TVM's real shape out, everything that TVM ever wrote in, faults named."""

from __future__ import annotations

import contextlib
import json
import math
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from boardprof.base.errors import ReportFileError, UnknownNameError
from boardprof.base.metrics import Count, Duration, Metric, Percent, Ratio
from boardprof.results.report.report import Report

SMALL = Report(
    [{"Name": "fïr", "Count": 10, "Duration (us)": Duration(1.5), "IPC": Ratio(0.5)}],
    {"cpu0": {"Device": "cpu0", "Percent": Percent(40.0)}},
    {"board": "native"},
    {"schema_version": 1, "blobs": ["00ff"], "unsupported": {"cycles": None}},
)

SMALL_JSON = (
    '{"calls":[{"Name":{"string":"f\\u00efr"},"Count":{"count":10},'
    '"Duration (us)":{"microseconds":1.5},"IPC":{"ratio":0.5}}],'
    '"device_metrics":{"cpu0":{"Device":{"string":"cpu0"},"Percent":{"percent":40.0}}},'
    '"configuration":{"board":{"string":"native"}},'
    '"boardprof":{"schema_version":1,"devices":{},"measurements":[],"missing":[],"blobs":["00ff"],"unsupported":{"cycles":null}}}'
)


def refused(text: str | bytes) -> ReportFileError:
    with pytest.raises(ReportFileError) as caught:
        Report.from_json(text)
    return caught.value


class TestWriting:
    def test_the_shape_is_tvms_on_one_line_in_the_order_given(self) -> None:
        assert SMALL.json() == SMALL_JSON

    def test_without_extra_the_shape_is_exactly_tvms(self) -> None:
        assert Report([], {}, {}).json() == '{"calls":[],"device_metrics":{},"configuration":{}}'

    def test_non_finite_numbers_are_tagged_strings(self) -> None:
        report = Report(
            [{"a": Duration(math.inf), "b": Percent(-math.inf), "c": Ratio(math.nan)}], {}, {}
        )
        assert json.loads(report.json())["calls"] == [
            {"a": {"microseconds": "inf"}, "b": {"percent": "-inf"}, "c": {"ratio": "nan"}}
        ]

    def test_odd_text_is_escaped_to_ascii(self) -> None:
        text = Report([{'a"b': "\u202e\n\x00ä\udc80"}], {}, {}).json()
        assert '{"a\\"b":{"string":"\\u202e\\n\\u0000\\u00e4\\udc80"}}' in text
        assert text.isascii()


class TestWritingForTvm:
    """TVM's reader takes no fourth key, and of escapes \\r \\n \\t \\\\ and \\" alone."""

    def test_there_are_tvms_three_keys_and_names_are_as_they_are(self) -> None:
        assert SMALL.json(compat="tvm") == (
            '{"calls":[{"Name":{"string":"fïr"},"Count":{"count":10},'
            '"Duration (us)":{"microseconds":1.5},"IPC":{"ratio":0.5}}],'
            '"device_metrics":{"cpu0":{"Device":{"string":"cpu0"},"Count":{"count":1},'
            '"Percent":{"percent":40.0}}},"configuration":{"board":{"string":"native"}}}'
        )

    def test_it_is_read_back_as_tvms_files_are(self) -> None:
        again = Report.from_json(SMALL.json(compat="tvm"))
        totals = {"cpu0": {**SMALL.device_metrics["cpu0"], "Count": Count(1)}}
        assert again == Report(SMALL.calls, totals, SMALL.configuration)
        assert again.extra is None

    def test_what_tvm_cannot_read_escaped_is_spelled_out(self) -> None:
        text = Report([{'a"b': "\u202e\n\x00\x1bä\udc80"}], {}, {}).json(compat="tvm")
        assert '{"a\\"b":{"string":"\u202e\\n\\\\x00\\\\x1bä\\\\udc80"}}' in text
        assert Report.from_json(text).calls[0] == {'a"b': "\u202e\n\\x00\\x1bä\\udc80"}

    def test_an_unknown_compat_mode_is_refused_by_name(self) -> None:
        with pytest.raises(UnknownNameError, match=r"no compat mode 'TVM'; did you mean 'tvm'"):
            SMALL.json(compat="TVM")  # type: ignore[arg-type]


class TestReading:
    def test_what_was_written_is_read_back(self) -> None:
        assert Report.from_json(SMALL_JSON) == SMALL

    def test_bytes_are_read(self) -> None:
        assert Report.from_json(SMALL_JSON.encode()) == SMALL
        assert Report.from_json(b"\xef\xbb\xbf" + SMALL_JSON.encode()) == SMALL

    def test_the_order_of_columns_survives(self) -> None:
        report = Report([{"z": 1, "a": 2, "m": 3}], {}, {})
        assert list(Report.from_json(report.json()).calls[0]) == ["z", "a", "m"]

    def test_tvms_seventeen_decimals_are_read(self) -> None:
        report = Report.from_json(
            '{"calls":[{"Name":{"string":"matmul"},"Count":{"count":1},'
            '"Duration (us)":{"microseconds":1234.56780000000003383},'
            '"Percent":{"percent":40.00000000000000000},"IPC":{"ratio":1.25000000000000000}}],'
            '"device_metrics":{"cpu0":{"Duration (us)":{"microseconds":3500.00000000000000000}}},'
            '"configuration":{"Executor":{"string":"Graph"},"Number of threads":{"count":2}}}'
        )
        assert report.calls == [
            {
                "Name": "matmul",
                "Count": Count(1),
                "Duration (us)": Duration(1234.5678),
                "Percent": Percent(40.0),
                "IPC": Ratio(1.25),
            }
        ]
        assert report.device_metrics == {"cpu0": {"Duration (us)": Duration(3500.0)}}
        assert report.configuration == {"Executor": "Graph", "Number of threads": Count(2)}
        assert report.extra is None

    def test_the_order_of_columns_of_each_row_survives(self) -> None:
        report = Report([{"z": 1, "a": 2}, {"a": 3}, {"a": 4, "z": 5}], {}, {})
        rows = Report.from_json(report.json()).calls
        assert [list(row) for row in rows] == [["z", "a"], ["a"], ["a", "z"]]

    def test_blanks_and_line_ends_may_stand_anywhere(self) -> None:
        pretty = json.dumps(json.loads(SMALL_JSON), indent=2).replace("\n", "\r\n\t")
        assert Report.from_json(f" \n{pretty}\n ") == SMALL
        assert Report.from_json('{"calls":[ ] , "device_metrics" : { } }') == Report([], {}, {})

    def test_a_byte_order_mark_is_passed_over(self) -> None:
        assert Report.from_json("\ufeff" + SMALL_JSON) == SMALL

    @pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
    def test_other_encodings_of_json_are_read(self, encoding: str) -> None:
        assert Report.from_json(SMALL_JSON.encode(encoding)) == SMALL

    def test_rows_may_lack_fields(self) -> None:
        report = Report.from_json('{"calls":[{},{"Name":"f"},{"cycles":{"count":1}}]}')
        assert report.calls == [{}, {"Name": "f"}, {"cycles": Count(1)}]

    def test_a_backward_counter_that_tvm_wrote_as_minus_one_stays_visible(self) -> None:
        report = Report.from_json('{"calls":[{"Name":"f","cycles":{"count":-1}}]}')
        assert report.calls == [{"Name": "f", "cycles": Count(-1)}]

    def test_the_form_in_tvms_documentation_is_read(self) -> None:
        report = Report.from_json(
            '{"calls": [{"Duration (us)": {"microseconds": 12.3}, "Name": "fused_dense", '
            '"Count": {"count": 1}, "Percent": {"percent": 10.3}}], '
            '"device_metrics": {"cpu": {"Duration (us)": {"microseconds": 334.2}}}}'
        )
        assert report.calls[0]["Name"] == "fused_dense"
        assert report.configuration == {}


names = st.text() | st.sampled_from(["Name", 'a"b', "a\\b", "a\nb", "\u200f\u202e", "</script>"])
metrics = st.one_of(
    st.builds(Count, st.integers()),
    st.builds(Duration, st.floats()),
    st.builds(Percent, st.floats()),
    st.builds(Ratio, st.floats()),
    names,
)
metric_rows = st.dictionaries(names, metrics, max_size=4)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | names,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=8,
)
# What stands under these must be of a type; Hypothesis also draws names that the sources have.
TYPED = {"schema_version", "devices", "measurements", "missing"}
extras = st.dictionaries(names.filter(lambda name: name not in TYPED), json_values, max_size=3)


@settings(deadline=None)
@given(
    st.lists(metric_rows, max_size=4),
    st.dictionaries(names, metric_rows, max_size=2),
    metric_rows,
    st.none() | extras.map(lambda extra: {"schema_version": 1, **extra}),
)
@example([{"\udc80": "\udc80"}], {}, {}, None)
@example([{"t": Duration(math.nan), "u": Ratio(-math.inf)}], {"": {}}, {"": ""}, None)
@example([{"t": Duration(5e-324), "n": Count(2**64)}], {}, {}, {"schema_version": 1, "": [[]]})
def test_reading_is_the_inverse_of_writing(
    calls: list[dict[str, Metric]],
    totals: dict[str, dict[str, Metric]],
    configuration: dict[str, Metric],
    extra: dict[str, Any] | None,
) -> None:
    report = Report(calls, totals, configuration, extra)
    text = report.json()
    assert Report.from_json(text) == report
    assert Report.from_json(text).json() == text
    assert Report.from_json(text).csv() == report.csv()


class TestFaults:
    @pytest.mark.parametrize("length", range(1, len(SMALL_JSON)))
    def test_a_truncated_file_is_called_that_wherever_it_was_cut(self, length: int) -> None:
        error = refused(SMALL_JSON[:length])
        assert error.message == f"{error.where}: the JSON ends too early"
        assert error.where.startswith("line 1, column ")
        assert error.hint == "check that the file was written whole"

    @pytest.mark.parametrize("text", ["", " \n", b""])
    def test_an_empty_file(self, text: str | bytes) -> None:
        assert str(refused(text)) == "the text is empty"

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("[]", "a JSON object is needed, not an array"),
            ('"x"', "a JSON object is needed, not a string"),
            ("3", "a JSON object is needed, not a number"),
            ("null", "a JSON object is needed, not null"),
            ("true", "a JSON object is needed, not true or false"),
            ("{}", 'this is not a Report: the key "calls" is missing'),
            ('{"function": "fir", "total": 7}', "this is a profile, not a Report"),
            ('{"calls":{}}', "calls: a JSON array is needed, not an object"),
            ('{"calls":[{},3]}', "calls[1]: a JSON object is needed, not a number"),
            ('{"calls":[["x"]]}', "calls[0]: a JSON object is needed, not an array"),
            (
                '{"calls":[],"device_metrics":[]}',
                "device_metrics: a JSON object is needed, not an array",
            ),
            (
                '{"calls":[],"device_metrics":{"cpu0":1}}',
                'device_metrics["cpu0"]: a JSON object is needed, not a number',
            ),
            (
                '{"calls":[],"configuration":"x"}',
                "configuration: a JSON object is needed, not a string",
            ),
            ('{"calls":[],"boardprof":[]}', "boardprof: a JSON object is needed, not an array"),
            (
                '{"calls":[],"traceEvents":[]}',
                "traceEvents: not a key of a Report; these are calls, device_metrics, "
                "configuration, boardprof",
            ),
            (
                '{"calls":[{},{},{},{"cycles":{"bytes":1}}]}',
                "calls[3][\"cycles\"]: unknown metric tag 'bytes'; valid tags are count, "
                "microseconds, percent, ratio, string",
            ),
            (
                '{"calls":[{"cycles":5}]}',
                'calls[0]["cycles"]: a metric is an object with one tag, not int 5',
            ),
            (
                '{"calls":[{"cycles":{"count":1.5}}]}',
                'calls[0]["cycles"]: a count is an integer, not float 1.5',
            ),
            (
                '{"calls":[],"configuration":{"x":{"ratio":1e999}}}',
                'configuration["x"]["ratio"]: 1e999 is too large for a 64-bit float',
            ),
            (
                '{"calls":[{"t":{"microseconds":1e999}}]}',
                'calls[0]["t"]["microseconds"]: 1e999 is too large for a 64-bit float',
            ),
            ("calls", "line 1, column 1: this is not JSON: Expecting value"),
            ('{"calls":[{},]}', "line 1, column 14: this is not JSON: Expecting value"),
            ('{"calls":[{} {}]}', "line 1, column 14: this is not JSON: Expecting ',' delimiter"),
            ('{"calls" []}', "line 1, column 10: this is not JSON: Expecting ':' delimiter"),
            ('{"calls":[],}', "line 1, column 13: this is not JSON: Expecting property name "),
            (
                '{"calls":[{"a":{"count":1}},{"a":{"count":2,"ratio":1}}]}',
                'calls[1]["a"]: a metric is an object with one tag, not dict',
            ),
            (
                '{"calls":[{"a":{"count":1}},{"a":{"count":true}}]}',
                'calls[1]["a"]: a count is an integer, not bool True',
            ),
            (
                '{"calls":[{"a":{"string":"x"},"b":{"count":1}},{"a":{"string":1},"b":2}]}',
                'calls[1]["a"]: a string is needed, not int 1',
            ),
            ('{"calls":["\\u12x"]}', "line 1, column 13: this is not JSON: Invalid \\uXXXX escape"),
            ("{'calls':[]}", "line 1, column 2: this is not JSON: Expecting property name "),
            ('{"calls":[]}\n{"calls":[]}', "line 2, column 1: this is not JSON: Extra data"),
            (b'{"calls":["\xff"]}', "the text cannot be read as JSON: 'utf-8' codec can't decode"),
            ("[" * 100_000, "the JSON is nested too deeply to be a Report"),
            (
                '{"calls":[{},{"n":{"count":' + "9" * 10_000 + "}}]}",
                "the text cannot be read as JSON: Exceeds the limit (4300 digits) for integer",
            ),
            (
                '{"calls":[{},{"Name":{"string":"a\\ud800b"}}]}',
                'calls[1]["Name"]["string"]: half of a UTF-16 pair, a lone surrogate, is not text',
            ),
            ('{"calls":[{"a\\uDFFF":{"count":1}}]}', 'calls[0]["a\\udfff"]: half of a UTF-16 '),
            ('{"calls":[],"device_metrics":{"\\ud800":{}}}', 'device_metrics["\\ud800"]: half of'),
        ],
    )
    def test_what_is_wrong_is_named_with_its_place(self, text: str | bytes, message: str) -> None:
        assert str(refused(text)).startswith(message)

    @pytest.mark.parametrize(
        ("members", "message"),
        [
            ('"devices":3', '["devices"]: a JSON object is needed, not a number'),
            ('"devices":{"m3":[]}', '["devices"]["m3"]: a JSON object is needed, not an array'),
            (
                '"devices":{"m3":{"unsupported":["cycles"]}}',
                '["devices"]["m3"]["unsupported"]: a JSON object is needed, not an array',
            ),
            (
                '"devices":{"m3":{"collectors":[{"counters":[{"hz":"1 MHz"}]}]}}',
                '["devices"]["m3"]["collectors"][0]["counters"][0]["hz"]: an integer is needed, '
                "not a string",
            ),
            ('"measurements":{}', '["measurements"]: a JSON array is needed, not an object'),
            (
                '"measurements":[{},7]',
                '["measurements"][1]: a JSON object is needed, not a number',
            ),
            (
                '"measurements":[{"samples":[{"raw":{"cycles":1.5}}]}]',
                '["measurements"][0]["samples"][0]["raw"]["cycles"]: an integer is needed, not a '
                "number",
            ),
            (
                '"measurements":[{"samples":[{},{"blobs":"zz"}]}]',
                '["measurements"][0]["samples"][1]["blobs"]: zz is not hexadecimal, two digits a '
                "byte",
            ),
            (
                '"measurements":[{"samples":[{"blobs":"00ff"},{"blobs":"00 f"},{"blobs":"f"}]}]',
                '["measurements"][0]["samples"][1]["blobs"]: 00 f is not hexadecimal, two digits a '
                "byte",
            ),
            (
                '"measurements":[{"number":true}]',
                '["measurements"][0]["number"]: an integer is needed, not true or false',
            ),
            ('"missing":[1]', '["missing"][0]: a string is needed, not a number'),
        ],
    )
    def test_what_is_of_another_type_beside_the_rows_is_named_with_its_place(
        self, members: str, message: str
    ) -> None:
        text = '{"calls":[],"boardprof":{"schema_version":1,' + members + "}}"
        assert refused(text).message == f"boardprof{message}"

    def test_what_is_not_known_may_be_null_and_other_keys_may_be_anything(self) -> None:
        text = (
            '{"calls":[],"boardprof":{"schema_version":1,"devices":{"m3":{"port":null,"x":[1]}},'
            '"measurements":[{"flags":null,"stack":null,"clock_fit":null,"y":{}}]}}'
        )
        extra = Report.from_json(text).extra
        assert extra is not None
        assert extra["measurements"][0]["flags"] is None

    def test_a_file_name_that_is_no_utf8_is_read_as_python_has_it(self) -> None:
        text = '{"calls":[{"Name":{"string":"f"}}],"configuration":{"flags":"-I/a\\udce9"}}'
        report = Report.from_json(text)
        assert report.configuration["flags"] == "-I/a\udce9"
        assert Report.from_json(report.json()) == report

    @pytest.mark.parametrize("constant", ["NaN", "Infinity", "-Infinity"])
    def test_constants_that_json_lacks_are_named_with_their_place(self, constant: str) -> None:
        error = refused('{"calls":[{},{"t":{"microseconds":' + constant + "}}]}")
        assert error.message == f'calls[1]["t"]["microseconds"]: {constant} is not JSON'
        assert error.hint == 'write non-finite numbers as strings: "inf", "-inf" or "nan"'

    def test_a_bare_nan_is_a_whole_file_too(self) -> None:
        assert refused("NaN").message == "NaN is not JSON"

    def test_nan_inside_extra_is_named_with_its_place(self) -> None:
        error = refused('{"calls":[],"boardprof":{"schema_version":1,"raw":[1,NaN]}}')
        assert error.message == 'boardprof["raw"][1]: NaN is not JSON'

    def test_a_float_too_large_inside_extra_is_named_with_its_place(self) -> None:
        error = refused('{"calls":[],"boardprof":{"schema_version":1,"raw":[1,1e999]}}')
        assert error.message == 'boardprof["raw"][1]: 1e999 is too large for a 64-bit float'

    @pytest.mark.parametrize(
        ("bare", "value"),
        [("inf", math.inf), ("-inf", -math.inf), ("nan", math.nan), ("-nan", math.nan)],
    )
    def test_the_bare_infinities_that_tvm_writes_are_read(self, bare: str, value: float) -> None:
        row = '{"Name":{"string":"a\\": inf"},"t":{"microseconds": ' + bare + "}}"
        report = Report.from_json('{"calls":[{"n":{"count":1}},' + f"{row},{row}]" + "}")
        assert list(report.calls)[1:] == [{"Name": 'a": inf', "t": Duration(value)}] * 2
        total = '{"calls":[],"device_metrics":{"cpu":{"t":{"percent":' + bare + "}}}}"
        assert Report.from_json(total).device_metrics == {"cpu": {"t": Percent(value)}}

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ('{"calls":[inf]}', "line 1, column 11: inf is not JSON"),
            ('{"calls":[{"t":{"count":inf}}]}', "a count is an integer, not str 'inf'"),
            ('{"calls":[{"t":infinite}]}', "line 1, column 16: this is not JSON"),
            ('{"calls":[{"t":{"ratio":inf},}]}', "this is not JSON"),
        ],
    )
    def test_a_bare_infinity_is_read_only_where_tvm_writes_one(
        self, text: str, message: str
    ) -> None:
        assert message in refused(text).message

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ('{"calls":[],"calls":[]}', 'the key "calls" is there twice'),
            ('{"calls":[{},{"t":"a","u":"b","t":"a"}]}', 'calls[1]: the key "t" is there twice'),
            ('{"calls":[{"t":{"count":1,"count":2}}]}', 'calls[0]["t"]: the key "count" is there'),
            ('{"calls":[],"configuration":{"a":"1","a":"2"}}', 'configuration: the key "a" is'),
            (
                '{"calls":[],"boardprof":{"schema_version":1,"x":[{"y":1,"y":2}]}}',
                'boardprof["x"][0]: the key "y" is there twice',
            ),
        ],
    )
    def test_a_key_that_is_there_twice_is_refused(self, text: str, message: str) -> None:
        error = refused(text)
        assert error.message.startswith(message)
        assert error.hint == "write each key once; a file that nobody edited is damaged"

    @pytest.mark.parametrize("text", [None, 5, ["{}"]])
    def test_what_is_no_text_is_refused(self, text: Any) -> None:
        with pytest.raises(ReportFileError, match="read from JSON as text or bytes, not"):
            Report.from_json(text)

    @pytest.mark.parametrize("version", ["99", "0", "true", "1.0", '"1"', "null"])
    def test_another_schema_version_is_refused_naming_both_sides(self, version: str) -> None:
        error = refused('{"calls":[],"boardprof":{"schema_version":' + version + "}}")
        assert error.message == (
            f'boardprof["schema_version"]: the file has schema version {json.loads(version)!r}, '
            "this boardprof reads 1"
        )
        assert error.hint is not None

    def test_a_missing_schema_version_is_named(self) -> None:
        assert refused('{"calls":[],"boardprof":{}}').message == (
            'boardprof["schema_version"]: the schema version is missing'
        )

    def test_deep_nesting_is_read_or_refused_but_never_ends_the_program(self) -> None:
        for depth in range(700, 1050):
            deep = "[" * depth + "]" * depth
            with contextlib.suppress(ReportFileError):
                Report.from_json(f'{{"calls":[],"boardprof":{{"schema_version":1,"x":{deep}}}}}')

    def test_a_file_fault_is_a_usage_error(self) -> None:
        assert refused("").exit_code == 2


@settings(deadline=None)
@given(st.text() | st.binary())
def test_no_text_whatsoever_raises_anything_else(text: str | bytes) -> None:
    with pytest.raises(ReportFileError):
        Report.from_json(text)


@settings(deadline=None)
@given(st.fixed_dictionaries({}, optional=dict.fromkeys(json.loads(SMALL_JSON), json_values)))
def test_no_json_of_another_shape_raises_anything_else(document: dict[str, Any]) -> None:
    with contextlib.suppress(ReportFileError):
        report = Report.from_json(json.dumps(document))
        assert Report.from_json(report.json()) == report
