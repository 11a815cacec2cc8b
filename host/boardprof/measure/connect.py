# SPDX-License-Identifier: Apache-2.0
"""Connect to a board: open or start it, say HELLO, ask what it has, and limit its calls."""

from __future__ import annotations

import contextlib
import math
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path

import msgpack

from boardprof.base.connection import AUTO, LONGEST_S, Connection, port_url
from boardprof.base.errors import BoardError, BoardprofError, BoardTimeoutError, UsageError
from boardprof.base.processes import commands_behind, port_holders
from boardprof.base.progress import activity
from boardprof.measure.board.board import Board
from boardprof.measure.board.line import (
    BOOT_S,
    check_startable,
    fetch_dictionary,
    open_port,
    start_board,
)
from boardprof.target.build.build_options import BuildOptions
from boardprof.target.build.firmware import BuiltFirmware
from boardprof.target.descriptions.board import (
    BOARD_FILE,
    BoardSpec,
    board_spec,
    default_board,
    find_boards,
    unnamed_board,
    with_reported_board,
)
from boardprof.target.elf.addresses import locate
from boardprof.target.elf.object_file import check_image
from boardprof.target.toolchain.cache import cache_root
from boardprof.wire.decode.dictionary import Dictionary
from boardprof.wire.decode.schemas import layouts_for
from boardprof.wire.link.no_answer import default_limit_s
from boardprof.wire.link.replies import make_claim
from boardprof.wire.link.session import Session
from boardprof.wire.transport.base import Transport

DEFAULT_TIMEOUT_S = 30.0
"""Longest silence within a call, if the board does not guard calls, in seconds."""

_GUARD = "bp.guard"
_GRACE_S = 5.0  # longest delay of a board's report that it has stopped a call, in seconds
_WALL_S = 30.0  # longest wall time of a call on an emulated board
_HELLO_TIMEOUT_S = 10.0

_ASK_S = 2.0

_DEFAULT = Connection()


def connect(
    board: str | BoardSpec | None = None,
    port: str | None = None,
    *,
    image: str | Path | None = None,
    baud: int | None = None,
    timeout_s: float | None = None,
    wall_timeout_s: float | None = None,
    takeover: bool = False,
    key_file: str | Path | None = None,
    clock: str | None = None,
    on_console: Callable[[str], None] | None = None,
    on_note: Callable[[str], None] | None = None,
) -> Board:
    """Connect to a board.

    Args:
        board: its name. None takes the default board, which needs no port and no emulator; at a
            port, it takes the board that the agent there reports, even if its name is unknown.
        port: where an agent runs: a device path, ``HOST:PORT``, ``auto`` for the only board that is
            found, or a URL: ``socket://``, ``ssh://``, ``rtt://``, ``rfc2217://``, ``hwgrep://``,
            ``spy://``, or one of another package's transport. None starts the board: loads it into
            this process, or starts its emulator. If a board has both an emulator and ``[port]``, it
            is the real one at any port.
        image: the firmware to start; None builds the agent alone, without functions. With a port,
            the firmware that runs there, for types, source lines and sizes of stack frames.
        baud: of a serial port; None for the board's own rate.
        timeout_s: longest time of a call, and of each round of a measurement, in seconds of the
            board's clock. Then the board stops the call. None for 10 s. If the board does not
            guard its calls, the longest silence within a call; None for 30 s. It also limits the
            handshake at a port; None for 10 s. A board that is started has at least 10 s.
        wall_timeout_s: the same in wall time. Then the host gives up the call, and ends the
            emulator if it was started here. None for 30 s on emulated boards, or more if
            ``timeout_s`` is more than 10 s; others have no wall limit.
        takeover: take the board even if another host has it; that host is informed.
        key_file: file with the key that the agent at a TCP port asks for, readable only by its
            owner. None takes the key from the environment variable BOARDPROF_KEY, if it is set.
        clock: ``measured``, ``declared`` or ``simulated``, overriding the board's file. If None,
            the clock is simulated if the other end of the port is an emulator of this machine, and
            in Reports with an emulator's cycles.
        on_console: gets each line that the board prints between its frames.
        on_note: gets notes about slow steps, such as building the board's simulator, and a note if
            the image has no build id, so that it cannot be checked that the board runs it.

    Raises:
        UnknownNameError: no such board.
        UsageError: the timeout is out of range; the line has no baud rate or no key; the image is
            for another machine.
        BoardError: the port does not exist, access is denied, or another board is there.
        BusyError: another host has the board.
        AuthenticationError: the agent asks for a key and no key is given, or the keys differ, or
            the agent has no key.
        BoardTimeoutError: the board does not answer.
        BuildMismatchError: the board at the port runs another image.
        LinkError: the board has another protocol or other layouts.
        BuildError: the firmware or the board's simulator could not be built.
    """
    connection = Connection(
        port,
        baud,
        timeout_s=timeout_s,
        wall_timeout_s=wall_timeout_s,
        takeover=takeover,
        key_file=key_file,
        clock=clock,
        on_console=on_console,
        on_note=on_note,
    )
    return connect_by(connection, board, image)


