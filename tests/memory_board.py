# SPDX-License-Identifier: Apache-2.0
"""The real C agent in this process, on a board that is nothing but memory (tests/c)."""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgpack
from cffi import FFI

from boardprof_protocol.codes import HELLO_MAGIC, ErrorCode, FrameKind
from boardprof_protocol.collectors import collector_layouts
from boardprof_protocol.frame import Frame, FrameDecoder, encode_frame
from boardprof_protocol.messages import HELLO, WELCOME
from tests.support import (
    AGENT,
    C_TESTS,
    WARNINGS,
    agent_sources,
    built_once,
    defines,
    requires_tool,
    wire_structs,
)

__all__ = [
    "CHANNELS",
    "COLLECTORS",
    "FULL",
    "SMALLEST",
    "AgentBoard",
    "BoardError",
    "MemoryBoard",
    "Welcomed",
]
__all__ += ["blob_counts", "build_library", "read_frames"]

FULL = {
    "BP_CFG_ARENA": 4096,
    "BP_CFG_HANDLES": 4,
    "BP_CFG_OPEN_WINDOWS": 4,
    "BP_CFG_CRC_TABLE": 1,
}
CHANNELS = {**FULL, "BP_CFG_BULK": 256, "BP_CFG_STREAM": 1024, "BP_CFG_CLOCK": 1}
SMALLEST: dict[str, int] = {}

_TYPES = tuple(layout.name for layout in collector_layouts())

COLLECTORS: tuple[str, ...] = (
    "cycles32",
    "cycles_instret",
    "linux_clock",
    "linux_faults",
    "linux_perf",
    "papi",
)
COLLECTORS += ("ticks",)
"""Those that run in this process, and whose state is the struct of their blob: the others read
registers that this machine lacks, or have a register block of their own in their tests."""

_MESSAGES: tuple[str, ...] = ("hello", "claim", "welcome", "busy", "data", "ack", "span")
_MESSAGES += ("span_copy", "place", "token", "sample32", "sample64", "blob_header")
_MESSAGES += ("trace_block", "trace_slot", "trace_kept")

_CDEF = """
typedef union { uint64_t u; int64_t i; double f; } test_value_t;
void test_boot(void);
void test_run(void);
size_t test_poll(void);
void test_feed(const uint8_t *bytes, size_t length);
void test_feed_at(const uint8_t *bytes, size_t length, char at, uint32_t after);
size_t test_waiting(void);
void test_stream_at(uint32_t offset);
size_t bp_stream_write(const void *record, size_t length);
size_t test_take(uint8_t *out, size_t capacity);
uint32_t bp_crc32(uint32_t crc, const uint8_t *bytes, size_t length);
size_t test_frame_encode(uint8_t *out, uint8_t kind, uint16_t session, uint32_t sequence,
                         const uint8_t *body, size_t length);
int test_frame_decode(uint8_t *raw, const uint8_t *wire, size_t length);
int test_arg(int type, const uint8_t *in, size_t in_length, uint8_t argc, int8_t err,
             test_value_t *out, uint8_t *bytes, size_t *length);
int test_ret(int type, uint8_t *out, size_t capacity, const test_value_t *value,
             const uint8_t *bytes, size_t length);
extern uint32_t test_counted, test_worked, test_coarse, test_boots;
extern int test_check_after;
extern bool test_log_writes;
extern size_t test_read_most;
extern uint32_t test_recorded;
extern uint64_t test_ticks, test_ticks_step;
extern uint64_t test_cycles, test_cycles_step, test_instructions, test_instructions_step;
extern char test_log[1024];
extern size_t test_logged;
extern uint8_t *test_stack_limit;
extern char test_trap_at;
extern uint8_t test_trap_cause;
extern uint32_t test_trap_after, test_guard_ms;
extern uint32_t test_call_ticks, test_timer;
extern bool test_strays, test_switches_within, test_schedules;
void bp_task_switched(const void *task);
void bp_task_add(const void *task, const char *name, const void *stack, size_t bytes, int fill);
void bp_task_rename(const void *task, const char *name);
void bp_task_remove(const void *task);
extern uint64_t test_trap_pc, test_trap_address;
extern volatile uint32_t bp_tracing;
extern uintptr_t test_locks;
extern uint32_t test_interrupted;
void test_interrupts(bool on);
extern uint32_t bp_trace_words[];
void test_mark(void);
void test_value(int32_t value);
void test_begin(void);
void test_end(void);
void test_shared(void);
void test_shared_too(void);
void test_alloc(uint32_t block, uint32_t bytes);
void test_task(uint64_t task);
void bp_heap_taken(const void *block, size_t bytes, size_t held, const void *caller);
void bp_heap_given(const void *block, size_t held);
void bp_heap_replaced(const void *old, size_t old_held, const void *block, size_t bytes,
                      size_t held, const void *caller);
void test_names(void);
void test_wide_mark(void);
void test_wide_value(uint32_t value);
void test_wide_range(void);
void test_events(uint32_t first, uint32_t count);
void test_core_events(uint32_t core, uint32_t first, uint32_t count, uint64_t *times);
extern uint64_t test_core_offset[8];
extern int64_t test_core_apart[8];
extern uint64_t test_cycles_per_tick;
uint8_t *test_ring(uint32_t core);
size_t test_ring_bytes(void);
"""


