# SPDX-License-Identifier: Apache-2.0
"""The collector of perf_event_open(2) on this machine: exact where getrusage(2) counts as well.

Virtual machines often have the kernel's software events and nothing else; what these tests expect
of hardware events is that each is either counted or missing with a reason.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from boardprof.measure.board.board import Board
from boardprof.measure.connect import connect
from boardprof_protocol.codes import CounterStatus
from tests.boards.conftest import available
from tests.boards.linux_slots import EVENTS_C, Slots, working_slots
from tests.firmware import build
from tests.support import requires_tool

OK, ABSENT, REFUSED = CounterStatus.OK, CounterStatus.ABSENT, CounterStatus.REFUSED
DEFAULTS = ["task-clock", "page-faults", "context-switches", "cpu-migrations", "cycles"]
DEFAULTS += ["instructions", "branches", "branch-misses", "cache-references", "cache-misses"]
PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")
NOBODY = 65534


@pytest.fixture(scope="module")
def image() -> Path:
    return build(available("linux"), [EVENTS_C]).image


@pytest.fixture
def board(image: Path) -> Iterator[Board]:
    with connect(available("linux"), image=image) as connected:
        yield connected


@pytest.fixture
def perf(board: Board) -> Slots:
    return working_slots(board, "perf", "page-faults")


def test_without_a_selection_the_usual_events_count(perf: Slots) -> None:
    described = perf.described()
    assert [name for name, _, _ in described] == [f"slot{i}" for i in range(10)]
    assert [source.removesuffix(":u") for _, source, _ in described] == DEFAULTS
    assert [status for _, _, status in described[:2]] == [OK, OK]
    assert all(status in (OK, ABSENT) for _, _, status in described[4:])
    assert [counts[1] for counts in perf.measure("touch_pages", 64)] == [64] * 5


def test_page_faults_are_those_that_getrusage_counts(perf: Slots) -> None:
    perf.select("page-faults", "minor-faults", "major-faults")
    assert perf.call("touch_pages", 64) == 64
    assert [counts[:3] for counts in perf.measure("touch_pages", 64)] == [[64, 64, 0]] * 5
    assert [counts[0] for counts in perf.measure("touch_pages", 1)] == [1] * 5


def test_slots_beyond_those_selected_are_off(perf: Slots) -> None:
    perf.select("task-clock", "page-faults")
    perf.select("page-faults")
    described = perf.described()
    assert described[0][2] is OK
    assert described[1:] == [(f"slot{i}", "", ABSENT) for i in range(1, 10)]
    assert perf.measure("touch_pages", 3, repeat=1) == [[3, 0, 0, 0, 0, 0, 0, 0, 0, 0]]


def test_init_goes_back_to_the_usual_events(perf: Slots) -> None:
    perf.select("minor-faults")
    perf.init()
    assert [source.removesuffix(":u") for _, source, _ in perf.described()] == DEFAULTS


def test_times_are_nanoseconds(perf: Slots) -> None:
    perf.select("task-clock", "cpu-clock")
    (counts,) = perf.measure("spin", 2_000_000, repeat=1)
    # Two million rounds of a cycle or more, at no more than 20 GHz. How far the two clocks
    # differ is the machine's affair, as is what comes between the reading of both.
    assert all(count > 100_000 for count in counts[:2])


def test_a_sleeping_function_is_switched_away_from_at_each_sleep(perf: Slots) -> None:
    (event,) = perf.select("context-switches")
    if event.status is not OK:
        pytest.skip(f"the kernel refuses context-switches: {event.reason}")
    (counts,) = perf.measure("nap", 5, repeat=1)
    assert counts[0] >= 5


def test_a_pmus_terms_name_the_same_event(perf: Slots) -> None:
    """The PMU `software` is number 1 and its config 2 is page-faults: linux/perf_event.h."""
    perf.select("software/config=2/", "software/config=0x2/u", "page-faults:u")
    assert [counts[:3] for counts in perf.measure("touch_pages", 64)] == [[64, 64, 64]] * 5


def test_a_pmus_named_event_counts_by_its_name_with_or_without_the_pmu(perf: Slots) -> None:
    named = [event.name for event in perf.events() if "/" in event.name and event.status is OK]
    if not named:
        pytest.skip("no PMU of this machine names an event that one thread can count")
    bare = named[0].split("/")[1]
    assert [event.status for event in perf.select(named[0], bare)] == [OK, OK]
    (counts,) = perf.measure("spin", 1000, repeat=1)
    assert counts[0] == pytest.approx(counts[1], rel=0.2, abs=5000)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("nosuchpmu/event=1/", "there is no such PMU in /sys/bus/event_source/devices"),
        ("../software/config=2/", "there is no such PMU in /sys/bus/event_source/devices"),
        ("software/nothing/", "this PMU has no such event"),
        ("software/nothing=1/", "this PMU has no such term"),
        ("software/config=-1/", "a term's value is no number"),
        ("software/config=/", "a term's value is no number"),
        ("software/config=2x/", "a term's value is no number"),
        ("software//", "no term stands between the slashes"),
        ("software/config=2", "a PMU's event has two slashes: PMU/EVENT/"),
        ("software/config=2/p", "of perf's modifiers this agent knows u and k"),
        ("page-faults:upp", "of perf's modifiers this agent knows u and k"),
        ("", "the kernel's interface has no event of that name"),
        ("r", "the kernel's interface has no event of that name"),
        ("rabcg", "the kernel's interface has no event of that name"),
        ("x" * 96, "the event's text is too long"),
        (
            "context-switches:u",
            "it happens in the kernel alone: in user mode it would always read 0",
        ),
    ],
)
def test_what_is_no_event_is_told_why(perf: Slots, text: str, reason: str) -> None:
    (event,) = perf.select(text)
    assert (event.status, event.reason) == (ABSENT, reason)


@pytest.mark.parametrize("text", ["r1a8", "cycles", "L1-dcache-load-misses", "branch-loads:u"])
def test_a_hardware_event_is_counted_or_missing_and_says_so(perf: Slots, text: str) -> None:
    (event,) = perf.select(text)
    assert event.status in (OK, ABSENT)
    missing = "this CPU (or virtual machine) has no such counter"
    assert event.reason == ("" if event.status is OK else missing)


def test_all_events_are_listed_each_with_its_state(perf: Slots) -> None:
    events = list(perf.events())
    names = [event.name for event in events]
    assert set(DEFAULTS) < set(names)
    assert {"LLC-load-misses", "dTLB-loads", "stalled-cycles-backend"} < set(names)
    assert len(names) == len(set(names))
    assert all(event.description for event in events)
    assert all((event.reason == "") is (event.status is OK) for event in events)
    assert next(e for e in events if e.name == "page-faults").description == "page faults"


### Without privileges ###


@contextlib.contextmanager
def agent_of_nobody(image: Path) -> Iterator[str]:
    """Run the agent without privileges; yields its port. The image is copied to where it may be."""
    command = []
    if os.geteuid() == 0:
        setpriv = requires_tool("setpriv", "util-linux")
        command = [setpriv, f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        copy = Path(shutil.copy(image, folder))
        copy.chmod(0o755)
        agent = subprocess.Popen(
            [*command, copy, "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE, text=True
        )
        try:
            assert agent.stdout is not None
            yield f"socket://{agent.stdout.readline().split()[-1]}"
        finally:
            agent.kill()
            agent.communicate(timeout=10)


@pytest.fixture
def nobody(image: Path) -> Iterator[Slots]:
    level = int(PARANOID.read_text())
    if level != 2:
        pytest.skip(f"perf_event_paranoid is {level}; 2 allows user mode alone")
    with (
        agent_of_nobody(image) as port,
        connect(available("linux"), port, image=image) as connected,
    ):
        yield Slots(connected, "perf")


def test_without_privileges_user_mode_counts_and_is_marked_as_perf_does(nobody: Slots) -> None:
    faults, terms, clock = nobody.select("page-faults", "software/config=2/", "task-clock")
    assert [event.status for event in (faults, terms, clock)] == [OK, OK, OK]
    assert (faults.name, terms.name) == ("page-faults:u", "software/config=2/u")
    assert [counts[:2] for counts in nobody.measure("touch_pages", 64)] == [[64, 64]] * 5


def test_without_privileges_the_kernels_own_events_are_refused_with_the_hint(
    nobody: Slots,
) -> None:
    for event in nobody.select("context-switches", "page-faults:k"):
        assert (event.status, event.error) == (REFUSED, 13)  # EACCES
        assert event.reason == (
            "kernel.perf_event_paranoid is 2: sudo sysctl kernel.perf_event_paranoid=1, or run "
            "the agent with CAP_PERFMON"
        )
