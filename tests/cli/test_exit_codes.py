# SPDX-License-Identifier: Apache-2.0
"""Each kind of failure has an exit code of its own, one clear message, and never a traceback."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy
import pytest

from boardprof.base.metrics import Count
from boardprof.results.report.report import Report
from boardprof.results.report.report_file import write_report
from tests.cli.command import BOARDPROF, FIXTURES, agent, boardprof
from tests.support import ROOT, requires_tool

ENDLESS = FIXTURES / "endless.c"
SCALARS = FIXTURES / "scalars.c"
SOURCE_OF_TWO_SIZES = """
#ifdef MORE
enum { WORDS = 64 };
#else
enum { WORDS = 8 };
#endif
int f(void)
{
    volatile int words[WORDS];
    for (int i = 0; i < WORDS; i++) words[i] = i;
    return words[WORDS - 1];
}
"""


# -- 2: usage ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "messages"),
    [
        (
            ["rn"],
            ["error: There is no command 'rn'; did you mean 'run'?", "\nTry: boardprof --help\n"],
        ),
        (
            ["agent", "sreve"],
            ["no command 'sreve'; did you mean 'serve'?", "boardprof agent --help"],
        ),
        (["run", "--metrcs", "x", "f"], ["No such option '--metrcs'", "--metrics"]),
        (["run"], ["no boardprof.toml with benchmarks", "PATH:FUNCTION"]),
        (["run", "f.c:f", "--repeat", "0"], ["Invalid value for '-r' / '--repeat': 0"]),
        (["run", "f.c:f", "--repeat", "few"], ["Invalid value for '-r' / '--repeat': 'few'"]),
        (["run", "f.c:f", "--warmup", "-1"], ["Invalid value for '-w' / '--warmup': -1"]),
        (["run", "f.c:f", "--number", "0"], ["Invalid value for '--number': 0"]),
        (["info", "--timeout", "0"], ["Invalid value for '--timeout': 0"]),
        (["info", "--timeout", "nan"], ["Invalid value for '--timeout': nan is not a number"]),
        (["info", "--timeout", "inf"], ["Invalid value for '--timeout': inf"]),
        (["doctor", "--link", "--seconds", "inf"], ["Invalid value for '--seconds': inf"]),
        (["doctor", "--link", "--faults", "nan"], ["Invalid value for '--faults': nan"]),
        (
            ["info", "-b", "native", "--baud", "9600"],
            ["native is started", "a baud rate", "-p PORT"],
        ),
        (
            ["info", "-b", "linux", "--key-file", "k"],
            ["linux is started on this machine", "a key file", "-p"],
        ),
        (
            ["info", "-b", "linux", "-p", "socket://127.0.0.1:1", "--baud", "9600"],
            ["socket://127.0.0.1:1 has no baud rate.", "Try: leave out --baud"],
        ),
        (["info", "-b", "linux", "-p", "x", "--baud", "0"], ["Invalid value for '--baud': 0"]),
        (
            ["info", "-b", "qemu-rv23"],
            ["There is no board 'qemu-rv23'; did you mean 'qemu-rv32'?", "Known: "],
        ),
        (["run", "-b", "native,linus", "f.c:f"], ["no board 'linus'; did you mean 'linux'?"]),
        (
            ["run", "-b", "native,linux", "-p", "/dev/ttyS0", "f"],
            [
                "-p connects to one board, but several boards were given.",
                "Try: give one board with -p",
            ],
        ),
        (
            ["info", "-p", "socket://here"],
            ["'socket://here' is not a port", "give a device path, HOST:PORT, a URL (socket://"],
        ),
        (["info", "-p", "tcp://127.0.0.1:1"], ["'tcp://127.0.0.1:1' is not a port"]),
        (["info", "-p", "socket://127.0.0.1:99999"], ["is not a port"]),
        (["info", "-p", "socket://::1:5000"], ["an IPv6 address has brackets: [::1]:5000"]),
        (["info", "-p", "rfc2217://:5000"], ["rfc2217://:5000 is not a port"]),
    ],
)
def test_a_mistake_is_2_with_what_is_allowed(
    arguments: Sequence[str], messages: Sequence[str]
) -> None:
    done = boardprof(*arguments)
    assert (done.code, done.out) == (2, "")
    for message in messages:
        assert message in done.err


def test_a_mistake_in_options_has_the_form_of_all_errors() -> None:
    done = boardprof("info", "--timeout", "0")
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        "error: Invalid value for '--timeout': 0.0 is not in the range 0<x<=1000000.\n"
        "Usage: boardprof info [OPTIONS]\n"
        "Try: boardprof info --help\n"
    )
    done = boardprof("new", "board", "x", "--like")
    assert (done.code, done.err) == (
        2,
        "error: Option '--like' requires an argument.\n"
        "Usage: boardprof new board [OPTIONS] NAME [DIR]\n"
        "Try: boardprof new board --help\n",
    )
    assert boardprof("--profile").err == (
        "error: Option '--profile' requires an argument.\nTry: boardprof --help\n"
    )


def test_an_option_on_the_wrong_side_of_the_command_is_told_its_side() -> None:
    done = boardprof("history", "show", "--profile", "desk")
    assert (done.code, done.err) == (
        2,
        "error: --profile must come before the command.\nTry: boardprof --profile ... history "
        "show\n",
    )
    done = boardprof("-q", "boards")
    assert (done.code, done.err) == (
        2,
        "error: -q must come after the command.\nTry: boardprof COMMAND -q\n",
    )
    assert "error: No such option '--colour'.\nUsage: " in boardprof("--colour", "boards").err


def test_a_mistake_in_a_variable_names_the_variable() -> None:
    done = boardprof("boards", environment={"BOARDPROF_WIDTH": "3"})
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: Invalid value for BOARDPROF_WIDTH in the environment: 3 ")
    done = boardprof("boards", environment={"BOARDPROF_QUIET": "maybe"})
    assert "'maybe' is not a valid boolean. Recognized values: 0, 1, " in done.err


def test_a_mistake_keeps_its_code_where_it_cannot_be_told() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([*BOARDPROF, "rn"], stderr=full, timeout=60, check=False)
    assert done.returncode == 2


def test_a_command_that_lacks_its_own_shows_its_help() -> None:
    done = boardprof("agent")
    assert done.err.startswith("Usage: boardprof agent [OPTIONS] COMMAND [ARGS]...\n")
    assert "  serve  " in done.err
    assert (done.code, done.out) == (2, "")


# -- 3: the board cannot be had ---------------------------------------------------------------


def test_nothing_listening_is_3() -> None:
    with socket.socket() as taken:  # bound, so that nobody else listens there
        taken.bind(("127.0.0.1", 0))
        port = f"socket://127.0.0.1:{taken.getsockname()[1]}"
        done = boardprof("info", "-b", "linux", "-p", port)
    assert (done.code, done.out) == (3, "")
    assert done.err == (
        f"error: No board at {port}: Connection refused.\n"
        "Try: start the agent there, or check host and port\n"
    )


def test_an_unknown_host_is_3() -> None:
    done = boardprof("info", "-b", "linux", "-p", "socket://nowhere.invalid:1")
    assert (done.code, done.out) == (3, "")
    assert done.err.startswith("error: No board at socket://nowhere.invalid:1: ")


def test_no_such_device_is_3() -> None:
    done = boardprof("info", "-b", "linux", "-p", "/dev/ttyNONE7")
    assert (done.code, done.out) == (3, "")
    assert done.err == (
        "error: Port /dev/ttyNONE7 does not exist.\n"
        "Try: plug in the board, and look under /dev/serial/by-id\n"
    )


def test_an_empty_port_is_2() -> None:
    done = boardprof("info", "-b", "linux", "-p", "")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: The port is empty.\nTry: give ")


def test_a_folder_that_was_removed_is_2(tmp_path: Path) -> None:
    (folder := tmp_path / "gone").mkdir()
    program = f"rmdir {folder} && exec {sys.executable} -m boardprof show last"
    done = subprocess.run(
        ["sh", "-c", program], cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: The current folder was removed.\nTry: cd to another folder\n"


@pytest.mark.parametrize("kind", ["file", "folder", "null"])
def test_what_is_no_serial_port_is_3_and_is_left_as_it_was(tmp_path: Path, kind: str) -> None:
    paths = {"file": tmp_path / "notes.txt", "folder": tmp_path, "null": Path("/dev/null")}
    paths["file"].write_text("not a port")
    done = boardprof("info", "-b", "linux", "-p", paths[kind])
    assert (done.code, done.out) == (3, "")
    assert done.err.startswith(f"error: {paths[kind]} ")
    assert done.err.count("\n") <= 2
    assert paths["file"].read_text() == "not a port"


def test_a_denied_port_is_3_with_how_to_be_allowed() -> None:
    # Root may open everything, unless it gives that up.
    before: tuple[str, ...] = ()
    if os.geteuid() == 0:
        setpriv = requires_tool("setpriv", "util-linux")
        before = (setpriv, "--bounding-set=-dac_override,-dac_read_search")
    with agent("-b", "linux", SCALARS, "--pty") as port:
        Path(port).chmod(0)
        done = boardprof("info", "-b", "linux", "-p", port, before=before)
    assert (done.code, done.out) == (3, "")
    assert done.err == (
        f"error: No permission to open {port}.\n"
        "Try: sudo usermod -aG dialout $USER, then log in again\n"
    )


# -- 70: boardprof itself ----------------------------------------------------------------------


@pytest.fixture
def broken(tmp_path: Path) -> dict[str, str]:
    """An environment in which a module of Python's, which boardprof needs, is not what it was."""
    (tmp_path / "tomllib.py").write_text(
        "class TOMLDecodeError(ValueError):\n    pass\n"
        "def loads(text):\n    raise ZeroDivisionError('\\x1b[31mone\\ntwo')\n"
    )
    return {"PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"}


