# SPDX-License-Identifier: Apache-2.0
"""Everything that boardprof raises on purpose, as one tree with exit codes.

::

    BoardprofError              70  never raised itself; catch it to catch all others
    ├── UsageError               2  the caller asked for something that cannot be done
    │   ├── ReportFileError         a file does not hold a Report
    │   ├── MissingExtraError    7  a Python package is not installed
    │   └── UnknownNameError        no function, counter, board ... has that name
    ├── BoardError               3  the board cannot be reached
    │   ├── BusyError               another host has it
    │   ├── AuthenticationError     the key is missing or wrong
    │   └── MeterError              the power analyser beside it cannot be used
    ├── LinkError                4  the data on the line does not follow the protocol
    │   ├── ProtocolMismatchError   host and agent speak different versions
    │   ├── LayoutMismatchError     host and agent lay a blob out differently
    │   ├── BuildMismatchError      the board runs another image than the ELF
    │   ├── FrameError              a frame is malformed or damaged
    │   └── RpcError                the agent refused a call
    ├── DecodeError              4  a blob does not fit its schema
    ├── BoardTimeoutError        5  the board did not answer in time
    ├── DeviceError              6  the called code failed on the board
    │   ├── DeviceResetError        the board restarted during the call
    │   ├── DeviceEndedError        the program that is the board ended during the call
    │   ├── DeviceFaultError        it trapped: bad address, division by zero, abort ...
    │   ├── DeviceBoundsError       it wrote before or after an array of its arguments
    │   ├── DeviceCounterError      it stopped or set a counter that measures it
    │   ├── DeviceTimeoutError      it did not end in time, and was stopped
    │   └── CheckFailedError        a check on the board failed
    │       └── WrongOutputError    a function's output differs from what was expected
    ├── BuildError               7  firmware could not be built
    │   └── MissingToolError        a program needed for it is not installed
    └── StorageError             8  a file has no room: the disk is full, or fails

A warning, too, can name the caller's line: `warn_user`.

Every message says what happened and to what; ``hint`` says what to try, with the options of the
command line, or with the parameters of Python. The command line ends with ``exit_code``.
"""

from __future__ import annotations

import contextlib
import difflib
import math
import os
import posixpath
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from boardprof.base.printable import escaped

__all__ = [
    "AuthenticationError",
    "BoardError",
    "BoardTimeoutError",
    "BoardprofError",
    "BuildError",
    "BuildMismatchError",
    "BusyError",
    "CheckFailedError",
    "DecodeError",
    "DeviceBoundsError",
    "DeviceCounterError",
    "DeviceEndedError",
    "DeviceError",
    "DeviceFaultError",
    "DeviceResetError",
    "DeviceTimeoutError",
    "FrameError",
    "LayoutMismatchError",
    "LinkError",
    "MeterError",
    "MissingExtraError",
    "MissingToolError",
    "ProtocolMismatchError",
    "ReportFileError",
    "RpcError",
    "StorageError",
    "UnknownNameError",
    "UsageError",
    "WrongOutputError",
]

_PACKAGE = os.path.dirname(os.path.dirname(__file__))
_NOT_THE_USERS = (f"{_PACKAGE}{os.sep}", contextlib.__file__)

_PARAMETERS = {
    "--baud": "baud=",
    "--cold": "cold=True",
    "--debug-probe": "probe=",
    "--image": "image=",
    "--key-file": "key_file=",
    "--ldflags": "ldflags=",
    "--libc": "libc=",
    "--metrics": "metrics=",
    "--no-inline": "keep=",
    "--number": "number=",
    "--port": "port=",
    "--repeat": "repeat=",
    "--sampled": "sampled=True",
    "--takeover": "takeover=True",
    "--timeout": "timeout_s=",
    "--wall-timeout": "wall_timeout_s=",
    "--warmup": "warmup=",
}
"""Options of the command line, and what they are in Python."""

_LISTS = ("--no-inline",)  # options whose parameter is a list
_IN_PYTEST = frozenset(
    {"--ab-rev", "--allow", "--baud", "--board", "--fail-if", "--port"}
    | {"--save", "--timeout", "--wall-timeout"}
)
"""Options that pytest has, too, under names that begin with ``--bp-``."""

_prefix = ""
"""With which the options of the caller begin: ``--``, ``--bp-`` in pytest, or "" in Python."""

_OF_CONNECTIONS = frozenset(
    {"--baud", "--debug-probe", "--image", "--key-file", "--port", "--takeover"}
    | {"--timeout", "--wall-timeout"}
)
"""Options of most commands that reach a board, but not of all."""

_in_command: Callable[[str], str] = str
"""Names one of these for the command that runs."""

_CONSOLE_LINES = 20
_TAB = "\t"


