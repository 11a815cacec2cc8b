# SPDX-License-Identifier: Apache-2.0
"""A transport of another package that is not one, or fails, is an error that names the package."""

from __future__ import annotations

from pathlib import Path

import pytest

from boardprof.base.errors import BoardError, LinkError
from boardprof.target.descriptions.board import find_boards
from boardprof.wire.transport.base import packages_transport

ENTRIES = """
[boardprof.transports]
number = strange:number
half = strange:half
failing = strange:failing
[boardprof.boards]
strange = strange:board
"""
MODULE = r"""
board = "\x1b[31mred"
def number(port, timeout_s):
    return 5
class Half:
    name, byte_time_s = "half", None
    def write(self, data, timeout_s): raise ValueError("no")
    def read(self, timeout_s): return "text"
    def printed(self): return ""
class Failing(Half):
    byte_time_s = 0.0
    def close(self): pass
def half(port, timeout_s):
    return Half()
def failing(port, timeout_s):
    return Failing()
"""


@pytest.fixture(autouse=True)
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    facts = tmp_path / "strange-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: strange\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text(ENTRIES)
    (tmp_path / "strange.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.parametrize(
    ("scheme", "lacks"),
    [
        ("number", "5 is not a transport: it has no write, read, printed, close, name, byte_time"),
        ("half", "is not a transport: it has no close, byte_time_s"),
    ],
)
def test_what_is_not_a_transport_is_refused(scheme: str, lacks: str) -> None:
    connect = packages_transport(f"{scheme}://x")
    assert connect is not None
    with pytest.raises(
        BoardError, match=rf"No board at {scheme}://x: strange:{scheme} says .*{lacks}"
    ):
        connect(f"{scheme}://x", 1.0)


def test_a_fault_of_a_transport_is_one_of_the_line() -> None:
    connect = packages_transport("failing://x")
    assert connect is not None
    line = connect("failing://x", 1.0)
    with pytest.raises(LinkError, match=r"write of strange:failing says ValueError\('no'\)"):
        line.write(b"", 1.0)
    with pytest.raises(LinkError, match=r"read of strange:failing says .*'text' is not bytes"):
        line.read(1.0)


def test_a_warning_of_a_package_has_no_escape_sequences() -> None:
    with pytest.warns(UserWarning, match=r"strange:board is ignored: .*\\x1b\[31mred") as caught:
        find_boards()
    assert "\x1b" not in str(caught[0].message)
