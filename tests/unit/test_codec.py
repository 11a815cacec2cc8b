# SPDX-License-Identifier: Apache-2.0
"""COBS in C, for bulk: the same bytes as in Python, and Python where there is no compiler."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boardprof.target.toolchain.cobs_in_c import _found, load_codec
from boardprof_protocol.frame import (
    BadFrame,
    Cobs,
    Frame,
    FrameDecoder,
    cobs_decode,
    cobs_encode,
    encode_frame,
)
from tests.support import requires_compiler

RUNS = st.sampled_from(
    [b"\0", b"\0" * 300, b"\1" * 300, b"\x55", b"a" * 253, b"a" * 254, b"a" * 255]
)
CONTENTS = st.lists(RUNS | st.binary(max_size=600), max_size=8).map(b"".join)


@pytest.fixture(scope="module")
def in_c() -> Cobs:
    requires_compiler("gcc")
    cobs, where = load_codec()
    assert where.startswith("C, ")
    return cobs


@given(content=CONTENTS)
def test_both_languages_encode_alike_and_decode_each_other(in_c: Cobs, content: bytes) -> None:
    encoded = cobs_encode(content)
    assert in_c.encode(content) == encoded
    assert in_c.decode(encoded) == content
    assert cobs_decode(encoded) == content


@given(encoded=CONTENTS)
def test_both_languages_refuse_the_same(in_c: Cobs, encoded: bytes) -> None:
    results: list[bytes | None] = []
    for decode in (in_c.decode, cobs_decode):
        try:
            results.append(decode(encoded))
        except BadFrame:
            results.append(None)
    assert results[0] == results[1]


@pytest.mark.parametrize(
    "content", [bytes(65000), b"\0a" * 32500, b"\xff" * 65000], ids=["zeros", "every other", "none"]
)
def test_the_longest_frames_pass(in_c: Cobs, content: bytes) -> None:
    frame = Frame(10, 7, 3, content)
    decoder = FrameDecoder(in_c)
    assert decoder.feed(encode_frame(frame, in_c)) == [frame]
    assert decoder.feed(encode_frame(frame)) == [frame]


def test_two_sessions_have_a_state_each(in_c: Cobs) -> None:
    other, _ = load_codec()
    kept = in_c.decode(b"\3ab")
    assert other.decode(b"\3cd") == b"cd"
    assert kept == b"ab"


def test_what_is_longer_than_any_frame_is_refused_and_the_next_passes(in_c: Cobs) -> None:
    with pytest.raises(BadFrame):
        in_c.decode(b"\x01" * 80_000)
    assert in_c.decode(b"\3ab") == b"ab"


@pytest.fixture
def fresh() -> Iterator[None]:
    """Let the codec be looked for as in a new process, and forget what the test found."""
    _found.cache_clear()
    yield
    _found.cache_clear()


@pytest.mark.usefixtures("fresh")
def test_without_a_compiler_python_serves_and_says_why(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    cobs, where = load_codec()
    assert where == "Python, since there is no C compiler"
    assert cobs.decode(cobs.encode(b"a\0b")) == b"a\0b"


@pytest.mark.usefixtures("fresh")
def test_a_compiler_that_fails_is_no_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken = tmp_path / "gcc"
    broken.write_text("#!/bin/sh\necho no licence >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert load_codec()[1] == "Python, since the agent's codec does not compile: no licence"


@pytest.mark.usefixtures("fresh")
def test_it_is_looked_for_once_in_a_process_whatever_the_threads(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tries = tmp_path / "tries"
    broken = tmp_path / "gcc"
    broken.write_text(f"#!/bin/sh\necho once >> {tries}\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with ThreadPoolExecutor(8) as threads:
        found = [future.result() for future in [threads.submit(load_codec) for _ in range(8)]]
    assert {where for _, where in found} == {"Python, since the agent's codec does not compile:"}
    assert tries.read_text() == "once\n"


@pytest.mark.usefixtures("fresh")
def test_it_is_compiled_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    requires_compiler("gcc")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    first = load_codec()[1]
    kept = [path for path in tmp_path.rglob("*.so")]
    assert [f"C, {path}" for path in kept] == [first]
    times = kept[0].stat().st_mtime_ns
    _found.cache_clear()  # as another process
    assert load_codec()[1] == first
    assert kept[0].stat().st_mtime_ns == times
    assert list((tmp_path / "boardprof" / "tmp").iterdir()) == []