def connect_by(
    connection: Connection, board: str | BoardSpec | None = None, image: str | Path | None = None
) -> Board:
    """Connect to a board; see `connect`."""
    at_port = connection.port is not None
    if board is None and at_port:
        return open_board(unnamed_board(), connection, image=image)
    spec = _spec_of(board)
    return open_board(spec.at_port() if at_port else spec, connection, image=image)


def _spec_of(board: str | BoardSpec | None) -> BoardSpec:
    if board is None:
        return default_board()
    return board_spec(board) if isinstance(board, str) else board


def open_board(
    spec: BoardSpec,
    connection: Connection = _DEFAULT,
    *,
    image: str | Path | None = None,
    built: BuiltFirmware | None = None,
) -> Board:
    """Begin a session with a board at a port, or start an image on it; see `connect`."""
    # ``built`` is the image, if it was built from the user's sources.
    connection = _with_port(spec, connection)
    is_started = connection.port is None
    is_ssh = connection.port is not None and connection.port.startswith("ssh://")
    timeout_s = connection.timeout_s
    hello_s = _HELLO_TIMEOUT_S if timeout_s is None else timeout_s
    limits = (("timeout_s", timeout_s), ("wall_timeout_s", connection.wall_timeout_s))
    for name, given_s in limits:
        if given_s is not None and not 0 < given_s <= LONGEST_S:
            raise UsageError(
                f"{name}={given_s} is out of range: it must be above 0 and at most "
                f"{LONGEST_S:,.0f}."
            )
    if is_started or is_ssh:  # to boot or to log in takes time, even if calls must be short
        boots = is_started and spec.launch.guest is not None
        hello_s = max(hello_s, BOOT_S if boots else _HELLO_TIMEOUT_S)
    transport, image = open_line(spec, connection, image=image, timeout_s=hello_s)
    board = attach(
        spec,
        transport,
        connection,
        image=image,
        built=built,
        hello_s=hello_s,
        is_started=is_started,
    )
    if is_started:
        again = replace(connection, takeover=False, clock=None)
        board.start_again = partial(open_board, connection=again, image=image)
    return board


def open_firmware(firmware: BuiltFirmware, connection: Connection = _DEFAULT) -> Board:
    """Start a built firmware, or connect to the board that runs it. Raises as `connect`."""
    board = open_board(
        firmware.board if connection.port is None else firmware.board.at_port(),
        connection,
        image=firmware.image,
        built=firmware,
    )
    board.flags = firmware.flags
    board.add_functions(firmware.functions)
    board.libc = "; ".join(filter(None, [firmware.libc, firmware.libc_lacks])) or None
    board.compilers = firmware.compilers
    board.added = firmware.added
    for note in firmware.notes:
        if connection.on_note is not None:
            connection.on_note(note)
    board.files = firmware.sources
    return board


