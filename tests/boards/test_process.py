# SPDX-License-Identifier: Apache-2.0
"""What a function does to its process is put back after the call; on `native` that is the host."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from boardprof.base.errors import DeviceFaultError
from boardprof.measure.board.board import Board
from tests.boards.conftest import available
from tests.firmware import build

SOURCE = """\
#define _GNU_SOURCE
#include <fcntl.h>
#include <locale.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
static char *const codes[] = {"CODE=7", 0};
int goes_to_root(void) { return chdir("/"); }
int is_at_root(void) {
    struct stat a, b;
    return stat(".", &a) == 0 && stat("/", &b) == 0 && a.st_ino == b.st_ino;
}
int sets_umask(void) { return umask(0777); }
int tells_umask(void) { int mask = umask(0); umask(mask); return mask; }
int opens_no_files(void) { struct rlimit r = {0, 0}; return setrlimit(RLIMIT_NOFILE, &r); }
int opens_few_files(void) { struct rlimit r = {9, 9}; return prlimit(0, RLIMIT_NOFILE, &r, 0); }
int too_many(void) { struct rlimit r = {10, 9}; return setrlimit(RLIMIT_NOFILE, &r); }
int tells_files(void) { struct rlimit r; getrlimit(RLIMIT_NOFILE, &r); return r.rlim_cur; }
int most_files(void) { struct rlimit r; getrlimit(RLIMIT_NOFILE, &r); return r.rlim_max; }
int sets_alarm(void) { alarm(1000); return 0; }
int is_its_alarm(void) { return alarm(0) > 500; } /* another one is that of the test's limit */
int blocks(void) { sigset_t all; sigfillset(&all); return sigprocmask(SIG_SETMASK, &all, 0); }
int is_blocked(void) {
    sigset_t set;
    sigprocmask(SIG_SETMASK, 0, &set);
    return sigismember(&set, SIGUSR1);
}
int pins(void) {
    cpu_set_t one;
    sched_getaffinity(0, sizeof one, &one);
    for (int cpu = CPU_SETSIZE - 1; CPU_COUNT(&one) > 1; cpu--) CPU_CLR(cpu, &one);
    return sched_setaffinity(0, sizeof one, &one);
}
static void handler(int number) { (void)number; }
int ignores_faults(void) { signal(SIGSEGV, SIG_IGN); return signal(SIGBUS, handler) == SIG_ERR; }
int traps(void) { return *(volatile int *)(uintptr_t)16; }
int handles(void) { signal(SIGUSR1, handler); return signal(SIGCHLD, SIG_IGN) == SIG_ERR; }
int is_handled(void) {
    struct sigaction action;
    sigaction(SIGUSR1, 0, &action);
    return action.sa_handler == handler;
}
int becomes_true(void) { return execl("/bin/true", "true", (char *)0); }
int becomes_false(void) { char *words[] = {"false", 0}; return execvp("false", words); }
int child_becomes(void) {
    int status = -1;
    pid_t child = fork();
    if (child == 0) _exit(execle("/bin/sh", "sh", "-c", "exit $CODE", (char *)0, codes));
    waitpid(child, &status, 0);
    return WEXITSTATUS(status);
}
int closes_stdout(void) { return close(1); }
int is_stdout_open(void) { return fcntl(1, F_GETFL) != -1; }
int blocks_not(void) { return fcntl(0, F_SETFL, fcntl(0, F_GETFL) ^ O_NONBLOCK); }
int flags(void) { return fcntl(0, F_GETFL); }
int sets_locale(void) { return setlocale(LC_ALL, "C.UTF-8") == 0; }
int is_locale(void) { return strcmp(setlocale(LC_TIME, 0), "C.UTF-8") == 0; }
int sets_timer(void) {
    struct itimerval timer = {{9, 0}, {9, 0}};
    return setitimer(ITIMER_PROF, &timer, 0);
}
int has_timer(void) {
    struct itimerval timer;
    getitimer(ITIMER_PROF, &timer);
    return timer.it_value.tv_sec != 0;
}
int sets_variable(void) { return setenv("BP_LEFT", "yes", 1); }
int cpus(void) { cpu_set_t set; sched_getaffinity(0, sizeof set, &set); return CPU_COUNT(&set); }
"""


@pytest.fixture(scope="module", params=["native", "linux"])
def board(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Board]:
    source = tmp_path_factory.mktemp("process") / "process.c"
    source.write_text(SOURCE)
    with build(available(request.param), [source]).open() as opened:
        yield opened


@pytest.mark.parametrize(
    ("changes", "tells"),
    [
        ("goes_to_root", "is_at_root"),
        ("sets_umask", "tells_umask"),
        ("opens_no_files", "tells_files"),
        ("opens_no_files", "most_files"),
        ("opens_few_files", "tells_files"),
        ("opens_few_files", "most_files"),
        ("sets_alarm", "is_its_alarm"),
        ("blocks", "is_blocked"),
        ("pins", "cpus"),
        ("handles", "is_handled"),
        ("closes_stdout", "is_stdout_open"),
        ("blocks_not", "flags"),
        ("sets_locale", "is_locale"),
        ("sets_timer", "has_timer"),
    ],
)
def test_the_next_function_does_not_notice(board: Board, changes: str, tells: str) -> None:
    functions = board.functions
    before = functions[tells]()
    functions[changes]()
    assert functions[tells]() == before


def test_a_fault_after_a_function_that_ignores_faults_is_still_caught(board: Board) -> None:
    assert board.functions.ignores_faults() == 0
    with pytest.raises(DeviceFaultError, match="bad address 0x10"):
        board.functions.traps()


@pytest.mark.parametrize("name", ["becomes_true", "becomes_false"])
def test_a_function_cannot_put_another_program_in_the_process_s_place(
    board: Board, name: str
) -> None:
    with pytest.raises(DeviceFaultError, match="abort"):
        board.functions[name]()
    assert board.functions.child_becomes() == 7


def test_environment_variables_that_stay_changed_are_told(
    board: Board, capfd: pytest.CaptureFixture[str]
) -> None:
    if board.spec.name == "native":
        assert board.functions.sets_variable() == 0
        assert "changed environment variables, which stay so" in capfd.readouterr().err


def test_the_hosts_handlers_are_as_before(board: Board) -> None:
    def masks() -> list[str]:
        status = Path("/proc/self/status").read_text()
        return [line for line in status.splitlines() if line.startswith(("SigIgn", "SigCgt"))]

    before = masks()
    for name in ("ignores_faults", "handles"):
        assert board.functions[name]() == 0
    assert masks() == before


def test_the_host_does_not_notice(board: Board) -> None:
    folder, limits = Path.cwd(), resource.getrlimit(resource.RLIMIT_NOFILE)
    alarm_s = signal.getitimer(signal.ITIMER_REAL)[0]  # pytest's own limit may be one
    for name in ("goes_to_root", "opens_no_files", "sets_alarm", "blocks"):
        assert board.functions[name]() == 0
    assert Path.cwd() == folder
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == limits
    assert signal.getitimer(signal.ITIMER_REAL)[0] == pytest.approx(alarm_s, abs=5.0)
    with open(os.devnull, "rb"):
        pass


def test_the_system_still_refuses_a_soft_limit_above_the_hard_one(board: Board) -> None:
    assert board.functions.too_many() == -1


def test_a_function_of_the_hosts_process_sees_the_hosts_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, board: Board
) -> None:
    if board.spec.name == "native":
        monkeypatch.chdir("/")
        assert board.functions.is_at_root() == 1
        monkeypatch.chdir(tmp_path)
    assert board.functions.is_at_root() == 0
