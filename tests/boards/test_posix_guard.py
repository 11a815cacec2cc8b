# SPDX-License-Identifier: Apache-2.0
"""Guarded calls as guests of a process: what is not the agent's own fault goes where it always did.

Each test that may end a process runs one of its own.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from boardprof.base.errors import DeviceFaultError, DeviceTimeoutError
from boardprof.measure.board.board import Board
from boardprof.measure.connect import connect
from boardprof.target.descriptions.board import board_spec
from tests.boards.conftest import available
from tests.firmware import build

SOURCE = """\
#include <signal.h>
#include <unistd.h>
static volatile int *volatile nowhere;
static volatile unsigned turns;
int answer(int n) { return n + 1; }
void traps(void) { *nowhere = 1; }
void waits(void) { usleep(200000); turns++; }
void sleeps(void) { for (;;) { sleep(60); turns++; } }
void wild_call(void) { ((void (*)(void))nowhere)(); turns++; }
void jumps_into_nowhere(void) { ((void (*)(void))0xdead0000ul)(); turns++; }
void pauses(void) { pause(); }
void spoils_its_stack(void) {
#if defined(__x86_64__)
    __asm__ volatile("mov $16, %rsp\\n mov $24, %rbp\\n call getpid");
#endif
    *nowhere = 7;
}
void raises(void) { raise(SIGSEGV); turns++; }
int holds(int n) { volatile char a[n]; a[0] = 1; turns++; return a[0]; }
int overwrites(int n) { volatile char a[8], *p = a; while (n-- > 0) *p++ = 65; return a[0]; }
#include <stdlib.h>
#include <sys/wait.h>
static int status_of(pid_t child) {
    int status = -1;
    for (int i = 0; i < 100 && waitpid(child, &status, WNOHANG) == 0; i++) {
        usleep(50000);
    }
    return status;
}
static pid_t child;
int process(void) { return getpid(); }
void forks(void) { child = fork(); }
int status(void) { return status_of(child); }
int child_exits(void) {
    pid_t made = fork();
    if (made == 0) exit(3);
    return status_of(made);
}
int child_traps(void) {
    pid_t made = fork();
    if (made == 0) *nowhere = 1;
    return status_of(made);
}
int vforked_child_ends(void) {
    pid_t made = vfork();
    if (made == 0) _exit(4);
    return status_of(made);
}
"""

HOST = """\
import ctypes, faulthandler, os, signal, sys, threading, time
from boardprof.target.descriptions.board import board_spec
from boardprof.measure.connect import connect
from boardprof.base.errors import DeviceFaultError
from pathlib import Path
board = connect(board_spec("native"), image=Path(sys.argv[1]))
def traps():
    try:
        board.functions.traps()
    except DeviceFaultError:
        return
    raise AssertionError("nothing was caught")
