# SPDX-License-Identifier: Apache-2.0
"""A missing tool is never silent."""

from __future__ import annotations

import shutil

import pytest

from tests.support import requires_tool


def test_a_tool_that_is_there_is_found() -> None:
    assert requires_tool("sh", "dash") == shutil.which("sh")


def test_a_missing_tool_skips_the_test_and_names_its_package(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("BOARDPROF_REQUIRE_ALL", raising=False)
    with pytest.raises(pytest.skip.Exception, match=r"z80-gcc is missing \(.*gcc-z80\)"):
        requires_tool("z80-gcc", "gcc-z80")


def test_a_missing_tool_fails_the_test_where_everything_is_required(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("BOARDPROF_REQUIRE_ALL", "1")
    with pytest.raises(pytest.fail.Exception, match=r"z80-gcc is missing \(.*gcc-z80\)"):
        requires_tool("z80-gcc", "gcc-z80")
