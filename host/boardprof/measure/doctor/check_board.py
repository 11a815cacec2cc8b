# SPDX-License-Identifier: Apache-2.0
"""Check a board against known work, and write down what it has proved.

Functions of ``device_runtime_c/proof``, and of the board's own folder, run with one, two and three
times the rounds: counters must grow evenly, and events must give the known number.
"""

from __future__ import annotations

import hashlib
import json
import platform
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from boardprof import __version__
from boardprof.base.connection import Connection
from boardprof.base.errors import (
    BoardprofError,
    DecodeError,
    DeviceFaultError,
    DeviceTimeoutError,
    LinkError,
    UsageError,
)
from boardprof.base.files import runtime_dir
from boardprof.measure.board.board import Board
from boardprof.measure.connect import connect_by, guard_calls
from boardprof.measure.doctor.counters import (
    FAILED,
    MOST_CLOCK_ERROR,
    OK,
    SKIPPED,
    UNSUPPORTED,
    Finding,
    counts,
    listed,
)
from boardprof.measure.doctor.link_test import LinkReport, link_facts
from boardprof.results.record import Device, Stack
from boardprof.target.build.builder import build
from boardprof.target.descriptions.board import BoardSpec, board_spec, default_board

_ROUNDS, _DEPTH = "proof_rounds", "proof_depth"


def connect_and_check(
    board: str | None,
    connection: Connection,
    *,
    image: str | None = None,
    on_finding: Callable[[Finding], None] | None = None,
    with_guards: bool = False,
    flashes: bool = False,
) -> tuple[Board, list[Finding]]:
    """Start a board with functions of known work, or use the one at a port, and check it.

    ``image``: firmware to start, or that is at the port; it has these functions. ``with_guards``:
    also check what ends a call. ``flashes``: firmware with these functions is written to the board
    at the port. If ssh starts what is copied to the port, that has them, too. Returns the closed
    board, for its facts, and what was found.
    """
    findings: list[Finding] = []

    def tell(finding: Finding) -> None:
        findings.append(finding)
        if on_finding is not None:
            on_finding(finding)

    from boardprof.wire.transport.ssh import takes_image  # later: few boards are checked

    port = connection.port
    is_started = board is not None and port is not None and takes_image(port)
    if image is not None or not (port is None or flashes or is_started):
        opened, has_own = connect_by(connection, board, image), image is not None
    else:
        spec = board_spec(board) if board is not None else default_board()
        firmware = build(spec, proof_sources(spec, with_guards=with_guards))
        if flashes:
            tell(_flashed(spec, firmware.image, port))
        opened, has_own = connect_by(connection, spec, firmware.image), False
    with opened as connected:
        for finding in check_board(connected, has_own_firmware=has_own):
            tell(finding)
        if with_guards and not connected.session.is_closed:
            for finding in guards(connected):
                tell(finding)
    return connected, findings


def _flashed(spec: BoardSpec, image: Path, port: str | None) -> Finding:
    from boardprof.target.build.firmware import flash  # later: few boards are flashed

    began_s, tools = time.monotonic(), list[str]()
    flash(spec, image, port, on_command=lambda command: tools.append(command.split()[0]))
    took_s = time.monotonic() - began_s
    return Finding("flash", OK, f"by {' and '.join(tools)} in {took_s:.1f} s, with a reset")


def proof_sources(spec: BoardSpec, *, with_guards: bool = False) -> list[str]:
    """Return the sources of the functions that a board must have for `check_board`."""
    proof = runtime_dir() / "proof"
    found = sorted(proof.glob("*.c"))
    found += sorted((proof / spec.build.arch).glob("*.c")) if spec.build.arch else []
    found += [spec.folder / path for path in spec.doctor.sources]
    if with_guards and spec.guard.catches:
        found.append(proof / "guards" / "faults.c")
        found += [proof / "guards" / "abort.c"] if "abort" in spec.guard.catches else []
    return [str(path) for path in found]


