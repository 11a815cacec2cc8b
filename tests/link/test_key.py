# SPDX-License-Identifier: Apache-2.0
"""Keys on TCP: what they are made of, and that nothing goes through without them (SPEC.md 9)."""

from __future__ import annotations

import contextlib
import hmac
import os
import resource
import select
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgpack
import pytest
from cffi import FFI

from boardprof.base.errors import (
    AuthenticationError,
    BoardTimeoutError,
    BusyError,
    LinkError,
    UsageError,
)
from boardprof.measure.connect import connect
from boardprof.target.descriptions.board import BoardSpec, board_spec
from boardprof.wire.transport.keyed import Opener, SealedTransport, Sealer, derive, read_key, seal
from boardprof.wire.transport.sockets import connect_socket, stream_of
from boardprof_protocol.codes import HELLO_MAGIC, FrameKind
from boardprof_protocol.frame import Frame, FrameDecoder, encode_frame
from boardprof_protocol.messages import HELLO, WELCOME
from tests.cli.command import boardprof, ended, offspring, wait_until
from tests.firmware import build
from tests.link.peers import peer, running_agent, unprivileged
from tests.support import (
    AGENT,
    WARNINGS,
    awake,
    requires_compiler,
    requires_tool,
    run,
    unhex,
    vectors,
)

HOSTS = Path(__file__).parent / "fixtures" / "hosts.c"
KEY = b"a key of more than 16 bytes"
OTHER = b"another key of 16 bytes and more"

DERIVED = [vector for vector in vectors("key") if "mac" in vector]
GOOD = [vector for vector in vectors("key") if "payload" in vector and "error" not in vector]
BAD = [vector for vector in vectors("key") if "error" in vector]


def named(found: list[dict[str, Any]]) -> list[Any]:
    return [pytest.param(vector, id=vector["name"]) for vector in found]


# -- vectors, on the host ---------------------------------------------------------------------


@pytest.mark.parametrize("vector", named(DERIVED))
def test_proofs_and_keys_are_derived_as_the_vectors_say(vector: dict[str, Any]) -> None:
    nonces = unhex(vector["nonces"])
    made = derive(unhex(vector["key"]), vector["label"].encode(), nonces[:16], nonces[16:])
    assert made == unhex(vector["mac"])


@pytest.mark.parametrize("vector", named(GOOD))
def test_a_record_is_made_and_read_as_the_vectors_say(vector: dict[str, Any]) -> None:
    sealer, opener = Sealer(unhex(vector["key"])), Opener(unhex(vector["key"]))
    sealer._counter = opener._counter = vector["counter"]
    record = unhex(vector["hex"])
    assert sealer.seal(unhex(vector["payload"])) == record
    assert b"".join(opener.open(bytes([byte])) for byte in record) == unhex(vector["payload"])


@pytest.mark.parametrize("vector", named(BAD))
def test_a_record_that_is_not_authentic_is_refused(vector: dict[str, Any]) -> None:
    opener = Opener(unhex(vector["key"]))
    opener._counter = vector["counter"]
    with pytest.raises(LinkError, match="A record is not authentic"):
        opener.open(unhex(vector["hex"]))


# -- vectors, on the board --------------------------------------------------------------------


@pytest.fixture(scope="module")
def c(tmp_path_factory: pytest.TempPathFactory) -> tuple[FFI, Any]:
    """The agent's bp_key.c and bp_hmac.c as a library."""
    compiler = requires_compiler("gcc")
    folder = tmp_path_factory.mktemp("key")
    sources = [AGENT / "arch/posix/bp_key.c", AGENT / "arch/posix/bp_hmac.c", AGENT / "src/bp_le.c"]
    includes = [f"-I{AGENT / 'include'}", f"-I{AGENT / 'arch/posix'}"]
    library = folder / "key.so"
    run([compiler, *WARNINGS, "-shared", "-fPIC", *includes, *sources, "-o", library])
    ffi = FFI()
    ffi.cdef(
        """
        typedef struct { size_t length; uint8_t bytes[1024]; } bp_key_t;
        typedef struct { uint8_t key[32]; uint64_t counter; } bp_seal_t;
        int bp_key_load(bp_key_t *key, const char *file);
        void bp_key_derive(const bp_key_t *key, const char *label, const uint8_t *nonces,
                           uint8_t *mac);
        void bp_hmac(const uint8_t *key, size_t key_length, const uint8_t *data, size_t length,
                     uint8_t *mac);
        size_t bp_seal_close(bp_seal_t *seal, uint8_t *buffer, size_t length);
        bool bp_seal_open(bp_seal_t *seal, uint8_t *buffer, size_t length);
        """
    )
    loaded = ffi.dlopen(str(library))
    key_file = written(folder / "key", KEY + b"\n")
    key = ffi.new("bp_key_t *")
    assert loaded.bp_key_load(key, str(key_file).encode()) == 0  # type: ignore[attr-defined]
    assert bytes(key.bytes[0 : key.length]) == KEY
    return ffi, loaded


