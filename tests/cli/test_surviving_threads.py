# SPDX-License-Identifier: Apache-2.0
"""On `native`, a library stays loaded while a thread of it lives, and is unloaded afterwards."""

from __future__ import annotations

import gc
import time
from pathlib import Path

import pytest

from boardprof.target.descriptions.board import board_spec
from tests.cli.command import boardprof
from tests.firmware import build

DETACHED = """\
#include <pthread.h>
#include <unistd.h>
static volatile int n;
static void *work(void *a) { for (int i = 0; i < 400; i++) { usleep(1000); n++; } return a; }
int start(void) { pthread_t t; pthread_create(&t, 0, work, 0); return pthread_detach(t) + 7; }
"""
DESTRUCTOR = """\
#include <pthread.h>
static pthread_key_t key;
static volatile int n;
static void gone(void *a) { for (int i = 0; i < 30000000; i++) n++; }
int start(void) { pthread_key_create(&key, gone); return pthread_setspecific(key, &key) + 7; }
"""
TIMER = """\
#include <signal.h>
#include <time.h>
static volatile int n;
static void tick(union sigval v) { n++; }
int start(void) {
    timer_t t;
    struct sigevent e = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = tick};
    struct itimerspec often = {{0, 1000000}, {0, 1000000}};
    timer_create(CLOCK_MONOTONIC, &e, &t);
    return timer_settime(t, 0, &often, 0) + 7;
}
"""
OPENMP = """\
int start(void) {
    int s = 0;
#pragma omp parallel for reduction(+ : s) num_threads(3)
    for (int i = 0; i < 7; i++) s++;
    return s;
}
"""


@pytest.mark.parametrize(
    ("text", "flag"),
    [(DETACHED, "-pthread"), (DESTRUCTOR, "-pthread"), (TIMER, "-pthread"), (OPENMP, "-fopenmp")],
    ids=["detached", "destructor", "timer", "openmp"],
)
def test_what_was_measured_is_printed_if_threads_outlive_the_call(
    tmp_path: Path, text: str, flag: str
) -> None:
    (tmp_path / "t.c").write_text(text)
    flags = ("--cflags", flag, "--ldflags", flag, "--repeat", "2", "--warmup", "0")
    done = boardprof("run", "-b", "native", f"{tmp_path}/t.c:start", *flags, "--expect", "return=7")
    assert done.code == 0, done.err
    assert "start" in done.out


def test_a_library_is_unloaded_once_its_threads_have_ended(tmp_path: Path) -> None:
    source = tmp_path / "t.c"
    source.write_text(DETACHED)
    firmware = build(board_spec("native"), [source])
    with firmware.open() as board:
        assert board.functions.start() == 7
    maps = Path("/proc/self/maps")
    assert firmware.image.name in maps.read_text()  # the thread sleeps in it
    time.sleep(0.7)
    gc.collect()
    with firmware.open() as board:  # it unloads what nothing is in
        loaded = {
            line.split()[0]
            for line in maps.read_text().splitlines()
            if " r-xp " in line and firmware.image.name in line
        }
        assert len(loaded) == 1