@contextlib.contextmanager
def speaking_of_options(prefix: str = "--") -> Iterator[None]:
    """Word errors for the command line, or for pytest, while the context lasts, in all threads."""
    global _prefix, _in_command
    before = _prefix, _in_command
    _prefix, _in_command = prefix, str
    try:
        yield
    finally:
        _prefix, _in_command = before


def begin_command(named: Callable[[str], str]) -> None:
    """From now on ``named`` words the options of connections, until the next command."""
    global _in_command
    _in_command = named


def option(name: str, value: str | None = None) -> str:
    """Return an option as the caller of boardprof knows it, with a value if there is one."""
    if _prefix != "--" and name in _PARAMETERS and not (_prefix and name in _IN_PYTEST):
        parameter = _PARAMETERS[name]
        if value is None or value.isdecimal():
            return parameter + (value or "")
        return parameter + (f'["{value}"]' if name in _LISTS else f'"{value}"')
    if _prefix and name in _IN_PYTEST:
        name = f"{_prefix}{name[2:]}"
    if _prefix == "--" and name in _OF_CONNECTIONS:
        name = _in_command(name)
    return name if value is None else f"{name} {value}"


def longer(name: str, limit_s: float) -> str:
    """Return the option that sets a limit, as the caller knows it, with ten times its value."""
    return option(name, str(max(1, math.ceil(10 * limit_s))))


def agent_option(name: str, value: int | None = None) -> str:
    """Return an option of the agent as a hint names it: in C, and in a board's file.

    Firmware with a build of its own has no board.toml. ``name`` is without BP_CFG_.
    """
    macro, key = f"BP_CFG_{name.upper()}", name
    if value is not None:
        macro, key = f"{macro}={value}", f"{name} = {value}"
    return f"{macro} (`{key}` in [build] config of a board.toml)"


class BoardprofError(Exception):
    """The root of the tree, with a message, a hint and an exit code."""

    exit_code: int = 70
    """Exit code of an error in boardprof itself (EX_SOFTWARE of sysexits(3)); 1 is a regression."""

    kept: Any = None
    """The `Measurement` with the samples from before a call that never ended; None if none are."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        """Keep what happened (``message``) and what to try (``hint``)."""
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        """Return the message, and the hint on a line of its own."""
        return self.message if self.hint is None else f"{self.message}\nTry: {self.hint}"

    def __reduce__(self) -> tuple[Any, ...]:
        """Let errors cross a process boundary whatever their constructor takes."""
        return _restore, (type(self), self.args, self.__dict__)


def _restore(
    cls: type[BoardprofError], args: tuple[object, ...], state: dict[str, object]
) -> BoardprofError:
    error = cls.__new__(cls, *args)
    error.__dict__.update(state)
    return error


class UsageError(BoardprofError):
    """The caller asked for something that cannot be done as asked."""

    exit_code = 2


class MissingExtraError(UsageError):
    """The Python package ``package`` is not installed; the extra ``extra`` installs it."""

    exit_code = 7  # like a missing tool

    def __init__(self, what: str, package: str, extra: str) -> None:
        """Say what needs the package, and how to install it."""
        hint = f"pip install 'boardprof[{extra}]', or pip install {package}"
        super().__init__(f"{what} needs {package}, which is not installed.", hint=hint)
        self.package = package
        self.extra = extra


class ReportFileError(UsageError):
    """A file does not hold a Report; ``where`` is the path inside it, "" if unknown."""

    def __init__(self, message: str, *, where: str = "", hint: str | None = None) -> None:
        """Put ``where`` (such as ``calls[3]["cycles"]``) in front of the message."""
        super().__init__(f"{where}: {message}" if where else message, hint=hint)
        self.where = where


class UnknownNameError(UsageError):
    """There is no ``kind`` called ``name``; the message proposes and lists the known names."""

    def __init__(
        self,
        kind: str,
        name: str,
        known: Iterable[str],
        *,
        where: str = "",
        owner: str | None = None,
        hint: str | None = None,
    ) -> None:
        """Compose the message from the kind of thing, the name and the known names.

        Args:
            kind: such as ``function``.
            name: the unknown name.
            known: all known names.
            where: the place that was searched, such as ``in fir.c``; "" if it is obvious.
            owner: the thing that lacks it, such as a board; None if nothing in particular.
            hint: what to try.
        """
        self.kind = kind
        self.name = name
        self.known = tuple(known)
        nearest = self.nearest(name, self.known) if isinstance(name, str) else None
        proposal = f"; did you mean {nearest!r}?" if nearest is not None else "."
        place = f" {where}" if where else ""
        names = ", ".join(self.known) if self.known else "(none)"
        lacks = "There is" if owner is None else f"{owner} has"
        super().__init__(f"{lacks} no {kind} {name!r}{place}{proposal} Known: {names}", hint=hint)

    @staticmethod
    def nearest(name: str, known: Iterable[str]) -> str | None:
        """Return the known name that was probably meant; None if there is none.

        It is spelled almost the same in any case, or is the only one with this beginning, as
        ``instructions`` is for ``instr``.
        """
        folded = name.casefold()
        by_folded = {each.casefold(): each for each in known}
        close = difflib.get_close_matches(folded, by_folded, n=1)
        longer = [each for each in by_folded if len(folded) > 1 and each.startswith(folded)]
        found = close or (longer if len(longer) == 1 else [])
        return by_folded[found[0]] if found else None


class BoardError(BoardprofError):
    """The board cannot be reached: no such port, port busy, or access denied."""

    exit_code = 3


class MeterError(BoardError):
    """The power analyser beside the board is not there, is in use, or cannot measure energy."""


class BusyError(BoardError):
    """Another host uses the board, or has just taken it over; ``owner`` is its name."""

    def __init__(self, message: str, *, owner: str, hint: str | None = None) -> None:
        """Keep the message and the other host's name."""
        super().__init__(message, hint=hint)
        self.owner = owner