@pytest.mark.parametrize("key", [1, 63, 64, 65, 131, 1024])
def test_the_agents_hmac_is_openssls_for_each_length_around_a_block(
    c: tuple[FFI, Any], key: int
) -> None:
    ffi, library = c
    mac = ffi.new("uint8_t[32]")
    for length in (*range(130), 70_000):
        secret, data = bytes(range(256)) * 4, bytes(range(251)) * 300
        library.bp_hmac(secret[:key], key, data[:length], length, mac)
        assert bytes(mac) == hmac.digest(secret[:key], data[:length], "sha256")


@pytest.mark.parametrize("vector", named(DERIVED))
def test_the_agent_derives_proofs_and_keys_as_the_vectors_say(
    c: tuple[FFI, Any], vector: dict[str, Any]
) -> None:
    ffi, library = c
    key, mac = ffi.new("bp_key_t *"), ffi.new("uint8_t[32]")
    key.length = len(unhex(vector["key"]))
    key.bytes[0 : key.length] = unhex(vector["key"])
    library.bp_key_derive(
        key, b"boardprof-key-1 " + vector["label"].encode(), unhex(vector["nonces"]), mac
    )
    assert bytes(mac) == unhex(vector["mac"])


@pytest.mark.parametrize("vector", named(GOOD))
def test_the_agent_makes_and_reads_a_record_as_the_vectors_say(
    c: tuple[FFI, Any], vector: dict[str, Any]
) -> None:
    ffi, library = c
    payload, record = unhex(vector["payload"]), unhex(vector["hex"])
    way = ffi.new("bp_seal_t *", {"key": unhex(vector["key"]), "counter": vector["counter"]})
    buffer = ffi.new("uint8_t[]", bytes(10) + payload + bytes(16))
    assert library.bp_seal_close(way, buffer, len(payload)) == len(record)
    assert bytes(buffer)[8 : 8 + len(record)] == record
    assert way.counter == vector["counter"] + 1
    way.counter = vector["counter"]
    assert library.bp_seal_open(way, buffer, len(payload))


@pytest.mark.parametrize("vector", named([v for v in BAD if v["error"] == "tag"]))
def test_the_agent_refuses_a_record_that_is_not_authentic(
    c: tuple[FFI, Any], vector: dict[str, Any]
) -> None:
    ffi, library = c
    record = unhex(vector["hex"])
    way = ffi.new("bp_seal_t *", {"key": unhex(vector["key"]), "counter": vector["counter"]})
    buffer = ffi.new("uint8_t[]", bytes(8) + record)
    assert not library.bp_seal_open(way, buffer, len(record) - 18)


# -- where a key comes from -------------------------------------------------------------------


def written(path: Path, content: bytes, mode: int = 0o600) -> Path:
    path.write_bytes(content)
    path.chmod(mode)
    return path


@pytest.mark.parametrize(
    ("content", "key"),
    [
        (b"0123456789abcdef", b"0123456789abcdef"),
        (b"0123456789abcdef\n", b"0123456789abcdef"),
        (b"0123456789abcdef\r\n", b"0123456789abcdef"),
        (b"0123456789abcde \n", b"0123456789abcde "),
        (b"k" * 1024 + b"\n", b"k" * 1024),
    ],
)
def test_a_key_is_the_files_content_without_the_lines_end(
    tmp_path: Path, content: bytes, key: bytes
) -> None:
    assert read_key(written(tmp_path / "key", content)) == key


