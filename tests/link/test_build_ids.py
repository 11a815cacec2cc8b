# SPDX-License-Identifier: Apache-2.0
"""A board whose firmware has no build id: nobody takes it for the image at hand, or for itself."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from boardprof.base.errors import BuildMismatchError, UsageError
from boardprof.measure.connect import connect
from boardprof.results.comparison.compatibility import facts_of
from boardprof.results.history.run import contents_of
from boardprof.target.descriptions.board import board_spec
from boardprof.target.elf.addresses import call_sites_of_build
from boardprof.target.elf.object_file import build_id_of
from tests.firmware import build

HOSTS = Path(__file__).parent / "fixtures" / "hosts.c"


@pytest.fixture(scope="module")
def image() -> Path:
    return build(board_spec("linux"), [HOSTS]).image


@pytest.fixture(scope="module")
def nameless(image: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same image with zeros for its build id, as a table written by hand has them."""
    content, build_id = image.read_bytes(), build_id_of(image)
    assert build_id is not None
    assert content.count(build_id) == 1
    made = tmp_path_factory.mktemp("images") / "nameless.elf"
    made.write_bytes(content.replace(build_id, bytes(8)))
    made.chmod(0o755)
    return made


@contextmanager
def listening(image: Path) -> Iterator[str]:
    with subprocess.Popen([image], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield f"socket://{process.stdout.readline().removeprefix('listening on ').strip()}"
        finally:
            process.kill()


@pytest.fixture(scope="module")
def port(nameless: Path) -> Iterator[str]:
    with listening(nameless) as found:
        yield found


def test_a_board_without_a_build_id_says_so_once(port: str, nameless: Path) -> None:
    notes: list[str] = []
    with connect("linux", port, image=nameless, on_note=notes.append) as board:
        assert board.device.build_id == ""
        report = board.profile("count", repeat=2)
        board.profile("count", repeat=2)
    assert notes == [
        f"The board at {port} has no build id, so boardprof cannot check that it runs {nameless}"
    ]
    assert str(report.configuration["linux agent"]).endswith(", without a build id")


def test_an_image_with_a_build_id_is_not_what_runs_there(port: str, image: Path) -> None:
    with pytest.raises(BuildMismatchError, match=f"^The board at {port} has no build id; {image}"):
        connect("linux", port, image=image)


def test_two_runs_without_a_build_id_are_not_taken_for_one_build(port: str) -> None:
    with connect("linux", port) as board:
        report = board.profile("count", repeat=2)
    assert facts_of(report)["linux"].builds == ()
    assert contents_of(report)["build_ids"] == ()


def test_call_sites_need_a_build_id(nameless: Path) -> None:
    with pytest.raises(UsageError, match=r"^The board that ran it has no build id, so "):
        call_sites_of_build(str(nameless), "", [])
