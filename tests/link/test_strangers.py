# SPDX-License-Identifier: Apache-2.0
"""What another user of the machine can do: connect and be refused, and read what is not private."""

from __future__ import annotations

import contextlib
import encodings.idna  # noqa: F401 (a stranger may not be able to read Python's files)
import fcntl
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from boardprof.base.errors import BusyError, UsageError
from boardprof.base.files import write_bytes, write_folder
from boardprof.base.processes import comes_from, leased, locked_folder
from boardprof.base.settings import find_settings
from boardprof.jobs.fleet.boards import Quarantine, keep_quarantine, lease_folder
from boardprof.jobs.fleet.job import ResultsFolder
from boardprof.measure.connect import connect
from boardprof.results.history.run import HistoryError
from boardprof.results.history.store import History
from boardprof.target.descriptions.board import board_spec
from boardprof.target.toolchain.cache import Cache
from boardprof.wire.transport.child import spawn_and_accept
from boardprof.wire.transport.sockets import parse_socket_url
from boardprof_protocol.codes import HELLO_MAGIC, FrameKind
from boardprof_protocol.frame import Frame, encode_frame
from boardprof_protocol.messages import HELLO
from tests.firmware import build

HOSTS = Path(__file__).parent / "fixtures" / "hosts.c"
STRANGER = 65534
OWNER = 65533
REFUSED = (
    b"boardprof: refused: another user's process. Give agent and host a key: --key-file or "
    b"BOARDPROF_KEY\n"
)

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="only root can act as another user")


def as_stranger(action: Callable[[], bytes], user: int = STRANGER) -> bytes:
    """Run ``action`` in a child of another user; return what it returns."""
    with stranger(action, user) as said:
        return said


@contextlib.contextmanager
def stranger(action: Callable[[], bytes], user: int = STRANGER) -> Iterator[bytes]:
    """Run ``action`` in a child of another user, which keeps what it has open until the end."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setresgid(user, user, user)
            os.setresuid(user, user, user)
            os.write(theirs, action())
        except BaseException as error:
            os.write(theirs, repr(error).encode())
        finally:
            os.close(theirs)
            signal.pause()
    os.close(theirs)
    try:
        with open(ours, "rb") as answer:
            yield answer.read()
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def takeover() -> bytes:
    """Return a HELLO that takes the board from whoever has it."""
    fields = {"magic": HELLO_MAGIC, "mtu": 65535, "nonce": 1, "version_min": 1, "version_max": 1}
    body = HELLO.struct.build(fields) + b"\x01" + b"stranger".ljust(32, b"\0")
    return encode_frame(Frame(FrameKind.HELLO, 4711, 0, body))


def heard(address: tuple[str, int]) -> bytes:
    """Return all that the agent says to a HELLO."""
    with socket.create_connection(address, 10) as line:
        line.settimeout(10)
        with contextlib.suppress(ConnectionError):
            line.sendall(takeover())
        answer = b""
        with contextlib.suppress(ConnectionError):
            while piece := line.recv(4096):
                answer += piece
        return answer


def gone_at_once(address: tuple[str, int]) -> bytes:
    """Say HELLO and close: a socket that its process has closed belongs to nobody."""
    for _ in range(50):
        with contextlib.suppress(ConnectionError), socket.socket() as line:
            line.connect(address)
            line.sendall(takeover())
            line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 0, 0))
    return b"done"


@contextlib.contextmanager
def listening(listen: str) -> Iterator[str]:
    """Run the agent as this user; yields its port."""
    image = build(board_spec("linux"), [HOSTS]).image
    command = [image, "--listen", listen]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline().removeprefix("listening on ").strip()
            yield f"socket://{line}"
        finally:
            process.kill()


@pytest.mark.parametrize("listen", ["127.0.0.1:0", "[::1]:0"])
def test_another_user_is_refused_and_told_why(listen: str) -> None:
    with listening(listen) as port:
        assert as_stranger(lambda: heard(parse_socket_url(port))) == REFUSED
        with connect("linux", port) as board:  # as root
            assert board.functions.count() == 1


def test_another_user_cannot_disturb_a_board_that_was_started_for_a_run() -> None:
    image = build(board_spec("linux"), [HOSTS]).image
    with connect("linux", image=image) as board:
        address = parse_socket_url(board.device.port)
        assert as_stranger(lambda: heard(address)) == REFUSED
        assert as_stranger(lambda: gone_at_once(address)) == b"done"
        assert board.functions.count() == 1


# -- the line of an emulator -----------------------------------------------------------------------


@contextlib.contextmanager
def accepted(user: int, *, stays: bool) -> Iterator[socket.socket]:
    """Give a connection that another user has made, and has closed again unless it ``stays``."""
    kept: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def come() -> bytes:
            kept.append(socket.create_connection(listener.getsockname(), 10))
            if not stays:
                kept.pop().close()
            return b"came"

        with stranger(come, user) as said:
            assert said == b"came"
            with listener.accept()[0] as connection:
                yield connection


@pytest.mark.parametrize("stays", [True, False])
def test_another_user_is_not_taken_for_an_emulator(stays: bool) -> None:
    """Who is not root cannot see what descriptors a process of another user has."""
    with accepted(STRANGER, stays=stays) as connection:

        def is_taken() -> bytes:
            return repr(comes_from(connection, os.getppid())).encode()

        told = b"False" if stays else b"None"
        assert as_stranger(is_taken, OWNER) == told
        assert is_taken() == told


def test_a_process_of_ones_own_is_taken_for_its_childs_only() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.create_connection(listener.getsockname()),
        listener.accept()[0] as connection,
        subprocess.Popen(["sleep", "60"]) as other,
    ):
        try:
            assert comes_from(connection, os.getpid())
            assert not comes_from(connection, other.pid)
        finally:
            other.kill()


BOARD = """
import socket, sys, time
time.sleep(0.5)
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as line:
    line.sendall(b"board")
    time.sleep(60)
