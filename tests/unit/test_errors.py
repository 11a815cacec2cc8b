# SPDX-License-Identifier: Apache-2.0
"""The error tree: exit codes, messages and hints."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor

import pytest

from boardprof.base import errors
from boardprof.base.errors import (
    AuthenticationError,
    BoardError,
    BoardprofError,
    BoardTimeoutError,
    BuildError,
    BuildMismatchError,
    BusyError,
    CheckFailedError,
    DecodeError,
    DeviceBoundsError,
    DeviceCounterError,
    DeviceEndedError,
    DeviceError,
    DeviceFaultError,
    DeviceResetError,
    DeviceTimeoutError,
    FrameError,
    LayoutMismatchError,
    LinkError,
    Location,
    MeterError,
    MissingExtraError,
    MissingToolError,
    ProtocolMismatchError,
    ReportFileError,
    RpcError,
    StorageError,
    UnknownNameError,
    UsageError,
    WrongOutputError,
    option,
    speaking_of_options,
    still_answers,
)

TREE: list[tuple[type[BoardprofError], type[BoardprofError], int]] = [
    (UsageError, BoardprofError, 2),
    (ReportFileError, UsageError, 2),
    (MissingExtraError, UsageError, 7),
    (UnknownNameError, UsageError, 2),
    (BoardError, BoardprofError, 3),
    (BusyError, BoardError, 3),
    (AuthenticationError, BoardError, 3),
    (MeterError, BoardError, 3),
    (LinkError, BoardprofError, 4),
    (ProtocolMismatchError, LinkError, 4),
    (LayoutMismatchError, LinkError, 4),
    (BuildMismatchError, LinkError, 4),
    (FrameError, LinkError, 4),
    (RpcError, LinkError, 4),
    (DecodeError, BoardprofError, 4),
    (BoardTimeoutError, BoardprofError, 5),
    (DeviceError, BoardprofError, 6),
    (DeviceFaultError, DeviceError, 6),
    (DeviceBoundsError, DeviceError, 6),
    (DeviceCounterError, DeviceError, 6),
    (DeviceResetError, DeviceError, 6),
    (DeviceEndedError, DeviceError, 6),
    (DeviceTimeoutError, DeviceError, 6),
    (CheckFailedError, DeviceError, 6),
    (WrongOutputError, CheckFailedError, 6),
    (BuildError, BoardprofError, 7),
    (MissingToolError, BuildError, 7),
    (StorageError, BoardprofError, 8),
]


@pytest.mark.parametrize(("error", "parent", "exit_code"), TREE)
def test_place_in_the_tree_and_exit_code(
    error: type[BoardprofError], parent: type[BoardprofError], exit_code: int
) -> None:
    assert error.__bases__ == (parent,)
    assert error.exit_code == exit_code


def test_the_table_above_is_the_whole_tree() -> None:
    assert {error.__name__ for error, _, _ in TREE} == set(errors.__all__) - {"BoardprofError"}


@pytest.mark.parametrize("name", errors.__all__)
def test_the_drawing_shows_every_class(name: str) -> None:
    assert errors.__doc__ is not None
    assert f" {name} " in errors.__doc__


@pytest.mark.parametrize("name", errors.__all__)
def test_every_class_says_in_one_line_what_it_is(name: str) -> None:
    doc = getattr(errors, name).__doc__
    assert doc.endswith(".")
    assert "\n" not in doc


def test_a_message_stands_alone_without_a_hint() -> None:
    assert str(BoardError("/dev/ttyACM0: no such port")) == "/dev/ttyACM0: no such port"


def test_a_hint_follows_on_its_own_line() -> None:
    error = BoardError("/dev/ttyACM0: access denied", hint="sudo usermod -aG dialout $USER")
    assert str(error) == "/dev/ttyACM0: access denied\nTry: sudo usermod -aG dialout $USER"
    assert error.message == "/dev/ttyACM0: access denied"
    assert error.hint == "sudo usermod -aG dialout $USER"


@pytest.mark.parametrize(
    ("name", "value", "at_the_command_line", "in_python"),
    [
        ("--takeover", None, "--takeover", "takeover=True"),
        ("--wall-timeout", None, "--wall-timeout", "wall_timeout_s="),
        ("--libc", "none", "--libc none", 'libc="none"'),
        ("--number", "1000", "--number 1000", "number=1000"),
        ("--no-inline", "a.c:fir", "--no-inline a.c:fir", 'keep=["a.c:fir"]'),
    ],
)
def test_a_hint_names_parameters_in_python_and_options_at_the_command_line(
    name: str, value: str | None, at_the_command_line: str, in_python: str
) -> None:
    assert option(name, value) == in_python
    with speaking_of_options():
        assert option(name, value) == at_the_command_line
    assert option(name, value) == in_python


@pytest.mark.parametrize(
    ("name", "value", "in_pytest"),
    [
        ("--timeout", None, "--bp-timeout"),
        ("--wall-timeout", None, "--bp-wall-timeout"),
        ("--allow", "clock", "--bp-allow clock"),
        ("--repeat", None, "repeat="),
        ("--number", "1000", "number=1000"),
    ],
)
def test_a_hint_names_what_pytest_has(name: str, value: str | None, in_pytest: str) -> None:
    with speaking_of_options("--bp-"):
        assert option(name, value) == in_pytest


def test_a_thread_of_a_command_names_options_too() -> None:
    with speaking_of_options(), ThreadPoolExecutor(1) as threads:
        assert threads.submit(option, "--baud").result() == "--baud"


def test_an_unknown_name_proposes_the_nearest_and_lists_all() -> None:
    error = UnknownNameError("counter", "cylces", ["instructions", "cycles"])
    assert str(error) == (
        "There is no counter 'cylces'; did you mean 'cycles'? Known: instructions, cycles"
    )
    assert (error.kind, error.name, error.known) == (
        "counter",
        "cylces",
        ("instructions", "cycles"),
    )


def test_an_unknown_name_far_from_all_proposes_nothing() -> None:
    assert str(UnknownNameError("board", "xyz", ["native"])) == (
        "There is no board 'xyz'. Known: native"
    )


def test_an_unknown_name_where_nothing_is_known() -> None:
    assert str(UnknownNameError("function", "fir", [], hint="build it first")) == (
        "There is no function 'fir'. Known: (none)\nTry: build it first"
    )


def test_a_report_file_error_begins_with_the_place() -> None:
    assert str(ReportFileError("too short", where="calls[3]")) == "calls[3]: too short"
    assert str(ReportFileError("too short")) == "too short"


def test_an_rpc_error_keeps_its_code() -> None:
    assert RpcError("refused", code=7).code == 7


def test_a_device_error_keeps_its_code_if_there_is_one() -> None:
    assert DeviceError("bad address", code=-5).code == -5
    assert DeviceResetError("the board restarted").code is None


@pytest.mark.parametrize(
    ("path", "offset", "text"),
    [
        ("header.flags", 6, "bad value (at field header.flags, byte 6)"),
        ("header.flags", None, "bad value (at field header.flags)"),
        ("", 0, "bad value (at byte 0)"),
        ("", None, "bad value"),
    ],
)
def test_a_decode_error_names_field_and_byte(path: str, offset: int | None, text: str) -> None:
    error = DecodeError("bad value", path=path, offset=offset)
    assert (str(error), error.path, error.offset) == (text, path, offset)


def test_a_missing_tool_names_its_package() -> None:
    error = MissingToolError("arm-none-eabi-gcc", "gcc-arm-none-eabi")
    assert (error.tool, error.package) == ("arm-none-eabi-gcc", "gcc-arm-none-eabi")
    assert str(error) == (
        "arm-none-eabi-gcc was not found on PATH.\n"
        "Try: install the package gcc-arm-none-eabi (Debian: apt install gcc-arm-none-eabi)"
    )


class TestTimeoutConsole:
    def test_what_the_board_printed_is_shown_before_the_hint(self) -> None:
        error = BoardTimeoutError("no reply in 2 s", console="boot ok\npanic\n", hint="reset it")
        assert str(error) == (
            "no reply in 2 s\nThe board's console so far:\n  | boot ok\n  | panic\nTry: reset it"
        )
        assert error.console == "boot ok\npanic\n"

    @pytest.mark.parametrize("console", ["", "\r\n  \n"])
    def test_silence_is_not_shown(self, console: str) -> None:
        assert str(BoardTimeoutError("no reply in 2 s", console=console)) == "no reply in 2 s"

    def test_only_the_last_twenty_lines_are_shown_but_all_are_kept(self) -> None:
        console = "".join(f"line {i}\n" for i in range(25))
        error = BoardTimeoutError("no reply", console=console)
        lines = str(error).splitlines()
        assert lines[1] == "The board's console so far (last 20 of 25 lines):"
        assert lines[2:] == [f"  | line {i}" for i in range(5, 25)]
        assert error.console == console

    def test_control_characters_do_not_reach_the_terminal(self) -> None:
        error = BoardTimeoutError("no reply", console="\x1b[31mred\x00")
        assert str(error).splitlines()[-1] == "  | \\x1b[31mred\\x00"


@pytest.mark.parametrize(
    "error",
    [
        UsageError("m", hint="h"),
        ReportFileError("m", where="w"),
        UnknownNameError("kind", "name", ["known"]),
        RpcError("m", code=3),
        DecodeError("m", path="p", offset=1),
        BoardTimeoutError("m", console="c", hint="h"),
        DeviceResetError("m", code=2),
        DeviceFaultError("m", code=14, cause="divide", pc=4, location=Location("a.c", 3, "f")),
        DeviceTimeoutError("m", code=15, limit_s=0.5),
        DeviceBoundsError("m", array="y", offset=-4, hint="h"),
        DeviceCounterError("m", code=17, schema_id=3, hint="h"),
        MissingToolError("tool", "package"),
    ],
)
def test_errors_cross_a_process_boundary_whole(error: BoardprofError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert vars(copy) == vars(error)
    assert copy.args == error.args


def test_a_name_that_is_the_beginning_of_a_known_one_is_answered_with_that_one() -> None:
    error = UnknownNameError("metric", "instr", ["ticks", "instructions"], owner="qemu-rv32")
    assert str(error) == (
        "qemu-rv32 has no metric 'instr'; did you mean 'instructions'? Known: ticks, instructions"
    )


def test_a_beginning_of_several_names_proposes_none() -> None:
    error = UnknownNameError("metric", "LLC", ["LLC-load-misses", "LLC-store-misses"])
    assert str(error) == ("There is no metric 'LLC'. Known: LLC-load-misses, LLC-store-misses")


@pytest.mark.parametrize(
    ("error", "answers"),
    [
        (RpcError("refused", code=-3), True),
        (UsageError("a mistake of the caller"), True),
        (KeyError("a mistake of the caller"), True),
        (BoardTimeoutError("silent"), False),
        (FrameError("garbled"), False),
        (DeviceResetError("again"), False),
        (DeviceEndedError("gone"), False),
        (KeyboardInterrupt(), False),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_a_board_is_asked_to_clean_up_only_where_it_still_answers(
    error: BaseException, answers: bool
) -> None:
    assert still_answers(error) is answers