def test_a_key_may_come_from_the_environment_and_a_file_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BOARDPROF_KEY", raising=False)
    assert read_key(None) is None
    monkeypatch.setenv("BOARDPROF_KEY", "0123456789abcdef")
    assert read_key(None) == b"0123456789abcdef"
    assert read_key(written(tmp_path / "key", KEY)) == KEY


FAULTY_KEYS = [
    pytest.param(None, 0o600, "cannot be read: No such file", "No such file", id="missing"),
    pytest.param(KEY, 0o640, "can be read by others", "can be read by others", id="group"),
    pytest.param(KEY, 0o604, "can be read by others", "can be read by others", id="world"),
    pytest.param(
        b"k" * 15 + b"\n",
        0o600,
        "has 15 bytes; it must have 16 to 1024",
        "is too short",
        id="short",
    ),
    pytest.param(
        b"k" * 1025, 0o600, "over 1024 bytes; it must have 16 to 1024", "is too long", id="long"
    ),
]


@pytest.mark.parametrize(("content", "mode", "hosts", "agents"), FAULTY_KEYS)
def test_a_key_file_that_will_not_do_is_2_with_what_is_wrong(
    tmp_path: Path, content: bytes | None, mode: int, hosts: str, agents: str
) -> None:
    file = tmp_path / "key"
    if content is not None:
        written(file, content, mode)
    with peer(lambda connection: None) as port:
        for command in (["info", "-p", port], ["agent", "serve"]):
            done = boardprof(*command, "-b", "linux", "--key-file", file)
            assert (done.code, done.out) == (2, "")
            assert str(file) in done.err
            assert hosts in done.err
            assert "\nTry: " in done.err
    own = run_agent("--key-file", str(file))
    assert (own.returncode, own.stdout) == (3, "")
    assert own.stderr.startswith(f"boardprof: the key {file} ")
    assert agents in own.stderr


