# SPDX-License-Identifier: Apache-2.0
"""The names of parameters in headers, against declarations as C libraries write them."""

from __future__ import annotations

from pathlib import Path

import pytest

from boardprof.target.arguments.declared_names import names_of_definition

OWN = ("to", "from", "n")
MAPPED = {"dst": "to", "src": "from", "count": "n"}


@pytest.mark.parametrize(
    "text",
    [
        "void f(char *dst, const char *src, int count);",
        "LIB_API void\nf (uint8_t dst[], const uint8_t src[static 8], /* of, both */ size_t count) "
        "MP_WUR;",
        "extern char *f(char* dst, int (*src)(int, int), struct s const count)\n"
        "    __attribute__((nonnull(1, 2)));",
        "x = f(a, b, c); return f(a, b, c); void f(char *, const char *, int);\n"
        "int (f)(char *dst, char (*src)[4], unsigned long count); // f(p, q, r);",
    ],
)
def test_names_of_a_declaration_are_those_of_the_definition(tmp_path: Path, text: str) -> None:
    header = tmp_path / "f.h"
    header.write_text(text)
    assert names_of_definition("f", OWN, MAPPED, [header]) == (MAPPED, header)
    assert names_of_definition("f", OWN, ["dst", "from", "n"], [header]) == (
        {"dst": "to", "from": "from", "n": "n"},
        header,
    )
    assert names_of_definition("f", OWN, ["dst", "other"], [header]) is None
    assert names_of_definition("f", OWN, ["dst", "to"], [header]) is None
    assert names_of_definition("f", OWN[:2], ["dst"], [header]) is None


def test_declarations_that_contradict_each_other_are_not_used(tmp_path: Path) -> None:
    header = tmp_path / "f.h"
    header.write_text("void f(int a, int b);\n#ifdef X\nvoid f(int b, int a);\n#endif\n")
    assert names_of_definition("f", ("x", "y"), ["a", "b"], [header]) is None


def test_a_name_that_is_elsewhere_in_the_definition_is_not_mixed(tmp_path: Path) -> None:
    header = tmp_path / "f.h"
    header.write_text("void f(int a, int b);\n")
    assert names_of_definition("f", ("b", "c"), ["a", "c"], [header]) is None
