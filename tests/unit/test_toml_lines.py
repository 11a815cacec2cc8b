# SPDX-License-Identifier: Apache-2.0
"""On which line of a TOML file a key is written."""

from __future__ import annotations

import pytest

from boardprof.base.toml_table import line_of

TEXT = """\
# a comment with a = 1 and [table]
a = 1

[table]
text = \"\"\"
b = 2
\"\"\"
# of the list
list = [
    "b = 3",
    "last",
]
b = { c = 4, d = { e = 5 } }

[table.inner]
"quoted.key" = 6
x.y = 7
[[rows]]
z = 8
"""


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (["a"], 2),
        (["table"], 4),
        (["table", "text"], 5),
        (["table", "list"], 9),
        (["table", "b"], 13),
        (["table", "b", "d", "e"], 13),
        (["table", "inner"], 15),
        (["table", "inner", "quoted.key"], 16),
        (["table", "inner", "x", "y"], 17),
        (["rows"], 18),
        (["b"], None),
        (["table", "c"], None),
        (["a", "b"], None),
        (["rows", "z"], None),
        ([], None),
    ],
)
def test_a_key_is_found_where_its_statement_begins(path: list[str], line: int | None) -> None:
    assert line_of(TEXT, *path) == line


def test_an_empty_file_has_no_keys() -> None:
    assert line_of("", "a") is None
