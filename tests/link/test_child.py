# SPDX-License-Identifier: Apache-2.0
"""Child processes that are boards: how they begin, what they print, and how they fail to."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence

import pytest

from boardprof.errors import BoardError, BoardTimeoutError, MissingToolError
from boardprof.transport.base import DescriptorTransport
from boardprof.transport.child import ChildProcess, spawn_and_accept, spawn_and_connect
from tests.cli.command import offspring

Spawn = Callable[[Sequence[str], str | None, float], DescriptorTransport]


def shell(script: str) -> list[str]:
    return ["sh", "-c", script]


def test_what_a_child_prints_is_whole_however_often_it_is_looked_at() -> None:
    child = ChildProcess(
        shell('i=0; while [ $i -lt 2000 ]; do echo "line $i"; i=$((i+1)); done'), None
    )
    looks = 0
    while child.running:
        assert "\n".join(f"line {i}" for i in range(2000)).startswith(child.output().rstrip("\n"))
        looks += 1
    assert child.output().splitlines() == [f"line {i}" for i in range(2000)]
    assert looks > 1, "the child was quicker than the first look; this proves nothing"
    child.close()


@pytest.mark.parametrize("spawn", [spawn_and_accept, spawn_and_connect])
def test_a_child_that_ends_is_told_with_how_and_what_it_said(spawn: Spawn) -> None:
    begin = time.monotonic()
    with pytest.raises(BoardError) as caught:
        spawn(shell("echo no such machine >&2; exit 3"), None, 20.0)
    assert time.monotonic() - begin < 5
    assert "sh ended with code 3.\nno such machine" in str(caught.value)
    assert "Try: run it by hand: sh -c " in str(caught.value)


@pytest.mark.parametrize("spawn", [spawn_and_accept, spawn_and_connect])
def test_a_child_that_never_comes_is_ended_when_the_time_is_over(spawn: Spawn) -> None:
    begin = time.monotonic()
    with pytest.raises(BoardTimeoutError, match=r"for|within 0\.5 s") as caught:
        spawn(shell("echo booting; exec sleep 60"), None, 0.5)
    assert 0.5 <= time.monotonic() - begin < 2
    assert caught.value.console == "booting\n"
    assert offspring(os.getpid()) == []


def test_half_a_line_is_no_announcement() -> None:
    with pytest.raises(BoardTimeoutError):
        spawn_and_connect(shell("printf 'listening on 127.0.0.1:1'; exec sleep 60"), None, 0.3)


def test_a_child_that_announces_what_is_not_there_is_told_and_ended() -> None:
    with pytest.raises(
        BoardError, match=r"No board at socket://127\.0\.0\.1:1: Connection refused"
    ):
        spawn_and_connect(shell("echo listening on 127.0.0.1:1; exec sleep 60"), None, 5.0)
    assert offspring(os.getpid()) == []


def test_a_child_that_ignores_the_signal_to_end_is_killed() -> None:
    child = ChildProcess(shell("trap '' TERM; echo ready; while :; do sleep 0.1; done"), None)
    deadline = time.monotonic() + 10
    while child.output() != "ready\n" and time.monotonic() < deadline:
        time.sleep(0.01)
    child.close()
    assert not child.running


@pytest.mark.parametrize("spawn", [spawn_and_accept, spawn_and_connect])
def test_a_missing_program_is_named_with_its_package(spawn: Spawn) -> None:
    with pytest.raises(MissingToolError, match="qemu-system-none was not found on PATH") as caught:
        spawn(["qemu-system-none"], "qemu-system-misc", 1.0)
    assert "qemu-system-misc" in str(caught.value)
