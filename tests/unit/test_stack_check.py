# SPDX-License-Identifier: Apache-2.0
"""Whether a function's frames fit the stack, and whether painting has seen all of them."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from boardprof.base.errors import DeviceFaultError
from boardprof.measure.board.image import BoardImage, StackCheck
from boardprof.results.record import Stack
from boardprof.target.toolchain.cache import Cache
from tests.support import requires_tool, run

SOURCE = """
void use(volatile char *p) { p[0] = 1; }
int deep(void) { volatile char large[1 << 21]; use(large); return large[0]; }
int small(void) { volatile char some[256]; use(some); return some[0]; }
int through(int (*f)(void)) { volatile char some[256]; use(some); return f() + some[0]; }
"""


RARE = """
static int rare(void) { volatile char some[256]; use(some + 255); return some[255]; }
int (*volatile chosen)(void);
void choose(void) { chosen = rare; }
"""


def built(folder: Path, source: str) -> Path:
    (folder / "frames.c").write_text(source)
    library = folder / "frames.so"
    gcc = requires_tool("gcc", "gcc")
    flags = ["-O1", "-g", "-shared", "-fPIC", "-Wl,-Bsymbolic"]
    run([gcc, *flags, "-o", library, folder / "frames.c"])
    return library


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library of this machine; it says nothing of how large the stack is."""
    return built(tmp_path_factory.mktemp("image"), SOURCE)


@pytest.fixture
def stack_of_1_mib(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Threads of this process have 1 MiB of stack, and nothing is in the cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    before = threading.stack_size(1 << 20)
    yield
    threading.stack_size(before)


def check(image: Path | None, *, is_of_this_host: bool) -> StackCheck:
    known = BoardImage(["deep", "small", "through"])
    known.file, known.is_of_this_host = image, is_of_this_host
    return StackCheck("m0", known)


@pytest.mark.usefixtures("stack_of_1_mib")
def test_a_frame_that_this_machines_stack_does_not_hold_is_refused(image: Path) -> None:
    here = check(image, is_of_this_host=True)
    here.require("small")
    told = (
        r"^deep was not called: it needs 2,097,\d\d\d bytes of stack, and m0 has 1,048,576 "
        r"\(2,097,\d\d\d are for its own frame\)\."
    )
    with pytest.raises(DeviceFaultError, match=told):
        here.require("deep")


@pytest.mark.usefixtures("stack_of_1_mib")
def test_of_another_machines_stack_nothing_is_known_unless_the_image_tells(image: Path) -> None:
    check(image, is_of_this_host=False).require("deep")
    check(None, is_of_this_host=False).require("deep")


@pytest.mark.usefixtures("stack_of_1_mib")
def test_up_to_64_bytes_at_the_end_of_the_paint_may_be_unwritten(image: Path) -> None:
    unknown, known = check(None, is_of_this_host=False), check(image, is_of_this_host=False)
    assert unknown.figure("small", Stack(935, 1000)) == Stack(935, 1000)
    end = "small used all of the 1,000 bytes that are checked"
    assert unknown.figure("small", Stack(936, 1000)) == end
    # It needs 256 bytes and a few: less was seen, as much, and much more.
    assert known.figure("small", Stack(236, 300)) == end.replace("1,000", "300")
    assert known.figure("small", Stack(299, 300)) == Stack(299, 300)
    assert known.figure("small", Stack(740, 1000)) == end


@pytest.mark.usefixtures("stack_of_1_mib")
def test_behind_a_pointer_two_of_the_largest_frames_may_have_left_the_paint_alone(
    image: Path,
) -> None:
    known = check(image, is_of_this_host=False)  # `deep` takes 2 MiB and a few bytes
    assert known.figure("through", Stack(300, 9 << 20)) == Stack(300, 9 << 20)
    assert known.figure("through", Stack(300, 4 << 20)) == (
        "through used all of the 4,194,304 bytes that are checked"
    )


@pytest.mark.usefixtures("stack_of_1_mib")
def test_a_function_that_only_a_pointer_reaches_may_have_left_its_frame_unwritten(
    tmp_path: Path,
) -> None:
    known = check(built(tmp_path, SOURCE + RARE), is_of_this_host=False)
    told = known.figure("through", Stack(300, 9 << 20))
    assert re.fullmatch(
        r"rare, which through may call, reserves 2\d\d bytes, and paint does not "
        r"show whether it ran: a call took at least 300 bytes",
        str(told),
    )
    assert known.figure("through", Stack(700, 9 << 20)) == Stack(700, 9 << 20)
    assert known.figure("small", Stack(256, 9 << 20)) == Stack(256, 9 << 20)


@pytest.mark.usefixtures("stack_of_1_mib")
def test_what_was_read_of_an_image_is_kept(image: Path, tmp_path: Path) -> None:
    check(image, is_of_this_host=False).require("deep")
    (kept,) = (tmp_path / "boardprof" / "functions").iterdir()
    text = Cache().read("functions", kept.name)
    assert text is not None
    Cache().write(json.dumps({**json.loads(text), "room": 4096}), "functions", kept.name)
    with pytest.raises(DeviceFaultError, match=r"bytes of stack, and m0 has 4,096 \("):
        check(image, is_of_this_host=False).require("deep")
    Cache().write("{}", "functions", kept.name)  # as of another version
    check(image, is_of_this_host=False).require("deep")