def check_board(board: Board, *, has_own_firmware: bool = False) -> Iterator[Finding]:
    """Check a board with known work; ``has_own_firmware``: another build has made its image."""
    own = {work.function for work in board.spec.doctor.work.values()}
    missing = sorted({_ROUNDS, _DEPTH, *own} - set(board.functions))
    if missing:
        raise UsageError(
            f"The firmware of {board.spec.name} lacks functions with known work: "
            f"{', '.join(missing)}.",
            hint=_how_to_get_them(board.spec, has_own_firmware=has_own_firmware),
        )
    yield from _findings(board)


def _how_to_get_them(spec: BoardSpec, *, has_own_firmware: bool) -> str:
    if has_own_firmware or not spec.build.cc:  # only its own build system can build its firmware
        return (
            f"compile {runtime_dir() / 'proof'}/*.c with the firmware's sources that have "
            "BP_FUNCTION (BOARDPROF_PROOF := 1 with boardprof.mk)"
        )
    sources = " ".join(proof_sources(spec))
    if spec.launch.listen == "board":
        return f"boardprof agent serve -b {spec.name} {sources}"
    if spec.flash is not None:
        return f"boardprof flash -b {spec.name} {sources}"
    return f"run an agent with them; boardprof build -b {spec.name} {sources}"


def _findings(board: Board) -> Iterator[Finding]:
    for name, reason in board.device.unsupported.items():
        yield Finding(name, UNSUPPORTED, reason, is_counter=True)
    try:
        board.offer.passes(None)
    except UsageError as error:
        yield Finding("counters", FAILED, str(error))
        yield _host_clock(board)
        yield _arena(board)
        yield Finding("stack", SKIPPED, "nothing can be measured")
        return
    yield from _within_limit(counts(board, _ROUNDS))
    if board.session.is_closed:  # the emulator was ended at the limit
        return
    yield _host_clock(board)
    yield _arena(board)
    yield from _within_limit(_stack(board, _DEPTH))
    if READER in board.functions and not board.device.emulated:
        yield from linux_findings(board)


def _within_limit(findings: Iterator[Finding]) -> Iterator[Finding]:
    """Yield findings, up to a call that the board ends, or whose counters cannot be decoded."""
    try:
        yield from findings
    except DeviceTimeoutError as error:
        yield Finding("time limit", FAILED, str(error))
    except DecodeError as error:
        yield Finding("stack", SKIPPED, f"nothing can be measured: {error.message}")


def _host_clock(board: Board) -> Finding:
    if board.device.emulated or board.device.clock_kind == "simulated":
        kind = "simulated" if board.device.clock_kind == "simulated" else "emulated"
        return Finding("clock", SKIPPED, f"{kind}: it cannot be checked against the host's time")
    try:
        fit = board.correlate_clock(32)
    except (UsageError, LinkError) as error:
        return Finding("clock", SKIPPED if isinstance(error, UsageError) else FAILED, str(error))
    off = abs(fit.drift_ppm) / 1e6
    text = f"{fit.drift_ppm:+,.0f} ppm from the host's clock, within {fit.drift_error_ppm:,.0f} ppm"
    if max(0.0, off - fit.drift_error_ppm / 1e6) > MOST_CLOCK_ERROR:
        return Finding("clock", FAILED, f"{text}: its declared frequency is wrong")
    return Finding("clock", OK, text)


_FRAMES = (2, 3, 4)