class AuthenticationError(BoardError):
    """Host and agent do not agree on a key."""


class LinkError(BoardprofError):
    """The link works, but the data on it does not follow the protocol."""

    exit_code = 4

    ended: str = ""
    """How the program at the other end of the line ended, and its output; "" if none ended."""

    def add_console(self, console: str) -> None:
        """Append the last text received before the line was lost: it may name the cause."""
        self.message += _quoted_console(console)


class ProtocolMismatchError(LinkError):
    """Host and agent have no protocol version in common."""


class LayoutMismatchError(LinkError):
    """Host and agent describe the same blob with different layouts."""


class BuildMismatchError(LinkError):
    """The image on the board does not belong to the host's ELF file."""


class FrameError(LinkError):
    """A complete frame has content that the protocol does not allow."""

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = "see whether the board runs an agent of this boardprof's version; "
        "boardprof doctor --link tests the line",
    ) -> None:
        """Add the hint that helps in most cases."""
        super().__init__(message, hint=hint)


class RpcError(LinkError):
    """The agent refused a call; ``code`` is the protocol's error code."""

    def __init__(self, message: str, *, code: int, hint: str | None = None) -> None:
        """Keep the message and the protocol's error code."""
        super().__init__(message, hint=hint)
        self.code = code


class DecodeError(BoardprofError):
    """A blob does not fit its schema; ``path`` names the field, ``offset`` the byte."""

    exit_code = 4

    def __init__(
        self, message: str, *, path: str = "", offset: int | None = None, hint: str | None = None
    ) -> None:
        """Add the field path and the byte offset, where known, to the message."""
        place = [f"field {path}"] if path else []
        place += [f"byte {offset}"] if offset is not None else []
        super().__init__(f"{message} (at {', '.join(place)})" if place else message, hint=hint)
        self.path = path
        self.offset = offset


class BoardTimeoutError(BoardprofError):
    """The board did not answer in time; ``console`` is the text it had printed."""

    exit_code = 5

    def __init__(self, message: str, *, console: str = "", hint: str | None = None) -> None:
        """Show the end of the console text, which often names the cause."""
        super().__init__(message + _quoted_console(console), hint=hint)
        self.console = console


class DeviceError(BoardprofError):
    """The called code failed on the board; ``code`` is its error code, if it gave one."""

    exit_code = 6

    def __init__(self, message: str, *, code: int | None = None, hint: str | None = None) -> None:
        """Keep the message and the device's error code."""
        super().__init__(message, hint=hint)
        self.code = code


class DeviceResetError(DeviceError):
    """The board restarted between a request and its reply."""


class DeviceEndedError(DeviceError):
    """The emulator or program that is the board ended between a request and its reply."""


@dataclass(frozen=True)
class Location:
    """A place in the sources."""

    path: str  # of the file, as the compiler was given it; "" if only the function is known
    line: int  # counted from 1; 0 if not known
    function: str | None  # its name, None if not known

    @property
    def is_agents(self) -> bool:
        """Whether it belongs to the agent or its caller, and not to a measured function."""
        name = self.function or posixpath.basename(self.path)  # its assembly has no functions
        return name.startswith("bp_") or name == "main"

    @property
    def is_between_calls(self) -> bool:
        """Whether the agent is making the calls of a sample. Short functions are rarely seen."""
        return (self.function or "").startswith(("bp_window", "bp_thunk"))

    def __str__(self) -> str:
        """Return ``crash.c:12 (in crash)``."""
        place = f"{posixpath.basename(self.path)}:{self.line}" if self.line else ""
        inside = f"(in {self.function})" if self.function else ""
        return f"{place} {inside}".strip()