def attach(
    spec: BoardSpec,
    transport: Transport,
    connection: Connection = _DEFAULT,
    *,
    image: str | Path | None = None,
    built: BuiltFirmware | None = None,
    hello_s: float = _HELLO_TIMEOUT_S,
    is_started: bool = False,
) -> Board:
    """Begin a session over an open transport, which is closed on an error; raises as `connect`."""
    # ``hello_s`` is the longest silence until the session has begun. With a port, an emulator at
    # the other end of the line is looked for.
    claim = make_claim(takeover=connection.takeover)
    session = Session(transport, timeout_s=hello_s, claim=claim, on_console=connection.on_console)
    try:
        if image is not None and is_started:  # it may hang before it answers
            session.line.locate = cache(partial(locate, Path(image)))
        try:
            welcome = session.open()
        except BoardTimeoutError as error:
            if is_started:
                error.hint = (
                    f"check that launch.command in {spec.folder / BOARD_FILE} starts the machine "
                    "that the firmware is built for, with its serial port where the firmware "
                    "expects it"
                )
            raise
        offer = built.offer if built is not None and is_started else ""
        dictionary = fetch_dictionary(session, cache_root() / "dictionaries", offer)
        spec = with_reported_board(spec, dictionary.board)
        if dictionary.board != spec.name:
            why = ", the default without -b" if spec.default else ""
            raise BoardError(
                f"The agent at {transport.name} belongs to the board {dictionary.board!r}, "
                f"not {spec.name!r}{why}.",
                hint=_other_board(dictionary.board, spec.name, is_started=is_started),
            )
        if connection.clock is None:
            # The board has answered, so its process has its final program. Earlier, the command
            # line of an emulator that is just being started may be empty.
            port = connection.port
            known = getattr(transport, "commands", ())
            spec = spec.played_by((*known, *(commands_behind(port) if port is not None else ())))
        else:
            clock = replace(spec.clock, kind=connection.clock, emulated=False, given=True)
            spec = replace(spec, clock=clock)
        guard_calls(session, dictionary, spec, connection.timeout_s, connection.wall_timeout_s)
        layouts = layouts_for(spec.folder)
        board = Board(spec, session, welcome, dictionary, layouts, is_started=is_started)
        if image is not None:
            board.set_image(
                Path(image),
                is_of_this_host=is_started and spec.runs_here,
                built=None if built is None else built.build_id,
                on_note=connection.on_note,
            )
        return board
    except BaseException:
        session.close()
        raise


def guard_calls(
    session: Session,
    dictionary: Dictionary,
    spec: BoardSpec,
    timeout_s: float | None,
    wall_timeout_s: float | None = None,
) -> None:
    """Set the board's limit for a call, and let the host wait a little longer than that."""
    # So the board ends a call that hangs, and the host does not have to give up the board. A slow
    # emulator may not reach its own limit before the wall limit; then the host ends the call.
    function = next((f for f in dictionary.functions if f.name == _GUARD), None)
    limit_s: float | None = None
    if function is None:
        surely_s = DEFAULT_TIMEOUT_S if timeout_s is None else timeout_s
    else:
        limit_s = default_limit_s(spec.instruction_ns) if timeout_s is None else timeout_s
        surely_s = limit_s * spec.clock.time_scale + _GRACE_S
        limit_ms = min(max(1, math.ceil(limit_s * 1000)), 0xFFFFFFFF)
        # This call is not limited by it: it takes as long as the line does.
        packed = msgpack.packb(limit_ms)
        session.call(function.id, packed, 1, name=_GUARD, timeout_s=_HELLO_TIMEOUT_S)
    wall_s = wall_timeout_s
    if wall_s is None and spec.clock.is_emulated:
        is_long = timeout_s is not None and timeout_s > default_limit_s(spec.instruction_ns)
        wall_s = max(surely_s, _WALL_S) if is_long else _WALL_S
    # A guarded emulator that prints is slower than its time_scale; its own clock decides.
    is_walls = wall_s is not None and (
        wall_s <= surely_s or (spec.clock.is_emulated and limit_s is not None)
    )
    longest_s = wall_s if wall_s is not None and is_walls else surely_s
    session.asked_s = (timeout_s, wall_timeout_s)
    session.limit(
        longest_s, limit_s=limit_s, surely_s=surely_s, wall_s=longest_s if is_walls else None
    )


def find_port(spec: BoardSpec, baud: int | None = None) -> str:
    """Return the serial port of the only board that answers: what ``auto`` stands for."""
    # Ports that other programs have open are left alone, because opening them could reset their
    # boards.
    from boardprof.wire.transport.serial import listed_ports, may_be_board

    usb = [port for port in listed_ports() if port.vid is not None]
    ports = [port.device for port in usb if may_be_board(port)]
    if len(ports) == 1:
        return ports[0]
    from concurrent.futures import ThreadPoolExecutor  # later: most ports are named

    free = [port for port in ports if not port_holders(port)]
    with activity("asking ports", len(free)), ThreadPoolExecutor(max(1, len(free))) as pool:
        names = dict(zip(free, pool.map(partial(_name_at, spec, baud), free), strict=True))
    found = [port for port, name in names.items() if name]
    if len(found) == 1:
        return found[0]
    what = spec.name or "board"
    if found:
        told = ", ".join(f"{port} ({names[port]})" for port in found)
        raise UsageError(f"Several ports have a {what}: {told}.", hint="give -p one of them")
    asked = ", ".join(ports) or "none"
    others = ", ".join(port.device for port in usb if port.device not in ports)
    apart = f" Not asked, as no known board has such a USB vendor: {others}." if others else ""
    or_name = ", or name its port" if others else ""
    raise BoardError(
        f"No serial port has a {what} whose agent answers. USB ports: {asked}.{apart}",
        hint=f"plug in the board{or_name}; `boardprof devices` shows the state of each port",
    )