def _arena(board: Board) -> Finding:
    """Allocate the whole arena, and check that its first and last bytes are memory."""
    size = board.memory.size
    if not size:
        return Finding("arena", SKIPPED, "the agent is compiled without BP_CFG_ARENA")
    marks = bytes(range(1, 65))[: min(64, size // 2)]
    try:
        block = board.memory.alloc(size - size % 16)
        try:
            ends = (0, block.size - len(marks))
            for offset in ends:
                board.memory.write(block, marks, offset=offset)
            kept = [board.memory.read(block, size=len(marks), offset=at) for at in ends]
        finally:
            board.memory.free(block)
    except BoardprofError as error:
        return Finding("arena", FAILED, f"of {size:,} bytes: {error}")
    if kept != [marks, marks]:
        return Finding("arena", FAILED, f"of {size:,} bytes loses what is written at its ends")
    return Finding("arena", OK, f"{size:,} bytes")


def _stack(board: Board, function: str) -> Iterator[Finding]:
    """Check that each of the frames that ``function`` makes takes as much stack."""
    counters = (counter.name for each in board.offer.fixed for counter in each.counters)
    one = next((name for name in counters if name not in board.device.unsupported), None)
    found = [
        board.measure(function, depth, metrics=one, warmup=0, repeat=1).stack for depth in _FRAMES
    ]
    if not all(isinstance(stack, Stack) for stack in found):
        reason = next(f"{stack}" for stack in found if not isinstance(stack, Stack))
        yield Finding("stack", UNSUPPORTED, reason)
        return
    used = [stack.used for stack in found if isinstance(stack, Stack)]
    if used[1] - used[0] != used[2] - used[1] or used[1] <= used[0]:
        yield Finding("stack", FAILED, f"{listed(used, 'bytes')} of 2, 3 and 4 equal frames")
        return
    painted = min(stack.painted for stack in found if isinstance(stack, Stack))
    yield Finding("stack", OK, f"{used[1] - used[0]} bytes a frame; {painted:,} bytes are painted")


def finding_text(found: Finding) -> str:
    """Return a finding as a line."""
    return f"{found.subject:<23} {found.verdict:<12} {found.text}"


def proof_facts(findings: Sequence[Finding]) -> dict[str, Any]:
    """Return the findings as JSON shows them."""
    return {
        "schema_version": 1,
        "findings": [
            {"subject": f.subject, "verdict": f.verdict, "text": f.text} for f in findings
        ],
        "unsupported": {
            f.subject: f.text for f in findings if f.verdict == FAILED and f.is_counter
        },
    }


# -- what ends a call ------------------------------------------------------------------------------


_NEEDS_ADDRESS = "bad-address"
_TIME_OUT = "time-out"
_SHORT_S = 1.0


def guards(board: Board) -> Iterator[Finding]:
    """Call a function that ends by each cause, and after it one that returns."""
    for cause, reason in board.spec.guard.missing.items():
        yield Finding(f"guard: {cause}", UNSUPPORTED, reason)
    for cause in board.spec.guard.catches:
        finding = _guard(board, cause)
        yield finding
        if board.session.is_closed:
            return


def _guard(board: Board, cause: str) -> Finding:
    subject, name = f"guard: {cause}", f"proof_{cause.replace('-', '_')}"
    if name not in board.functions:
        return Finding(subject, SKIPPED, f"the firmware has no {name}")
    arguments = (board.spec.doctor.nowhere,) if cause == _NEEDS_ADDRESS else ()
    timeout_s, wall_timeout_s = board.session.asked_s
    if cause == _TIME_OUT and timeout_s is None:  # an emulator takes long for the usual limit
        guard_calls(board.session, board.dictionary, board.spec, _SHORT_S, wall_timeout_s)
    try:
        board.functions[name](*arguments)
        return Finding(subject, FAILED, f"{name} returned")
    except DeviceFaultError as error:
        seen, found = error.message, error.cause
    except DeviceTimeoutError as error:
        seen, found = error.message, _TIME_OUT
    except BoardprofError as error:
        return Finding(subject, FAILED, f"{name}: {error.message}")
    if found != cause:
        return Finding(subject, FAILED, f"{name} ended by {found}: {seen}")
    try:
        if cause == _TIME_OUT:
            guard_calls(board.session, board.dictionary, board.spec, timeout_s, wall_timeout_s)
        board.functions[_ROUNDS](3)
    except BoardprofError as error:
        return Finding(subject, FAILED, f"after {name}: {error.message}")
    return Finding(subject, OK, seen)


# -- the proof ------------------------------------------------------------------------------------


VERSION = 1
_HASH = "sha256"
_PRIVATE = re.compile(
    r"\b(?!https?:)[a-z][a-z0-9+.-]*://(?!USER@HOST)\S+"  # a port
    r"|/(?:dev|home|root|tmp|Users|private)/\S+|[A-Za-z]:\\\S+"
)


def proof_of(
    spec: BoardSpec, device: Device, findings: Sequence[Finding], link: LinkReport | None
) -> dict[str, Any]:
    """Return what was proved, with its hash; ``link`` is the test of the line, if there was one.

    It names no path, serial number, address or user, so its owner can send it in. The hash shows
    that nobody has changed it by mistake; it does not prove who made it.
    """
    cable = None if link is None else link_facts(link)
    if cable is not None:
        del cable["port"]
    facts = {
        "boardprof_proof": VERSION,
        "board": device.name,
        "summary": spec.summary,
        "kind": "emulated" if device.is_emulator else "real",
        "boardprof": __version__,
        "agent": device.agent_version,
        "build": device.build_id,
        "flags": list(device.cflags),
        "clock": device.clock_kind,
        "sources": sorted(
            {counter.source for counter in device.counters if not counter.unsupported}
        ),
        "host": {"system": platform.system(), "python": platform.python_version()},
        "cable": cable,
        "findings": proof_facts(findings)["findings"],
    }
    facts = _without_private(facts)
    return {**facts, _HASH: content_hash(facts)}


def content_hash(facts: Mapping[str, Any]) -> str:
    """Return the SHA-256 of all facts but the hash itself, as JSON with sorted keys."""
    content = {name: value for name, value in facts.items() if name != _HASH}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def check_proof(facts: Mapping[str, Any], name: str) -> None:
    """Refuse a file that is not what `proof_of` has made."""
    if facts.get("boardprof_proof") != VERSION:
        raise UsageError(f"{name} is not a proof of a board.", hint="boardprof doctor --report DIR")
    if facts.get(_HASH) != content_hash(facts):
        raise UsageError(
            f"{name} was changed after it was made: its hash is another one.",
            hint="make it again with boardprof doctor --report DIR",
        )


def _without_private(value: Any) -> Any:
    if isinstance(value, str):
        return _PRIVATE.sub("(left out)", value)
    if isinstance(value, Mapping):
        return {key: _without_private(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_without_private(each) for each in value]
    return value


# -- what Linux on a board does to numbers --------------------------------------------------------


READER = "proof_file"
"""The function on the board that reads a file (``device_runtime_c/proof/posix``)."""

_FEW, _MOST = 2048, 131072
"""Bytes of a file that are read at first, and at most."""

_WATCHED_S = 0.5
_QUIET_HZ = 20
"""Interrupts a second of a core without a periodic tick (Linux's NO_HZ_FULL leaves one)."""

_CPUFREQ = "/sys/devices/system/cpu/cpu{}/cpufreq/"


def linux_findings(board: Board) -> Iterator[Finding]:
    """Yield what speaks for and against quiet numbers; nothing here makes a number wrong."""
    cores = _cores(_line(board, "/proc/self/status", r"Cpus_allowed_list:\s*(\S+)"))
    yield _frequency(board, min(cores, default=0))
    yield _core(board, cores)
    yield _interrupts(board, cores)
    yield _permission(board)


def _frequency(board: Board, core: int) -> Finding:
    folder = _CPUFREQ.format(core)
    governor = _read(board, folder + "scaling_governor")
    if governor is None:
        return Finding("frequency", SKIPPED, "Linux does not scale it, or does not tell how")
    low, high = (_read(board, f"{folder}scaling_{end}_freq") or "?" for end in ("min", "max"))
    if governor == "performance" or low == high:
        return Finding("frequency", OK, f"governor {governor}, {_mhz(high)}")
    return Finding(
        "frequency",
        SKIPPED,
        f"governor {governor}: it varies from {_mhz(low)} to {_mhz(high)}. Try: echo performance | "
        f"sudo tee {folder}scaling_governor",
    )


def _mhz(khz: str) -> str:
    return f"{int(khz) // 1000:,} MHz" if khz.isdigit() else "an unknown rate"


def _core(board: Board, cores: set[int]) -> Finding:
    isolated = _cores(_read(board, "/sys/devices/system/cpu/isolated") or "")
    if len(cores) == 1 and cores <= isolated:
        return Finding("core", OK, f"{min(cores)}, which no other program uses")
    if len(cores) == 1:
        return Finding(
            "core",
            SKIPPED,
            f"always {min(cores)}, but other programs may run on it. Try: isolcpus={min(cores)} in "
            "the kernel's command line",
        )
    last = max(cores, default=0)
    return Finding(
        "core",
        SKIPPED,
        f"one of {len(cores)}: Linux may move the agent. Try: -p 'ssh://USER@HOST?run=taskset -c "
        f"{last}'",
    )


def _interrupts(board: Board, cores: set[int]) -> Finding:
    begin_s = time.monotonic()
    before = _interrupts_so_far(board)
    time.sleep(_WATCHED_S)
    after = _interrupts_so_far(board)
    took_s = time.monotonic() - begin_s
    rates = [(after[core] - before[core]) / took_s for core in cores & before.keys() & after.keys()]
    if not rates:
        return Finding("interrupts", SKIPPED, "/proc/interrupts does not tell")
    text = f"{max(rates):,.0f} a second on the agent's busiest core"
    if max(rates) <= _QUIET_HZ:
        return Finding("interrupts", OK, text)
    return Finding(
        "interrupts",
        SKIPPED,
        f"{text}: each adds to the time of a sample, not to instructions in user mode",
    )


def _interrupts_so_far(board: Board) -> dict[int, int]:
    head, *lines = (_read(board, "/proc/interrupts") or "").splitlines() or [""]
    counts = dict.fromkeys(map(int, re.findall(r"CPU(\d+)", head)), 0)
    for line in lines:
        columns = line.split()[1 : len(counts) + 1]
        for core, column in zip(counts, columns, strict=False):
            counts[core] += int(column) if column.isdigit() else 0
    return counts


def _permission(board: Board) -> Finding:
    level = _read(board, "/proc/sys/kernel/perf_event_paranoid")
    user = _line(board, "/proc/self/status", r"Uid:\s*\d+\s+(\d+)")
    if level is None:
        return Finding("perf", SKIPPED, "this kernel has no perf_event_open")
    if user == "0" or int(level) <= 1:
        return Finding("perf", OK, "may count in user mode and in the kernel")
    if int(level) == 2:
        return Finding("perf", OK, "may count in user mode (perf_event_paranoid is 2)")
    return Finding(
        "perf",
        SKIPPED,
        f"may count nothing: perf_event_paranoid is {level}. Try: sudo sysctl "
        "kernel.perf_event_paranoid=2",
    )


def _cores(text: str) -> set[int]:
    """Return the cores of a list such as ``0-2,5`` (cpuset(7), "List format")."""
    found: set[int] = set()
    for first, last in re.findall(r"(\d+)(?:-(\d+))?", text):
        found |= set(range(int(first), int(last or first) + 1))
    return found


def _line(board: Board, file: str, pattern: str) -> str:
    found = re.search(pattern, _read(board, file) or "")
    return found[1] if found else ""


def _read(board: Board, file: str) -> str | None:
    import numpy as np  # here: it takes a while, and few boards have files

    size = _FEW
    while True:
        text = np.zeros(size, np.uint8)
        length: Any = board.functions[READER](file, text, size)
        if length < size or size >= _MOST:
            return None if length < 0 else bytes(text[:length]).decode(errors="replace").strip()
        size *= 8  # the whole array goes over the line
