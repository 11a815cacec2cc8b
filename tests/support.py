# SPDX-License-Identifier: Apache-2.0
"""What several tests share: the tree's places, tools that may be missing, vectors, C libraries."""

from __future__ import annotations

import functools
import glob
import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

__all__ = ["AGENT", "C_TESTS", "ROOT", "WARNINGS", "agent_sources", "defines", "requires_tool"]
__all__ += [
    "awake",
    "built_once",
    "children_of",
    "git",
    "requires_compiler",
    "run",
    "unhex",
    "vectors",
    "wire_structs",
]

ROOT = Path(__file__).resolve().parents[1]
AGENT = ROOT / "device_runtime_c"
C_TESTS = ROOT / "tests" / "c"

WARNINGS = (
    "-std=c11",
    "-Wall",
    "-Wextra",
    "-Wconversion",
    "-Wshadow",
    "-Wmissing-prototypes",
    "-pedantic",
    "-Werror",
)


@contextmanager
def awake() -> Iterator[Callable[[], float]]:
    """Yield a clock of the seconds since then in which this process could run.

    For what must not take long: while the machine or this process is stopped, or starved by others,
    no more than 0.1 s go by.
    """
    lock, over = threading.Lock(), threading.Event()
    last_s, gone_s = time.monotonic(), 0.0

    def clock() -> float:
        nonlocal last_s, gone_s
        with lock:
            now_s = time.monotonic()
            gone_s += min(now_s - last_s, 0.1)
            last_s = now_s
            return gone_s

    def tick() -> None:
        while not over.wait(0.02):
            clock()

    thread = threading.Thread(target=tick, daemon=True)
    thread.start()
    try:
        yield clock
    finally:
        over.set()
        thread.join(10.0)


def requires_tool(tool: str, package: str) -> str:
    """Return the path of ``tool``. Skip the test when it is missing; fail it where all is required.

    ``make test`` installs all tools and sets BOARDPROF_REQUIRE_ALL=1: there, a missing tool is a
    fault and no reason to skip. Only the kernel of a Linux guest may be: on request, or because
    apt has none for RISC-V.

    Args:
        tool: the program, or the path of another file, which may have ``*``.
        package: the Debian package that has it.
    """
    found = shutil.which(tool) or next(iter(glob.glob(tool)), None)
    if found is None:
        reason = f"{tool} is missing (Debian package {package})"
        if os.environ.get("LINUX_GUEST") == "0" and "netboot" in package:
            pytest.skip(f"{reason}: left out by LINUX_GUEST=0")
        if "netboot-riscv64" in package and not _apt_has_installer("riscv64"):
            pytest.skip(f"{reason}: apt has no such package, as on Debian 12")
        if os.environ.get("BOARDPROF_REQUIRE_ALL") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    return found


def _apt_has_installer(arch: str) -> bool:
    command = ["apt-cache", "pkgnames", "debian-installer-"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except FileNotFoundError:
        return False
    return any(name.endswith(f"-netboot-{arch}") for name in done.stdout.split())


def git(folder: Path, *words: str) -> str:
    """Run git in ``folder``, as nobody in particular; return what it prints, without its end."""
    identity = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
    command = [requires_tool("git", "git"), "-C", str(folder), *identity, *words]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=30)
    return done.stdout.strip()


def requires_compiler(cc: str) -> str:
    """Return the path of a gcc for this machine or another; else as `requires_tool`.

    Debian calls the package of ``riscv64-unknown-elf-gcc`` ``gcc-riscv64-unknown-elf``.
    """
    target = cc.removesuffix("-gcc")
    return requires_tool(cc, "gcc" if cc == "gcc" else f"gcc-{target}")


def children_of(process: int) -> list[int]:
    """Return the process ids of the children that each thread of a process has started."""
    tasks = Path(f"/proc/{process}/task").glob("*/children")
    return [int(word) for task in tasks for word in task.read_text().split()]


def run(command: Sequence[str | Path], *, timeout_s: float = 100.0) -> str:
    """Run a program that must succeed; return what it printed, both streams."""
    done = subprocess.run(
        [str(part) for part in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=timeout_s,
        check=False,
    )
    assert done.returncode == 0, f"{command[0]} returned {done.returncode}:\n{done.stdout}"
    return done.stdout


def vectors(name: str) -> list[dict[str, Any]]:
    """Return the vectors of ``vectors/<name>.json`` in ``protocol/`` or in a board's folder."""
    places = [ROOT / "protocol", *sorted(ROOT.glob("boards/*"))]
    files = [place / "vectors" / f"{name}.json" for place in places]
    (path,) = (file for file in files if file.is_file())
    rows: list[dict[str, Any]] = json.loads(path.read_text(encoding="ascii"))
    return rows


def unhex(text: str) -> bytes:
    """Return the bytes of hexadecimal text with dashes."""
    return bytes.fromhex(text.replace("-", ""))


@functools.cache
def _sources_digest() -> str:
    """Return a hash of all C files of the agent and its tests: a built library may have any."""
    digest = hashlib.sha256()
    for folder in (AGENT, ROOT / "tests"):
        for path in sorted(p for p in folder.rglob("*") if p.suffix in {".c", ".h", ".S"}):
            digest.update(path.as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def built_once(command: Sequence[object], name: str) -> Path:
    """Return the file ``name`` that a compiler's ``command`` makes of the tree's C files.

    All workers of a test run, and the next runs, share what was made of the same command and the
    same files.

    Args:
        command: without the output, which is put behind it as ``-o FILE``.
        name: of the file.
    """
    text = "\0".join([_sources_digest(), *map(str, command)])
    folder = ROOT / "build" / "tests" / hashlib.sha256(text.encode()).hexdigest()[:32]
    made = folder / name
    if made.is_file():
        return made
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as work:
        run([*map(str, command), "-o", Path(work, name)])
        Path(work, name).replace(made)  # whoever made it meanwhile made the same
    return made


def agent_sources() -> list[Path]:
    """Return the agent's sources for a program that brings its own main and C library."""
    left_out = {"bp_main.c", "bp_mem.c"}
    return sorted(path for path in (AGENT / "src").glob("*.c") if path.name not in left_out)


def defines(config: dict[str, int]) -> list[str]:
    """Return the compiler's options for a configuration."""
    return [f"-D{name}={value}" for name, value in sorted(config.items())]


def wire_structs() -> str:
    """Return the C structs of the committed ``bp_wire.h``, for cffi."""
    text = (AGENT / "include" / "boardprof" / "bp_wire.h").read_text(encoding="ascii")
    return "\n".join(re.findall(r"typedef struct \{.*?\} bp_\w+_t;", text, flags=re.DOTALL))