def build_library(config: dict[str, int]) -> tuple[FFI, Any]:
    """Compile the agent with its board in memory as a shared library and load it.

    Args:
        config: macros, such as ``BP_CFG_MTU``.
    """
    cc = requires_tool("gcc", package="gcc")
    sources = [*agent_sources(), *(AGENT / "collectors" / f"bp_{n}.c" for n in COLLECTORS)]
    if config.get("BP_CFG_INTERRUPTS", 0) > 1:
        sources.append(AGENT / "collectors" / "bp_interrupts.c")
    sources += [C_TESTS / name for name in ("port_memory.c", "firmware.c", "library.c", "probes.c")]
    posix = AGENT / "arch" / "posix"  # what the collectors of Linux share
    sources += sorted([*posix.glob("bp_perf_*.c"), *posix.glob("bp_papi_*.c")])
    folders = (AGENT / "include", AGENT / "src", C_TESTS / "arch", posix)
    includes = [f"-I{folder}" for folder in folders]
    flags = ["-O1", "-g", "-fPIC", "-shared", "-Wl,-Bsymbolic"]
    flags += [f"-DTEST_LAYOUTS(EACH)={' '.join(f'EACH({name})' for name in _TYPES)}"]
    flags += [f"-DTEST_COLLECTORS(EACH)={' '.join(f'EACH({name})' for name in COLLECTORS)}"]
    command = [cc, *WARNINGS, *flags, *defines(config), *includes, *sources, "-ldl"]
    library = built_once(command, "libagent.so")
    ffi = FFI()
    ffi.cdef(wire_structs())
    ffi.cdef(_CDEF)
    for name in (*_MESSAGES, *_TYPES):
        ffi.cdef(f"size_t test_put_{name}(uint8_t *out, const bp_{name}_t *in);")
    for name in COLLECTORS:
        ffi.cdef(f"size_t test_blob_{name}(uint8_t *out, const bp_{name}_t *state);")
    return ffi, ffi.dlopen(str(library))


class BoardError(Exception):
    """The board answered with an ERROR."""

    def __init__(self, code: int, detail: int, *more: int) -> None:
        """Keep the numbers of its body."""
        super().__init__(f"{ErrorCode(code).name}, detail {detail}")
        self.code = code
        self.detail = detail
        self.more = more


@dataclass(frozen=True)
class Welcomed:
    """A WELCOME: its frame's header and the fields of its body."""

    frame: Frame
    fields: Any