"""


def test_an_emulator_is_heard_although_another_user_connects_before_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = socket.create_server
    with contextlib.ExitStack() as strangers:

        def create_server(address: tuple[str, int]) -> socket.socket:
            listener = made(address)

            def come() -> bytes:
                socket.create_connection(listener.getsockname(), 10).close()
                return b"came"

            assert strangers.enter_context(stranger(come)) == b"came"
            return listener

        monkeypatch.setattr(socket, "create_server", create_server)
        line = spawn_and_accept([sys.executable, "-c", BOARD, "{port}"], None, 20)
    try:
        heard = line.read(20)
    finally:
        line.close()
    assert heard == b"board"


# -- locks -----------------------------------------------------------------------------------------


def locks(place: Path) -> Callable[[], bytes]:
    """Return an action that locks a file or folder, as far as that is allowed."""

    def lock() -> bytes:
        handle = os.open(place, os.O_RDONLY)
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return b"locked"

    return lock


def test_who_can_only_read_a_folder_or_a_file_cannot_keep_it_locked(shared: Path) -> None:
    ResultsFolder(shared / "results").__exit__()
    with stranger(locks(shared)) as one, stranger(locks(shared / "results/results.jsonl")) as two:
        assert (one, two) == (b"locked", b"locked")
        began_s = time.monotonic()
        with locked_folder(shared, 20.0, "it"), ResultsFolder(shared / "results"):
            assert time.monotonic() - began_s < 5


def test_who_can_write_a_folder_or_is_its_owner_keeps_it_locked(shared: Path) -> None:
    (shared / "ours").mkdir()
    (shared / "ours").chmod(0o777)
    (shared / "theirs").mkdir()
    os.chown(shared / "theirs", STRANGER, STRANGER)
    for name in ("ours", "theirs"):
        with stranger(locks(shared / name)) as said:
            assert said == b"locked"
            with pytest.raises(BusyError), locked_folder(shared / name, 0.1, "it"):
                pass


# -- files and folders -----------------------------------------------------------------------------


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder in which everybody may make files, as in /tmp."""
    # Not in tmp_path, whose parents others may not enter.
    with tempfile.TemporaryDirectory(prefix="boardprof-tests-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.fixture
def public(shared: Path) -> Path:
    """A folder in which everybody may make files, as in /tmp."""
    shared.chmod(0o1777)
    return shared


def test_a_link_of_another_user_is_not_followed_to_a_file_of_ones_own(public: Path) -> None:
    (public / "own.json").write_text("own")
    link = public / "out.json"

    def make_link() -> bytes:
        os.symlink("own.json", link)
        return b"made"

    assert as_stranger(make_link) == b"made"
    with pytest.raises(UsageError, match=f"{link} belongs to another user"):
        write_bytes(b"new", str(link))
    assert (public / "own.json").read_text() == "own"
    os.symlink("own.json", public / "mine.json")
    write_bytes(b"new", str(public / "mine.json"))
    assert (public / "own.json").read_text() == "new"


def test_nothing_is_kept_in_a_folder_that_another_user_has_made(
    public: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Firmware in it would run as this user, and a lock could say which process to end."""
    folder = public / "theirs"

    def make_folder() -> bytes:
        folder.mkdir()
        folder.chmod(0o777)
        return b"made"

    assert as_stranger(make_folder) == b"made"
    for name in ("XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(folder))
    uses: list[Callable[[], object]] = [
        Cache,
        lease_folder,
        lambda: leased(folder / "leases", "native", 1.0).__enter__(),
        lambda: keep_quarantine("native", Quarantine("", time.time(), 1)),
        lambda: find_settings(Path("/")),
        lambda: ResultsFolder(folder / "results"),
        lambda: write_bytes(b"", str(folder / "report.json")),
        lambda: write_folder({"metadata": b""}, folder / "ctf"),
    ]
    for use in uses:
        with pytest.raises(UsageError, match=f"{folder} belongs to another user"):
            use()
    with pytest.raises(HistoryError, match=f"{folder} belongs to another user"):
        History(folder / "history.sqlite").upgrade()
    assert not [each for each in folder.rglob("*") if each.is_file()]
