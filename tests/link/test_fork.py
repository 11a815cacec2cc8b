# SPDX-License-Identifier: Apache-2.0
"""A board stays with the process that connected to it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_SCRIPT = """
import os, sys, threading
import boardprof
from boardprof.base.errors import UsageError

board = boardprof.build(sys.argv[1], board=sys.argv[2]).open()
held, forked = threading.Event(), threading.Event()

def hold():
    with board.session.exclusive("hold"):
        held.set()
        forked.wait(30)

thread = threading.Thread(target=hold)
if "held" in sys.argv:  # the child's copy of the lock is taken for ever
    thread.start()
    held.wait(30)
child = os.fork()
if child == 0:
    try:
        print("child:", board.functions.add(1, 2), flush=True)
    except UsageError as error:
        print("child:", error.message, flush=True)
    board.close()
    sys.exit(0)  # with all that Python does at its end
os.waitpid(child, 0)
forked.set()
print("parent:", board.functions.add(1, 2), board.functions.add(3, 4))
board.close()
"""


@pytest.mark.parametrize("held", ["free", "held"])
@pytest.mark.parametrize("name", ["native", "linux"])
def test_a_forked_process_is_refused_and_leaves_the_board_to_its_parent(
    tmp_path: Path, name: str, held: str
) -> None:
    source = tmp_path / "add.c"
    source.write_text("int add(int a, int b) { return a + b; }\n")
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _SCRIPT, source, name, held],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    told, parent = ran.stdout.splitlines()
    assert told.startswith(
        "child: add was called in a different process from the one that connected to "
    )
    assert (parent, ran.stderr, ran.returncode) == ("parent: 3 7", "", 0)