def _name_at(spec: BoardSpec, baud: int | None, port: str) -> str:
    """Return the name of the board at a port; "" if it is another one, or nothing answers."""
    try:
        with open_board(spec.at_port(), Connection(port, baud, timeout_s=_ASK_S)) as board:
            return board.spec.name
    except BoardprofError:
        return ""


def open_line(
    spec: BoardSpec,
    connection: Connection = _DEFAULT,
    *,
    image: str | Path | None = None,
    timeout_s: float = _HELLO_TIMEOUT_S,
) -> tuple[Transport, Path | None]:
    """Open the line to a board, or start it, without sending anything; also return its image."""
    # ``timeout_s`` is the longest time to start the board or to connect, and then for the key.
    connection = _with_port(spec, connection)
    starts = connection.port is None
    if connection.port is None:
        check_startable(spec, connection)
    elif spec.name and connection.port.startswith("ssh://"):
        from boardprof.wire.transport.ssh import takes_image

        starts = takes_image(connection.port)
    if starts and image is None:
        from boardprof.target.build.builder import build  # later: it takes time to import

        image = build(spec).image
    path = None if image is None else Path(image)
    if path is not None:
        check_image(path, spec, _all_boards())
    if connection.port is not None:
        port = connection.port
        return open_port(spec.at_port(), port, connection, timeout_s, path), path
    assert path is not None
    return start_board(spec, path, timeout_s, connection.on_note), path


def _with_port(spec: BoardSpec, connection: Connection) -> Connection:
    """Return the connection with its port as a path or URL."""
    if connection.port is None:
        return connection
    port = port_url(connection.port)
    if port == AUTO:
        port = find_port(spec, connection.baud)
    return replace(connection, port=port)


def _all_boards() -> Iterator[BoardSpec]:
    for name in sorted(find_boards()):
        with contextlib.suppress(BoardprofError):
            yield board_spec(name)


def _other_board(name: str, wanted: str, *, is_started: bool) -> str:
    """Return what helps if the agent says that it belongs to another board than ``wanted``."""
    if name in find_boards():
        return f"give -b {name}" + ("" if is_started else ", or the port of the other board")
    if is_started:
        return f"build the firmware with the name of the board it runs on (CMake: BOARD {wanted})"
    return f"leave out -b: no board {name!r} is known here, and the port is enough"