class DeviceFaultError(DeviceError):
    """The called code trapped on the board: a bad address, a division by zero, an abort ..."""

    def __init__(
        self,
        message: str,
        *,
        code: int,
        cause: str,
        pc: int | None = None,
        address: int | None = None,
        location: Location | None = None,
        hint: str | None = None,
    ) -> None:
        """Keep the message and what the board reported about the fault.

        Args:
            message: what happened.
            code: the protocol's error code.
            cause: as board.toml spells it, such as ``bad-address``.
            pc: address of the instruction, as in the image's ELF file; None if not known.
            address: the address that it accessed; None if it accessed none, or if not known.
            location: ``pc`` in the sources; None if not known.
            hint: what to try.
        """
        super().__init__(message, code=code, hint=hint)
        self.cause = cause
        self.pc = pc
        self.address = address
        self.location = location


class DeviceBoundsError(DeviceError):
    """The called code wrote before or after ``array``: byte ``offset`` from its start changed."""

    def __init__(self, message: str, *, array: str, offset: int, hint: str | None = None) -> None:
        """Keep the message, the parameter's name and the offset of the first such byte."""
        super().__init__(message, hint=hint)
        self.array, self.offset = array, offset


class DeviceCounterError(DeviceError):
    """The called code stopped, set or reprogrammed a counter of the collector ``schema_id``."""

    def __init__(self, message: str, *, code: int, schema_id: int, hint: str | None = None) -> None:
        """Keep the message and the collector's schema id."""
        super().__init__(message, code=code, hint=hint)
        self.schema_id = schema_id


class DeviceTimeoutError(DeviceError):
    """The called code did not end in time: the board stopped it, or the host ended its emulator."""

    def __init__(
        self,
        message: str,
        *,
        code: int,
        limit_s: float,
        pc: int | None = None,
        location: Location | None = None,
        hint: str | None = None,
    ) -> None:
        """Keep the message and where the code was stopped; see `DeviceFaultError`.

        Args:
            message: what happened.
            code: the protocol's error code.
            limit_s: how long it was allowed to take, in seconds of the board's clock, or of wall
                time if the host ended the emulator.
            pc: address of the instruction at which it was stopped; None if not known.
            location: ``pc`` in the sources; None if not known.
            hint: what to try.
        """
        super().__init__(message, code=code, hint=hint)
        self.cause = "time-out"
        self.limit_s = limit_s
        self.pc = pc
        self.address = None
        self.location = location


class CheckFailedError(DeviceError):
    """A check of the board, on itself or on its results, failed."""


class WrongOutputError(CheckFailedError):
    """A function was measured, and its output differs from what was expected."""


class BuildError(BoardprofError):
    """Firmware could not be compiled, linked or loaded."""

    exit_code = 7


class MissingToolError(BuildError):
    """The program or header ``tool`` is not installed; ``package`` provides it."""

    def __init__(
        self, tool: str, package: str, *, message: str | None = None, hint: str | None = None
    ) -> None:
        """Name the missing tool and its package; without a message, the tool is a program."""
        install = f"install the package {package} (Debian: apt install {package})"
        super().__init__(message or f"{tool} was not found on PATH.", hint=hint or install)
        self.tool = tool
        self.package = package


class StorageError(BoardprofError):
    """A file cannot be written although that is allowed: the disk is full or fails."""

    exit_code = 8


def _quoted_console(console: str) -> str:
    """Return the last lines of ``console``, indented and free of control characters."""
    lines = console.splitlines()
    if not any(line.strip() for line in lines):
        return ""
    left_out = len(lines) - _CONSOLE_LINES
    head = f" (last {_CONSOLE_LINES} of {len(lines)} lines)" if left_out > 0 else ""
    shown = "".join(f"\n  | {escaped(line, keep=_TAB)}" for line in lines[-_CONSOLE_LINES:])
    return f"\nThe board's console so far{head}:{shown}"


def still_answers(error: BaseException) -> bool:
    """Return whether the board can be asked to clean up after an error.

    After a timeout or an interrupt it may still be within the call. After a link error it is not
    known what the board received. After its end or a reset there is nothing to clean up.
    """
    if isinstance(error, RpcError):  # a refusal is an answer
        return True
    gone = (BoardTimeoutError, LinkError, DeviceResetError, DeviceEndedError)
    return isinstance(error, Exception) and not isinstance(error, gone)


def warn_user(message: str) -> None:
    """Warn at the innermost line outside of this package, such as a ``with``."""
    # Helpers that enter and leave a ``with`` for the user, such as ``ExitStack``, are skipped too.
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_NOT_THE_USERS):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, stacklevel=level)