class AgentBoard(ABC):
    """A board with the firmware of tests/c, however it is reached.

    Attributes:
        session: id of the last `hello`.
        sequence: of the last `call`.
    """

    session = 0
    sequence = 0

    @abstractmethod
    def send(self, data: bytes) -> bytes:
        """Give the board these bytes; return what it sent until it had nothing more to do."""

    def exchange(self, *frames: Frame) -> list[Frame]:
        """Send frames and return those that came back; nothing else may come."""
        return read_frames(self.send(b"".join(map(encode_frame, frames))))

    def hello(
        self,
        session: int = 0x1234,
        *,
        nonce: int = 0x12345678,
        versions: tuple[int, int] = (1, 1),
        header_version: int = 1,
        tail: bytes = b"",
    ) -> Welcomed:
        """Begin a session."""
        said = {"magic": HELLO_MAGIC, "version_min": versions[0], "version_max": versions[1]}
        body = HELLO.struct.build({**said, "mtu": 65535, "nonce": nonce}) + tail
        (answer,) = self.exchange(Frame(FrameKind.HELLO, session, nonce, body, header_version))
        assert (answer.kind, answer.session, answer.sequence) == (FrameKind.WELCOME, session, nonce)
        fields = WELCOME.struct.parse(answer.body)
        self.session, self.sequence = session, fields.last_sequence
        return Welcomed(answer, fields)

    def frame(self, function: int, *arguments: object) -> Frame:
        """Return the next CALL."""
        self.sequence = (self.sequence + 1) & 0xFFFFFFFF
        body = bytes(msgpack.packb([function, *arguments], use_single_float=False))
        return Frame(FrameKind.CALL, self.session, self.sequence, body)

    def answer(self, frame: Frame) -> Frame:
        """Send one CALL; return its RESULT or ERROR, PROGRESS left out."""
        *progress, answer = self.exchange(frame)
        assert all(other.kind == FrameKind.PROGRESS for other in progress)
        assert (answer.session, answer.sequence) == (frame.session, frame.sequence)
        return answer

    def call(self, function: int | str, *arguments: object) -> Any:
        """Call a function, by id or by name; return its value.

        Raises:
            BoardError: the answer is an ERROR.
        """
        number = function if isinstance(function, int) else self.names().index(function)
        answer = self.answer(self.frame(number, *arguments))
        value = msgpack.unpackb(answer.body)
        if answer.kind == FrameKind.ERROR:
            raise BoardError(*value)
        assert answer.kind == FrameKind.RESULT
        return value

    def section(self, number: int) -> Iterator[bytes]:
        """Yield the bodies of one section of the dictionary, its nil included."""
        index = 0
        while True:
            body = self.answer(self.frame(0, number, index)).body
            yield body
            if body == b"\xc0":
                return
            index += 1

    def names(self) -> list[str]:
        """Return the functions' names by id."""
        return [msgpack.unpackb(body)[0] for body in list(self.section(1))[:-1]]


class MemoryBoard(AgentBoard):
    """The agent in this process, after a reset.

    Attributes:
        lib: the C library; counts and clocks are its globals.
        started: the log of the agent's start.
    """

    def __init__(self, ffi: FFI, lib: Any) -> None:
        """Reset the board."""
        self.ffi = ffi
        self.lib = lib
        lib.test_boot()
        self.started = self.log

    def send(self, data: bytes) -> bytes:
        """Run the agent until it has taken all bytes."""
        self.lib.test_feed(data, len(data))
        self.lib.test_run()
        out = self.ffi.new("uint8_t[]", 1 << 20)
        return bytes(self.ffi.buffer(out, self.lib.test_take(out, len(out))))

    @property
    def log(self) -> str:
        """What happened on the board, a letter each; see tests/c. Forgets it."""
        text = bytes(self.ffi.buffer(self.lib.test_log)).rstrip(b"\0").decode("ascii")
        self.ffi.memmove(self.lib.test_log, bytes(1024), 1024)
        self.lib.test_logged = 0
        return text


def read_frames(data: bytes) -> list[Frame]:
    """Return the frames of what a board sent, which must hold nothing else."""
    decoder = FrameDecoder()
    frames = list(decoder.feed(data))
    assert decoder.take_console(everything=True) == b""
    return frames


def blob_counts(data: bytes, body: int = 8) -> list[int]:
    """Return stop - start of each probe's blob, whose CRCs must be right."""
    size = 6 + body + 4
    assert len(data) % size == 0
    counts = []
    for begin in range(0, len(data), size):
        blob = data[begin : begin + size]
        assert blob[:6] == (60000).to_bytes(2, "little") + b"\x01\x00" + body.to_bytes(2, "little")
        assert zlib.crc32(blob[:-4]) == int.from_bytes(blob[-4:], "little")
        start, stop = (int.from_bytes(blob[at : at + 4], "little") for at in (6, 10))
        counts.append(stop - start)
    return counts