# -- firmware from sources ---------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Firmware(BuiltFirmware):
    """An image, and the functions that it offers.

    Attributes:
        image: the program or shared library, in the cache: do not change it.
        build_id: 8 bytes, the same for the same inputs in any folder.
        functions: the user's, in order; those with a ``reason`` are not in the image's table.
        board: the board that it was built for.
        commands: the compilers' runs that were needed; empty if everything was in the cache.
        hidden: static functions, which ``keep`` would make callable: name -> source.
        libc: the C library in it, such as ``picolibc``, or ``none``; None for the system's.
        compilers: of the user's code.
        flags: of the functions, besides the board's own.
        missing: functions that are left out because they need an undefined symbol: name -> symbol.
        sources: the user's files that were compiled, and the headers that they include.
        libc_lacks: the conversions in the user's texts that the C library does not know; "" if it
            knows them all.
        unconnected: the user's handlers of interrupts that the agent uses itself.
        added: what the build took that was not asked for, such as a folder of headers, in words.
        notes: the last three in words.
    """

    _build_for: Callable[[BoardSpec], BuiltFirmware] | None = field(
        default=None, repr=False, compare=False
    )

    @classmethod
    def of(
        cls, built: BuiltFirmware, build_for: Callable[[BoardSpec], BuiltFirmware] | None = None
    ) -> Firmware:
        """Return what was built as firmware that can be opened.

        ``build_for`` builds the same for another board.
        """
        return cls(**vars(built), _build_for=build_for)

    def __repr__(self) -> str:
        """Return board, number of functions and build id."""
        number = sum(each.reason is None for each in self.functions)
        functions = f"{number} function{'' if number == 1 else 's'}"
        return f"<Firmware {self.board.name}, {functions}, build {self.build_id.hex()}>"

    def open(
        self,
        port: str | None = None,
        *,
        baud: int | None = None,
        timeout_s: float | None = None,
        wall_timeout_s: float | None = None,
        takeover: bool = False,
        clock: str | None = None,
        key_file: str | Path | None = None,
        on_console: Callable[[str], None] | None = None,
        on_note: Callable[[str], None] | None = None,
    ) -> Board:
        """Start the image and connect to it, or connect to a board that runs it already.

        Use it with ``with``: at the end of the block the session and a started emulator end.

        Args:
            port: a device path or ``socket://HOST:PORT`` where the image runs; None starts it.
            baud: as for `boardprof.connect`, like the following.
            timeout_s: longest time that a call may take, on the board's clock.
            wall_timeout_s: the same in wall time.
            takeover: take the board even if another host has it.
            clock: as for `boardprof.connect`.
            key_file: file with the key that the agent at a TCP port asks for.
            on_console: gets each line that the board prints.
            on_note: as for `boardprof.connect`.

        Raises:
            BuildMismatchError: another image runs at the port.
            BoardprofError: as `boardprof.connect`.
        """
        connection = Connection(
            port,
            baud,
            timeout_s=timeout_s,
            wall_timeout_s=wall_timeout_s,
            takeover=takeover,
            clock=clock,
            key_file=key_file,
            on_console=on_console,
            on_note=on_note,
        )
        board = open_firmware(self, connection)
        if self._build_for is not None and port is None and self.board.launch.kind == "library":
            board.stand_in = partial(_stand_in, self._build_for)
        return board


def _stand_in(build_for: Callable[[BoardSpec], BuiltFirmware]) -> Board:
    """Start functions on the board of this machine whose calls something can record."""
    specs = map(board_spec, find_boards())
    spec = next(each for each in specs if each.launch.recorder)
    return open_firmware(build_for(spec))


def build(
    *sources: str | Path,
    board: str | BoardSpec | None = None,
    optimize: str = "-O2",
    include: Sequence[str | Path] = (),
    define: Sequence[str] = (),
    cflags: str | Sequence[str] = (),
    ldflags: str | Sequence[str] = (),
    keep: Sequence[str] = (),
    libc: str = "board",
    heap: bool = False,
    verbose: Callable[[str], None] | None = None,
) -> Firmware:
    """Build firmware with the functions of some sources, or take it from the cache.

    ::

        with boardprof.build("fir.c", board="qemu-rv32").open() as board:
            print(board.profile("fir", x, h, y, 256, repeat=20).table())

    Args:
        sources: C, C++ and assembler files, folders of them, object files and static libraries.
        board: its name or description; None takes the default board.
        optimize: flags for the sources, such as ``-O3 -ffast-math``.
        include: folders for ``#include``.
        define: macros: ``NAME`` or ``NAME=VALUE``.
        cflags: more flags for the sources, as one text or in a list. Relative paths in them begin
            at the current folder.
        ldflags: flags for the linker, such as ``-L lib -lfoo``, likewise.
        keep: static functions to make callable, ``NAME`` or ``FILE:NAME``; they are compiled out
            of line.
        libc: ``board`` uses the board's C library if the code needs it, even for ``memcpy`` alone;
            ``none`` never does, and ``memcpy`` and the like are the agent's.
        heap: make malloc, calloc, realloc and free probes, for `Board.tracing`. They take a little
            longer then.
        verbose: gets each command before it runs, and compilers' warnings.

    Raises:
        UsageError: a source or folder does not exist; a macro or name is invalid.
        UnknownNameError: the board does not exist.
        MissingToolError: the board's compiler, or a library that the code needs, is not installed.
        BuildError: something does not compile or link; in plain words, then the tool's own.
    """
    options = BuildOptions(
        optimize=optimize,
        includes=tuple(include),
        defines=tuple(define),
        cflags=cflags if isinstance(cflags, str) else shlex.join(cflags),
        ldflags=ldflags if isinstance(ldflags, str) else shlex.join(ldflags),
        keep=tuple(keep),
        libc=libc,
        heap=heap,
    )
    from boardprof.target.build import builder  # later: it knows all compilers

    built = builder.build(_spec_of(board), sources, options, verbose=verbose)
    return Firmware.of(built, partial(builder.build, sources=sources, options=options))