def test_an_error_of_our_own_is_70_and_one_line(tmp_path: Path, broken: dict[str, str]) -> None:
    done = boardprof("boards", environment=broken)
    assert (done.code, done.out) == (70, "")
    assert done.err == (
        f"internal error: ZeroDivisionError: \\x1b[31mone\\ntwo ({tmp_path}/tomllib.py:4). "
        "Try: --debug\n"
    )


@pytest.mark.parametrize(
    ("words", "variables"),
    [
        (["boards", "--debug"], {}),
        (["build", "-v"], {}),
        (["boards"], {"BOARDPROF_DEBUG": "1"}),
        (["--config", "pyproject.toml", "boards", "--debug"], {}),  # before options are read
    ],
)
def test_who_asks_for_it_gets_the_traceback(
    broken: dict[str, str], words: list[str], variables: dict[str, str]
) -> None:
    environment = {**os.environ, **broken, **variables}
    done = subprocess.run(
        [*BOARDPROF, *words], env=environment, capture_output=True, text=True, timeout=60, cwd=ROOT
    )
    assert (done.returncode, done.stdout) == (70, "")
    assert done.stderr.startswith("Traceback (most recent call last):\n")
    assert done.stderr.endswith("ZeroDivisionError: \\x1b[31mone\ntwo\n")