def run_agent(*options: str, key: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run the agent without our command, to its end."""
    environment = {name: value for name, value in os.environ.items() if name != "BOARDPROF_KEY"}
    return subprocess.run(
        [build(board_spec("linux"), [HOSTS]).image, "--listen", "127.0.0.1:0", *options],
        env=environment if key is None else {**environment, "BOARDPROF_KEY": key},
        capture_output=True,
        text=True,
        timeout=10,
        check=False,
    )


def test_a_short_key_in_the_environment_is_2() -> None:
    short = {"BOARDPROF_KEY": "short"}
    with peer(lambda connection: None) as port:
        for command in (["info", "-p", port], ["agent", "serve"]):
            done = boardprof(*command, "-b", "linux", environment=short)
            assert (done.code, done.out) == (2, "")
            assert "The key in BOARDPROF_KEY has 5 bytes; it must have 16 to 1024." in done.err
    own = run_agent(key="short")
    assert (own.returncode, own.stdout) == (3, "")
    assert own.stderr == "boardprof: the key in BOARDPROF_KEY is too short: 16 bytes at least\n"


def test_no_option_takes_the_key_itself() -> None:
    for command in (["info"], ["run"], ["agent", "serve"]):
        assert "--key " not in boardprof(*command, "--help").out
        assert "--key-file PATH" in boardprof(*command, "--help").out


def test_a_serial_port_has_no_key() -> None:
    with pytest.raises(UsageError, match="/dev/ttyX is a serial port, which has no key"):
        connect("linux", "/dev/ttyX", key_file="key")


# -- host and agent ---------------------------------------------------------------------------


@contextlib.contextmanager
def keyed_agent(
    folder: Path, key: bytes = KEY, spec: BoardSpec | None = None
) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """Run an agent that asks for a key; yields process, with its stderr, and port."""
    image = build(spec or board_spec("linux"), [HOSTS]).image
    file = written(folder / "agents-key", key)
    command = [image, "--listen", "127.0.0.1:0", "--key-file", str(file)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline().decode()
            yield process, f"socket://{line.removeprefix('listening on ').strip()}"
        finally:
            process.kill()


def said(process: subprocess.Popen[bytes]) -> str:
    """Return what an agent says next on its stderr."""
    assert process.stderr is not None
    ready, _, _ = select.select([process.stderr], [], [], 10)
    return os.read(process.stderr.fileno(), 4096).decode() if ready else ""


def test_with_the_key_everything_goes_as_without(tmp_path: Path) -> None:
    key = written(tmp_path / "key", KEY + b"\n")
    with keyed_agent(tmp_path) as (_, port):
        with connect("linux", port, key_file=key) as board:
            assert board.functions.rest(7) == 7
            block = board.memory.alloc(300_000)
            content = bytes(range(251)) * 1000
            board.memory.write(block, content)
            assert board.memory.read(block, len(content)) == content
            with pytest.raises(BusyError, match="is in use by"):
                connect("linux", port, key_file=key)
            with connect("linux", port, key_file=key, takeover=True) as other:
                with pytest.raises(BusyError, match=r"took over the board at .*: "):
                    board.functions.rest(0)
                assert other.functions.rest(1) == 1
        done = boardprof("info", "-b", "linux", "-p", port, "--key-file", key)
        assert done.code == 0, done.err
        environment = {"BOARDPROF_KEY": KEY.decode()}
        done = boardprof("info", "-b", "linux", "-p", port, environment=environment)
        assert done.code == 0, done.err


def test_a_host_without_the_key_is_told_that_there_is_one(tmp_path: Path) -> None:
    with keyed_agent(tmp_path) as (process, port):
        done = boardprof("info", "-b", "linux", "-p", port)
        assert (done.code, done.out) == (3, "")
        assert done.err == (
            f"error: The agent at {port} asks for a key.\n"
            "Try: give --key-file PATH, or set BOARDPROF_KEY in the environment\n"
        )
        assert said(process).endswith(" was cut off: it showed no key\n")


def test_a_host_with_another_key_is_refused(tmp_path: Path) -> None:
    key = written(tmp_path / "key", OTHER)
    with keyed_agent(tmp_path) as (process, port):
        with pytest.raises(AuthenticationError) as caught:
            connect("linux", port, key_file=key)
        assert caught.value.exit_code == 3
        assert str(caught.value) == (
            f"The agent at {port} has a different key.\n"
            "Try: give the key that the agent was started with"
        )
        assert said(process).endswith(" was cut off: its key is another one\n")


def test_a_key_that_nobody_asks_for_is_told(tmp_path: Path) -> None:
    key = written(tmp_path / "key", KEY)
    with running_agent(HOSTS) as (_, port):
        with pytest.raises(
            AuthenticationError, match=rf"The agent at {port} does not ask for a key: "
        ):
            connect("linux", port, key_file=key, timeout_s=0.5)
        with connect("linux", port) as board:
            assert board.functions.rest(0) == 0


def test_an_agent_that_asks_for_the_key_and_then_hangs_is_5(tmp_path: Path) -> None:
    key = written(tmp_path / "key", KEY)

    def hangs(connection: socket.socket) -> None:
        connection.sendall(b"boardprof-key-1 " + b"0" * 32 + b"\n")
        while connection.recv(4096):
            pass

    with peer(hangs) as port, pytest.raises(BoardTimeoutError) as caught:
        connect("linux", port, key_file=key, timeout_s=0.3)
    assert str(caught.value) == (
        f"The agent at {port} asked for the key, then sent nothing more for 0.3 s.\n"
        "Try: check whether the agent hangs, and connect again"
    )


def test_a_peer_that_speaks_otherwise_is_quoted(tmp_path: Path) -> None:
    key = written(tmp_path / "key", KEY)

    def other(connection: socket.socket) -> None:
        connection.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")
        connection.recv(1)

    with (
        peer(other) as port,
        pytest.raises(
            LinkError, match=r"not a boardprof agent with a key: it said 'SSH-2\.0-Open"
        ) as caught,
    ):
        connect("linux", port, key_file=key)
    assert caught.value.exit_code == 4


@pytest.mark.parametrize("proof", ["00" * 32, "the host's own"])
def test_an_agent_that_does_not_know_the_key_is_found_out(tmp_path: Path, proof: str) -> None:
    key = written(tmp_path / "key", KEY)

    def impostor(connection: socket.socket) -> None:
        connection.sendall(b"boardprof-key-1 " + b"5a" * 16 + b"\n")
        response = connection.recv(4096).decode()
        shown = proof if proof[:2] == "00" else response.split()[2]
        connection.sendall(f"boardprof-key-1 {shown}\n".encode())
        connection.recv(1)

    with (
        peer(impostor) as port,
        pytest.raises(AuthenticationError, match=rf"The program at {port} does not know the key"),
    ):
        connect("linux", port, key_file=key)


def test_a_board_that_the_host_starts_itself_asks_for_no_key() -> None:
    environment = {"BOARDPROF_KEY": KEY.decode()}
    done = boardprof("info", "-b", "linux", environment=environment)
    assert done.code == 0, done.err


def test_an_agent_that_has_read_its_key_leaves_it_nowhere_in_its_environment(
    tmp_path: Path,
) -> None:
    image = build(board_spec("linux"), [HOSTS]).image
    environment = {**os.environ, "BOARDPROF_KEY": KEY.decode()}
    with subprocess.Popen([image], stdout=subprocess.PIPE, env=environment) as process:
        try:
            assert process.stdout is not None
            port = process.stdout.readline().decode().removeprefix("listening on ").strip()
            key = written(tmp_path / "key", KEY)
            with connect("linux", f"socket://{port}", key_file=key) as board:
                assert board.functions.rest(0) == 0
                for pid in (process.pid, *offspring(process.pid)):
                    assert KEY not in Path(f"/proc/{pid}/environ").read_bytes()
        finally:
            process.kill()


# -- attacks on the line ----------------------------------------------------------------------


@contextlib.contextmanager
def sealed_line(port: str) -> Iterator[tuple[socket.socket, SealedTransport]]:
    connection = connect_socket(port, 10.0)
    line = seal(stream_of(connection, port), KEY, 10.0)
    try:
        yield connection, line
    finally:
        line.close()


def hello(session: int) -> bytes:
    fields = {"magic": HELLO_MAGIC, "version_min": 1, "version_max": 1, "mtu": 65535, "nonce": 1}
    return encode_frame(Frame(FrameKind.HELLO, session, 0, HELLO.struct.build(fields)))


def emptied(line: SealedTransport) -> None:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        line.read(deadline - time.monotonic())


def welcomed(line: SealedTransport) -> bool:
    found = list(FrameDecoder().feed(line.read(10.0)))
    return [frame.kind for frame in found] == [FrameKind.WELCOME]


def repeated(record: bytes, sealer: Sealer) -> list[bytes]:
    return [record, record]


def reordered(record: bytes, sealer: Sealer) -> list[bytes]:
    return [record, sealer.seal(b"\0") and sealer.seal(b"\0")]


def flipped(record: bytes, sealer: Sealer) -> list[bytes]:
    return [record[:5] + bytes([record[5] ^ 1]) + record[6:]]


def flipped_tag(record: bytes, sealer: Sealer) -> list[bytes]:
    return [record[:-1] + bytes([record[-1] ^ 0x80])]


def flipped_length(record: bytes, sealer: Sealer) -> list[bytes]:
    return [bytes([record[0] - 1]) + record[1:]]


def forged(record: bytes, sealer: Sealer) -> list[bytes]:
    return [Sealer(OTHER).seal(hello(9))]


def unsealed(record: bytes, sealer: Sealer) -> list[bytes]:
    return [hello(9) * 3000]  # more than the longest record


def empty(record: bytes, sealer: Sealer) -> list[bytes]:
    return [bytes(18)]


Attack = Callable[[bytes, Sealer], list[bytes]]
ATTACKS = [repeated, reordered, flipped, flipped_tag, flipped_length, forged, unsealed, empty]


@pytest.fixture(scope="module")
def attacked(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    with keyed_agent(tmp_path_factory.mktemp("attacked")) as found:
        yield found


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_attack_ends_the_line_and_is_told_on_the_agents_side(
    attacked: tuple[subprocess.Popen[bytes], str], attack: Attack
) -> None:
    process, port = attacked
    with sealed_line(port) as (connection, line):
        records = attack(line._sealer.seal(hello(7)), line._sealer)
        for record in records[:-1]:
            connection.sendall(record)
            assert welcomed(line)
        connection.sendall(records[-1])
        with pytest.raises(LinkError, match=r"The connection to .* is lost"):
            emptied(line)
        address = connection.getsockname()
        assert said(process) == (
            f"boardprof: the host at 127.0.0.1 port {address[1]} was cut off: a record is not "
            "authentic (damaged, forged, repeated or out of order)\n"
        )
    with sealed_line(port) as (_, line):  # and the next host finds a board
        line.write(hello(8), 10.0)
        assert welcomed(line)


def test_what_was_said_to_one_agent_opens_no_other(tmp_path: Path) -> None:
    """A recorded handshake does not fit the nonce of the next connection."""
    with keyed_agent(tmp_path) as (process, port):
        first = connect_socket(port, 10.0)
        greeting = first.recv(4096)
        agent_nonce = bytes.fromhex(greeting.split()[1].decode())
        proof = derive(KEY, b"host", agent_nonce, bytes(16))
        response = b"boardprof-key-1 %s %s\n" % (bytes(16).hex().encode(), proof.hex().encode())
        first.sendall(response)
        assert len(first.recv(4096)) == 16 + 64 + 1
        first.close()
        second = connect_socket(port, 10.0)
        assert second.recv(4096) != greeting
        second.sendall(response)
        assert second.recv(4096) == b"boardprof-key-1 refused\n"
        second.close()
        assert said(process).endswith(" was cut off: its key is another one\n")


def test_a_response_that_is_not_hexadecimal_shows_no_key(tmp_path: Path) -> None:
    with keyed_agent(tmp_path) as (process, port), connect_socket(port, 10.0) as line:
        assert len(line.recv(4096)) == 16 + 32 + 1
        line.sendall(b"boardprof-key-1 " + b"0" * 31 + b"g " + b"0" * 64 + b"\n")
        assert line.recv(4096) == b"boardprof-key-1 refused\n"
        assert said(process).endswith(" was cut off: it showed no key\n")


def test_hosts_that_show_no_key_have_no_more_processes_than_may_wait(tmp_path: Path) -> None:
    key = written(tmp_path / "key", KEY)
    with keyed_agent(tmp_path) as (process, port), contextlib.ExitStack() as lines:
        for _ in range(40):
            line = lines.enter_context(connect_socket(port, 10.0))
            assert line.recv(16) == b"boardprof-key-1 "
        # The doorman, and 16 connections whose HELLO has not come.
        wait_until(lambda: len(offspring(process.pid)) == 1 + 16, "the others have been let go")
        with connect("linux", port, key_file=key) as board:
            assert board.functions.rest(0) == 0


def test_a_refusal_is_told_at_once_though_the_host_goes_on_talking(tmp_path: Path) -> None:
    with (
        keyed_agent(tmp_path) as (process, port),
        connect_socket(port, 10.0) as line,
        awake() as elapsed_s,
    ):
        line.sendall(b"GET / HTTP/1.0\r\n")
        assert said(process).endswith(" was cut off: it showed no key\n")
        assert elapsed_s() < 0.9


def test_a_damaged_record_from_the_agent_is_told_by_the_host() -> None:
    sealer, opener = Sealer(KEY), Opener(KEY)
    record = bytearray(sealer.seal(b"\0frame\0"))
    record[4] ^= 4
    with pytest.raises(LinkError) as caught:
        opener.open(bytes(record))
    assert caught.value.exit_code == 4


def test_a_host_that_comes_while_the_line_of_the_one_before_is_ending_gets_the_board(
    tmp_path: Path,
) -> None:
    """That end passes through a sealer, which may take 20 ms; this one is held up for 5 ms."""
    with keyed_agent(tmp_path) as (process, port):
        doorman = doorman_of(process)

        def gets_the_board(session: int) -> bool:
            with sealed_line(port) as (_, old):
                old.write(hello(session), 10.0)
                assert welcomed(old)
                sealer = sealer_of(process, [doorman])
                with sealed_line(port) as (_, new):
                    os.kill(sealer, signal.SIGSTOP)
                    old.close()
                    new.write(hello(session + 1), 10.0)
                    time.sleep(0.005)
                    os.kill(sealer, signal.SIGCONT)
                    found = list(FrameDecoder().feed(new.read(10.0)))
            wait_until(lambda: offspring(process.pid) == [doorman], "both sealers have ended")
            return [frame.kind for frame in found] == [FrameKind.WELCOME]

        # On a busy machine a process may not run for 20 ms.
        assert any(gets_the_board(session) for session in range(10, 30, 2))


# -- few resources ----------------------------------------------------------------------------


def doorman_of(process: subprocess.Popen[bytes]) -> int:
    """Return the agent's doorman; nobody is connected yet."""
    wait_until(lambda: offspring(process.pid) != [], "the doorman has begun")
    (doorman,) = offspring(process.pid)
    return doorman


def limit(pid: int, what: str, most: int, **options: Any) -> None:
    """Set a soft limit of a process, by a program that ``options`` may run as its user."""
    command = [requires_tool("prlimit", "util-linux"), f"--pid={pid}", f"--{what}={most}:"]
    subprocess.run(command, check=True, timeout=10, **options)


def test_a_host_for_whom_no_sealer_can_start_is_hung_up_on_and_the_next_one_is_served() -> None:
    """Descriptors 0 to 4 are enough for the connection, and not for two more; then no fork()."""
    image = build(board_spec("linux"), [HOSTS]).image
    environment = {**os.environ, "BOARDPROF_KEY": KEY.decode()}
    with (
        unprivileged(image) as (copy, options),
        subprocess.Popen([copy], stdout=subprocess.PIPE, env=environment, **options) as process,
    ):
        try:
            address = process.stdout.readline().decode().removeprefix("listening on ").strip()
            doorman = doorman_of(process)
            descriptors = os.listdir(f"/proc/{doorman}/fd")
            for what, kind, most in (
                ("nofile", resource.RLIMIT_NOFILE, 5),
                ("nproc", resource.RLIMIT_NPROC, 0),
            ):
                limit(doorman, what, most, **options)
                with connect_socket(f"socket://{address}", 10.0) as line:
                    assert line.recv(1) == b""
                # The host hears of the end before the doorman has closed the last of its own.
                wait_until(
                    lambda: os.listdir(f"/proc/{doorman}/fd") == descriptors,
                    f"the doorman has no descriptor left of a host that met {what}={most}",
                )
                limit(doorman, what, resource.getrlimit(kind)[0], **options)
                with sealed_line(f"socket://{address}") as (_, sealed):
                    sealed.write(hello(most + 1), 10.0)
                    assert welcomed(sealed)
        finally:
            process.kill()


def sealer_of(process: subprocess.Popen[bytes], others: list[int]) -> int:
    """Return the process of the newest line."""
    (sealer,) = set(offspring(process.pid)) - set(others)
    return sealer


def test_a_sealer_whose_poll_fails_ends_with_its_line_and_no_other(tmp_path: Path) -> None:
    """poll(2) takes no more entries than RLIMIT_NOFILE: two are too many then."""
    with keyed_agent(tmp_path) as (process, port):
        doorman = doorman_of(process)
        with connect_socket(port, 10.0) as fresh:  # before the handshake
            assert fresh.recv(16) == b"boardprof-key-1 "
            fresh.settimeout(3.0)  # without a key it would be cut off after 10 s anyway
            limit(sealer_of(process, [doorman]), "nofile", 1)
            fresh.sendall(b"b")
            while fresh.recv(64):
                pass
        with sealed_line(port) as (_, line):
            line.write(hello(7), 10.0)
            assert welcomed(line)
            sealer = sealer_of(process, [doorman])
            limit(sealer, "nofile", 1)
            line.write(b"\0", 10.0)
            with pytest.raises(LinkError, match=r"The connection to .* is lost"):
                emptied(line)
            wait_until(lambda: ended(sealer), "the sealer has ended")
        with sealed_line(port) as (_, line):
            line.write(hello(8), 10.0)
            assert welcomed(line)


def fill(line: SealedTransport, data: bytes) -> None:
    """Write until nothing has moved for 0.2 s."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        line.write(data, 0.2)


def test_a_sealer_ends_when_its_host_is_gone_though_the_board_takes_no_more(
    tmp_path: Path,
) -> None:
    with keyed_agent(tmp_path) as (process, port):
        doorman = doorman_of(process)
        with sealed_line(port) as (connection, line):
            line.write(hello(7), 10.0)
            assert welcomed(line)
            sealer = sealer_of(process, [doorman])
            process.send_signal(signal.SIGSTOP)
            with pytest.raises(BoardTimeoutError):
                fill(line, bytes(16384))
            # SO_LINGER with 0 s: the line is reset, and the board's end stays full.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        wait_until(lambda: ended(sealer), "the sealer has ended", 5.0)
        process.send_signal(signal.SIGCONT)
        with sealed_line(port) as (_, line):
            line.write(hello(8), 10.0)
            assert welcomed(line)


def unread(agents: int, hosts: int) -> int:
    """Return the bytes from the agent's port that the host's has no room for (proc_net_tcp)."""
    rows = [row.split() for row in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    ends = f"0100007F:{agents:04X}", f"0100007F:{hosts:04X}"
    (queues,) = (row[4] for row in rows if (row[1], row[2]) == ends)
    return int(queues.partition(":")[0], 16)


def test_a_sealer_gives_a_host_that_reads_nothing_one_second_after_the_board_has_gone(
    tmp_path: Path,
) -> None:
    with keyed_agent(tmp_path) as (process, port):
        doorman = doorman_of(process)
        with sealed_line(port) as (connection, line):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            sealer = sealer_of(process, [doorman])
            line.write(hello(7), 10.0)
            (welcome,) = FrameDecoder().feed(line.read(10.0))
            number = WELCOME.struct.parse(welcome.body).last_sequence + 1
            body = msgpack.packb([2, 60_000])  # bp.alloc
            line.write(encode_frame(Frame(FrameKind.CALL, 7, number, body)), 10.0)
            (result,) = FrameDecoder().feed(line.read(10.0))
            body = msgpack.packb([4, msgpack.unpackb(result.body), 0, 60_000])  # bp.read
            # Each repetition is answered again, until nobody has room for more.
            line.write(encode_frame(Frame(FrameKind.CALL, 7, number + 1, body)) * 200, 10.0)
            ports = connection.getpeername()[1], connection.getsockname()[1]
            counts = [-1, 0]
            while len(set(counts[-6:])) > 1:
                time.sleep(0.05)
                counts.append(unread(*ports))
            assert counts[-1] > 1_000_000
            process.kill()
            process.wait(10.0)
            begin = time.monotonic()
            wait_until(lambda: ended(doorman), "the doorman has ended", 5.0)
            assert not ended(sealer)
            wait_until(lambda: ended(sealer), "the sealer has ended", 5.0)
            assert 0.5 < time.monotonic() - begin < 2.5


# -- beyond loopback --------------------------------------------------------------------------

NOWHERE = "192.0.2.1:0"
"""TEST-NET-1 (RFC 5737): no machine has it, so that nothing ever listens there."""


def test_beyond_loopback_an_agent_listens_with_a_key_only(tmp_path: Path) -> None:
    command = ["agent", "serve", "-b", "linux", "--listen", NOWHERE]
    done = boardprof(*command)
    assert (done.code, done.out) == (2, "")
    assert "only loopback (127.x.y.z, [::1]) is allowed without a key; give a key by" in done.err
    key = written(tmp_path / "key", KEY)
    done = boardprof(*command, "--key-file", str(key))
    assert (done.code, done.out) == (3, "")
    assert f"cannot listen on '{NOWHERE}': Cannot assign requested address" in done.err


def test_an_agent_serves_ipv6_loopback(tmp_path: Path) -> None:
    image = build(board_spec("linux"), [HOSTS]).image
    command = [str(image), "--listen", "[::1]:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        try:
            assert line.startswith("listening on [::1]:")
            with connect("linux", f"socket://{line.split()[2]}") as board:
                assert board.functions.rest(0) == 0
        finally:
            process.kill()


def test_a_host_that_an_agent_refuses_as_another_users_is_told_so() -> None:
    def refuse(line: socket.socket) -> None:
        line.sendall(b"boardprof: refused: another user's process. Give agent and host a key\n")

    with peer(refuse) as port:
        with pytest.raises(AuthenticationError, match="belongs to another user") as caught:
            connect("linux", port)
        assert caught.value.exit_code == 3