"""


@pytest.fixture(autouse=True)
def signals_are_not_ignored() -> None:
    """Children inherit what is ignored, and a function on `native` may have ignored it here."""
    for each in (signal.SIGSEGV, signal.SIGTRAP):
        signal.signal(each, signal.SIG_DFL)


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = tmp_path_factory.mktemp("guest") / "guest.c"
    source.write_text(SOURCE)
    return build(available("native"), [source]).image


@pytest.fixture(scope="module")
def linux_image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = tmp_path_factory.mktemp("guest") / "guest.c"
    source.write_text(SOURCE)
    return build(available("linux"), [source]).image


def host(image: Path, script: str) -> subprocess.CompletedProcess[str]:
    """Run a host process with the board in it."""
    return subprocess.run(
        [sys.executable, "-c", HOST + textwrap.dedent(script), image],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_fault_of_another_thread_still_kills_the_process_during_a_guarded_call(
    image: Path,
) -> None:
    done = host(
        image,
        """
        threading.Thread(target=board.functions.waits, daemon=True).start()
        time.sleep(0.05)
        ctypes.string_at(0)
        """,
    )
    assert done.returncode == -signal.SIGSEGV


def test_faulthandler_tells_of_it_as_without_a_board(image: Path) -> None:
    script = """
        faulthandler.enable()
        traps()
        {during}
        ctypes.string_at(0)
        """
    during = "threading.Thread(target=board.functions.waits, daemon=True).start(); time.sleep(0.05)"
    for when in ("pass", during):
        done = host(image, script.format(during=when))
        assert done.returncode == -signal.SIGSEGV
        assert "Fatal Python error: Segmentation fault" in done.stderr


def test_the_handlers_of_the_process_are_its_own_between_calls(image: Path) -> None:
    done = host(
        image,
        """
        came = []
        signal.signal(signal.SIGTRAP, lambda *_: came.append("trap"))
        traps()
        os.kill(os.getpid(), signal.SIGTRAP)
        time.sleep(0.05)
        assert came == ["trap"], came
        assert signal.getsignal(signal.SIGSEGV) == signal.SIG_DFL
        traps()
        print("whole")
        """,
    )
    assert (done.returncode, done.stdout) == (0, "whole\n"), done.stderr


def test_a_signal_that_another_sends_during_a_guarded_call_is_no_fault(image: Path) -> None:
    done = host(
        image,
        """
        came = []
        signal.signal(signal.SIGTRAP, lambda *_: came.append("trap"))
        waiting = threading.Thread(target=board.functions.waits)
        waiting.start()
        time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGTRAP)
        waiting.join()
        assert came == ["trap"], came
        assert board.functions.answer(41) == 42
        """,
    )
    assert done.returncode == 0, done.stderr


def test_two_boards_in_one_process_catch_their_own_faults_at_the_same_time(image: Path) -> None:
    failures: list[BaseException] = []

    def hammer() -> None:
        try:
            with connect(board_spec("native"), image=image) as board:
                board.session.line.locate = None  # which takes longer than all the rest
                for turn in range(150):
                    with pytest.raises(DeviceFaultError):
                        board.functions.traps()
                    assert board.functions.answer(turn) == turn + 1
        except BaseException as error:  # for the main thread
            failures.append(error)

    threads = [threading.Thread(target=hammer) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failures


def test_a_board_that_was_closed_leaves_no_handler_behind(image: Path) -> None:
    done = host(
        image,
        """
        others = [connect(board_spec("native"), image=Path(sys.argv[1])) for _ in range(3)]
        for other in others:
            threading.Thread(target=other.functions.waits).start()
        time.sleep(0.1)
        traps()
        time.sleep(0.5)
        for other in others:
            other.close()
        del other, others
        import gc; gc.collect()
        traps()
        board.close()
        ctypes.string_at(0)
        """,
    )
    assert done.returncode == -signal.SIGSEGV, done.stderr


def returns(board: Board, limit_s: float) -> bool:
    """Whether `waits` returns; it is ended at its limit alone, where the machine stands still."""
    began_s = time.monotonic()
    try:
        board.functions.waits()
    except DeviceTimeoutError:
        assert time.monotonic() - began_s >= limit_s, "it was ended before its limit"
        return False
    return True


@pytest.mark.parametrize("name", ["native", "linux"])
def test_a_function_that_sleeps_is_woken_at_its_limit(
    name: str, image: Path, linux_image: Path
) -> None:
    chosen = image if name == "native" else linux_image
    with connect(board_spec(name), image=chosen, timeout_s=0.3) as board:
        with pytest.raises(Exception, match=r"sleeps did not end within 0\.3 s") as caught:
            board.functions.sleeps()
        assert "guest.c:8 (in sleeps)" in str(caught.value)
        assert any(returns(board, 0.3) for _ in range(3))


@pytest.mark.parametrize("name", ["native", "linux"])
def test_calls_shorter_than_the_limit_are_not_stopped_by_what_ran_before(
    name: str, image: Path, linux_image: Path
) -> None:
    chosen = image if name == "native" else linux_image
    with connect(board_spec(name), image=chosen, timeout_s=0.35) as board:
        assert any([returns(board, 0.35) for _ in range(5)])  # 0.2 s of the 0.35 that each has


@pytest.mark.parametrize("name", ["native", "linux"])
@pytest.mark.parametrize("function", ["wild_call", "spoils_its_stack", "raises"])
def test_faults_that_leave_no_trace_on_the_stack_are_contained(
    name: str, function: str, image: Path, linux_image: Path
) -> None:
    chosen = image if name == "native" else linux_image
    with connect(board_spec(name), image=chosen) as board:
        for _ in range(3):
            with pytest.raises(DeviceFaultError):
                board.functions[function]()
            assert board.functions.answer(41) == 42


@pytest.mark.parametrize("size", [300, 400000])
def test_what_a_function_writes_past_its_frame_is_no_stack_of_the_process(
    image: Path, size: int
) -> None:
    done = host(
        image,
        f"""
        for _ in range(3):
            try:
                board.functions.overwrites({size})
            except DeviceFaultError as error:
                print(error.args[0].partition(" 0x")[0], str(error).count("guest.c:20 (in over"))
            assert board.functions.answer(41) == 42
        """,
    )
    told = "overwrites trapped on the board: bad address 1\n"
    assert (done.returncode, done.stdout) == (0, told * 3), done.stderr


@pytest.mark.parametrize("mebibytes", [9, 63])
def test_an_array_larger_than_the_stack_is_an_overflow_and_lands_nowhere_else(
    image: Path, mebibytes: int
) -> None:
    told = "holds trapped on the board: stack overflow at guest.c:19 (in holds)\n"
    done = host(
        image,
        f"""
        try:
            board.functions.holds({mebibytes} << 20)
        except DeviceFaultError as error:
            print(error.args[0])
        assert board.functions.holds(1 << 20) == 1
        """,
    )
    assert (done.returncode, done.stdout) == (0, told)


@pytest.mark.parametrize("name", ["native", "linux"])
def test_a_jump_into_nowhere_takes_no_time_limit_away_from_later_calls(
    name: str, image: Path, linux_image: Path
) -> None:
    """Unwinding such a stack traps once more, within the handler."""
    chosen = image if name == "native" else linux_image
    with connect(board_spec(name), image=chosen, timeout_s=0.3) as board:
        with pytest.raises(DeviceFaultError, match="bad address 0xdead0000"):
            board.functions.jumps_into_nowhere()
        with pytest.raises(DeviceTimeoutError):
            board.functions.sleeps()
        assert board.functions.answer(41) == 42


def test_what_was_called_last_of_all_is_not_told_as_a_line_of_the_agent(
    linux_image: Path,
) -> None:
    place = r"stopped it in the function that it called last\n"
    with (
        connect(board_spec("linux"), image=linux_image, timeout_s=0.3) as board,
        pytest.raises(DeviceTimeoutError, match=place),
    ):
        board.functions.pauses()


def test_a_call_through_a_null_pointer_is_told_at_its_line(image: Path) -> None:
    place = r"bad address 0x0 at guest\.c:9 \(in wild_call\)"
    with (
        connect(board_spec("native"), image=image) as board,
        pytest.raises(DeviceFaultError, match=place),
    ):
        board.functions.wild_call()


def test_the_agents_program_dies_of_a_signal_that_another_process_sends(
    linux_image: Path,
) -> None:
    agent = subprocess.Popen([linux_image], stdout=subprocess.PIPE, text=True)
    assert agent.stdout is not None
    port = f"socket://{agent.stdout.readline().split()[-1]}"
    with connect("linux", port) as board:
        assert board.functions.answer(1) == 2
        agent.send_signal(signal.SIGSEGV)
        assert agent.wait(10) == -signal.SIGSEGV
    agent.stdout.close()


@pytest.mark.parametrize("name", ["native", "linux"])
def test_a_child_that_a_function_forks_is_no_second_agent(
    name: str, image: Path, linux_image: Path
) -> None:
    with connect(board_spec(name), image=image if name == "native" else linux_image) as board:
        own = board.functions.process()
        board.functions.forks()  # and both return
        assert board.functions.status() == 0
        assert board.functions.child_exits() == 3 << 8
        if name == "linux":  # in this process faulthandler would tell of it
            assert board.functions.child_traps() == signal.SIGSEGV
        assert board.functions.vforked_child_ends() == 4 << 8
        assert board.functions.process() == own