def test_what_the_terminal_s_encoding_does_not_have_is_escaped(tmp_path: Path) -> None:
    rows = [{"Name": "\u00fc\u2211", "Device": "m0", "Count": Count(1)}]
    write_report(Report(rows, {}, {}), tmp_path / "report.json")
    done = subprocess.run(
        [*BOARDPROF, "show", tmp_path / "report.json"],
        env={**os.environ, "PYTHONIOENCODING": "latin-1"},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.splitlines()[1].startswith(b"\xfc\\u2211 ")


# -- 5 and 6: the board -----------------------------------------------------------------------


def test_a_board_that_falls_silent_in_a_call_is_5(tmp_path: Path) -> None:
    (tmp_path / "stuck.c").write_text(
        "#include <signal.h>\nvoid stuck(void);\nvoid stuck(void) { raise(SIGSTOP); }\n"
    )
    done = boardprof("run", "-b", "linux", tmp_path / "stuck.c:stuck", "--timeout", "0.5")
    assert (done.code, done.out) == (5, "")
    assert "did not answer stuck for 5.5 s." in done.err  # its limit and 5 s of grace
    assert "Try: check whether stuck crashes or never ends; if it is only slow" in done.err


@pytest.mark.parametrize("board", ["native", "linux"])
def test_a_function_that_never_ends_is_6_with_the_line_where_it_was_stopped(board: str) -> None:
    done = boardprof("run", "-b", board, f"{ENDLESS}:b_endless", "--timeout", "0.5")
    assert (done.code, done.out) == (6, "")
    message = (
        "error: b_endless did not end within 0.5 s of the board's clock; the board stopped it at "
    )
    assert re.match(message + r"endless\.c:1[345] \(in b_endless\)\n", done.err)
    assert "Try: if b_endless is only slow, give --timeout 5\n" in done.err


def test_the_limit_of_a_sample_is_told_where_its_calls_together_were_too_long(
    tmp_path: Path,
) -> None:
    (tmp_path / "nap.c").write_text("#include <unistd.h>\nvoid nap(void) { usleep(20000); }\n")
    done = boardprof("run", tmp_path / "nap.c:nap", "--timeout", "0.3", "--number", "1000")
    assert (done.code, done.out) == (6, "")
    assert "nap did not end within 0.3 s of the board's clock" in done.err
    hint = "the 1,000 calls of a sample share one limit: lower --number, or give --timeout 3"
    assert f"Try: {hint}\n" in done.err


def test_a_sample_of_too_many_short_calls_is_not_a_lost_board(tmp_path: Path) -> None:
    """An emulator is hardly ever seen in the function: it is between two calls."""
    requires_tool("riscv64-unknown-elf-gcc", "gcc-riscv64-unknown-elf")
    requires_tool("qemu-system-riscv32", "qemu-system-misc")
    (tmp_path / "nop.c").write_text("int nop(void) { return 0; }\n")
    done = boardprof(
        *("run", "-b", "qemu-rv32", tmp_path / "nop.c:nop"),
        *("--number", "1000000000", "--wall-timeout", "2"),
    )
    assert (done.code, done.out) == (6, "")
    assert "error: nop did not end within 2 s of wall time (--wall-timeout)" in done.err
    hint = "the 1,000,000,000 calls of a sample share one limit: lower --number, or give"
    assert f"Try: {hint} --wall-timeout 20\n" in done.err


def test_a_check_that_fails_is_6() -> None:
    done = boardprof("run", f"{FIXTURES / 'faulty.c'}:b_wrong")
    assert (done.code, done.out) == (6, "")
    assert (
        "b_wrong ran, but its check function says that the result is wrong (it returned -3)"
        in done.err
    )


# -- 7: building ------------------------------------------------------------------------------


def test_a_function_that_ends_the_process_is_6_and_no_success(tmp_path: Path) -> None:
    (tmp_path / "leave.c").write_text(
        "#include <stdlib.h>\nvoid leave(void);\nvoid leave(void) { exit(0); }\n"
    )
    done = boardprof("run", tmp_path / "leave.c:leave")
    assert (done.code, done.out) == (6, "")
    assert "error: leave trapped on the board: abort or exit at leave.c:3 (in leave)\n" in done.err


def test_a_check_of_another_type_is_told_since_it_does_not_run(tmp_path: Path) -> None:
    (tmp_path / "q.c").write_text("void q(void) {}\nunsigned q_check(void) { return 7; }\n")
    done = boardprof("run", tmp_path / "q.c:q")
    assert done.code == 0
    assert "q_check is not run for q: it is not `int q_check(void)`" in done.err


def test_hooks_that_cannot_run_are_told_with_the_reason(tmp_path: Path) -> None:
    functions = "".join(f"int {name}(void) {{ return 3; }}\n" for name in "abcde")
    (tmp_path / "q.c").write_text(
        functions + "void a_check(void) {}\nstatic int b_check(void) { return 1; }\n"
        "int c_check(int n) { return n; }\nvoid d_setup(int n) { (void)n; }\n"
        "int e_check(void) { return 0; } // not a_setup\n"
    )
    done = boardprof("run", tmp_path / "q.c:all", "--no-warnings")
    assert (done.code, [line for line in done.err.splitlines() if "is not run" in line]) == (
        0,
        [
            "note: a_check is not run for a: it is not `int a_check(void)`",
            "note: b_check is not run for b: it is static; to check its results, it must be a "
            "global `int b_check(void)`",
            "note: c_check is not run for c: it is not `int c_check(void)`",
            "note: d_setup is not run for d: it is not `void d_setup(void)`",
        ],
    )


def test_a_real_board_without_a_port_says_what_a_port_may_be() -> None:
    done = boardprof("info", "-b", "nucleo-f446re")
    assert done.code == 3
    assert "\nTry: give -p PORT: PORT is a device path, HOST:PORT, a URL (" in done.err


def test_code_that_does_not_compile_is_7_with_the_compilers_words(tmp_path: Path) -> None:
    source = tmp_path / "broken.c"
    source.write_text("int broken(void) { return missing; }\n")
    done = boardprof("run", f"{source}:broken")
    assert (done.code, done.out) == (7, "")
    assert f"error: {source} does not compile:" in done.err
    assert "'missing' undeclared" in done.err.replace("‘", "'").replace("’", "'")


@pytest.mark.parametrize(
    ("where", "kilobytes"), [("XDG_CACHE_HOME", 4), ("XDG_CACHE_HOME", 400), ("TMPDIR", 4)]
)
def test_a_full_disk_under_the_compiler_is_8_and_no_fault_of_the_code(
    tmp_path: Path, where: str, kilobytes: int
) -> None:
    source = tmp_path / "one.c"
    source.write_text("int one(int n) { return n; }\n")
    (tmp_path / "disk").mkdir()
    mount = f"mount -t tmpfs -o size={kilobytes}k boardprof {tmp_path}/disk"
    unshare = requires_tool("unshare", "util-linux")
    # As root of a name space of its own, where anybody may mount.
    before = (unshare, "--map-root-user", "--mount", "sh", "-c", f'{mount} && exec "$@"', "sh")
    cache = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = boardprof(
        *("build", source, "-o", tmp_path / "one.elf"),
        environment={**cache, where: str(tmp_path / "disk")},
        before=before,
    )
    assert (done.code, done.out) == (8, "")
    assert "No space left on device" in done.err
    assert (
        "\nTry: free some space there, or set XDG_CACHE_HOME" in done.err or "The cache" in done.err
    )


def test_a_missing_compiler_is_7_with_its_package(tmp_path: Path) -> None:
    bare = {"PATH": str(tmp_path)}
    done = boardprof("run", "-b", "qemu-cortex-m3", f"{SCALARS}:count_calls", environment=bare)
    assert (done.code, done.out) == (7, "")
    assert done.err.startswith("error: arm-none-eabi-gcc was not found on PATH.")
    assert "gcc-arm-none-eabi" in done.err


def test_a_missing_emulator_is_7_with_its_package(tmp_path: Path) -> None:
    compiler = requires_tool("riscv64-unknown-elf-gcc", "gcc-riscv64-unknown-elf")
    assert boardprof("run", "-b", "qemu-rv32", f"{SCALARS}:count_calls").code == 0  # now built
    (tmp_path / "riscv64-unknown-elf-gcc").symlink_to(compiler)
    bare = {"PATH": str(tmp_path)}
    done = boardprof("run", "-b", "qemu-rv32", f"{SCALARS}:count_calls", environment=bare)
    assert (done.code, done.out) == (7, "")
    assert done.err.startswith("error: qemu-system-riscv32 was not found on PATH.")
    assert "qemu-system-misc" in done.err


# -- nobody reads ------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [["run", "-q", "f.c:f", "-DMORE"], ["compare", "old", "last"]])
def test_a_verdict_is_the_exit_code_also_if_nobody_reads_the_output(
    tmp_path: Path, words: list[str]
) -> None:
    """`| head -1` has often gone before a command prints; under pipefail its code still counts."""
    (tmp_path / "f.c").write_text(SOURCE_OF_TWO_SIZES)
    environment = {**os.environ, "BOARDPROF_HISTORY": str(tmp_path / "history.sqlite")}

    def run(*more: str, stdout: int) -> int:
        command = [*BOARDPROF, *more]
        return subprocess.run(
            command, cwd=tmp_path, env=environment, stdout=stdout, timeout=60, check=False
        ).returncode

    assert run("run", "-q", "f.c:f", "--save", "old", stdout=subprocess.DEVNULL) == 0
    assert run("run", "-q", "f.c:f", "-DMORE", stdout=subprocess.DEVNULL) == 0
    against = ["--against", "old"] if words[0] == "run" else []
    gate = ["--fail-if", "stack>0", "--allow", "compiler"]
    reads, writes = os.pipe()
    os.close(reads)
    try:
        code = run(*words, *against, *gate, stdout=writes)
    finally:
        os.close(writes)
    assert code == 1


PRINTS = r"""
#include <stdio.h>
#include <sys/stat.h>
int prints(void) { return puts("from the function"); }
int has_a_device(void) {
    struct stat status;
    return fstat(1, &status) == 0 && S_ISCHR(status.st_mode);
}
"""


def test_what_a_function_prints_is_not_in_the_report_without_standard_error(tmp_path: Path) -> None:
    (tmp_path / "prints.c").write_text(PRINTS)
    done = boardprof(
        *("run", "-b", "native", "prints.c:prints", "--json", "-"),
        folder=tmp_path,
        before=("sh", "-c", 'exec "$@" 2>&-', "sh"),
    )
    assert done.code == 0
    assert done.out.startswith("{")
    assert "from the function" not in done.out


def test_what_a_function_prints_is_in_no_file_of_ours_without_standard_output(
    tmp_path: Path,
) -> None:
    (tmp_path / "prints.c").write_text(PRINTS)
    numpy.save(tmp_path / "yes.npy", numpy.int32(1))
    done = boardprof(
        *("run", "-q", "-b", "native", "prints.c:has_a_device", "--expect", "return=@yes.npy"),
        folder=tmp_path,
        before=("sh", "-c", 'exec "$@" >&-', "sh"),
    )
    assert (done.code, done.err) == (0, "")


def test_a_history_that_may_not_be_opened_is_a_warning_of_a_run(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0)
    before: tuple[str, ...] = ()
    if os.geteuid() == 0:
        setpriv = requires_tool("setpriv", "util-linux")
        before = (setpriv, "--bounding-set=-dac_override,-dac_read_search")
    history = tmp_path / "closed" / "history.sqlite"
    done = boardprof(
        *("run", "-q", "-b", "native", f"{SCALARS}:count_calls"),
        environment={"BOARDPROF_HISTORY": str(history)},
        before=before,
    )
    assert done.code == 0
    assert done.err == (
        f"warning: the run was not kept: The history {history} cannot be written: "
        "Permission denied.\n"
        "Try: BOARDPROF_HISTORY=FILE uses another file, BOARDPROF_HISTORY=off keeps no history\n"
    )
