# SPDX-License-Identifier: Apache-2.0
"""Builds the simulator of a board, once for each version of its sources.

If two processes need it at the same time, the second waits for the first.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from boardprof.base.errors import BuildError, MissingToolError
from boardprof.base.files import check_runnable, runtime_dir
from boardprof.base.processes import lock_within
from boardprof.base.progress import activity
from boardprof.target.descriptions.board import BoardSpec
from boardprof.target.descriptions.tables import SimulatorSpec, filled, simulator_sources
from boardprof.target.toolchain.cache import Cache, FileHashes, digest, unwritable_cache
from boardprof.target.toolchain.tools import check_room, ended, python_package_version
from boardprof.wire.transport.keyed import KEY_VARIABLE

_FORMAT = 1
_BUILD_S = 900.0
_VERSION_S = 30.0
_SHOWN_LINES = 60
_TRIES = 2
_PROGRAM = "simulator"
_ENGLISH = {"LC_ALL": "C.UTF-8", "LANGUAGE": "C"}


def build_simulator(
    spec: BoardSpec,
    simulator: SimulatorSpec,
    *,
    what: str | None = None,
    on_note: Callable[[str], None] | None = None,
    timeout_s: float = _BUILD_S,
) -> Path:
    """Return the simulator of a board, from the cache if it is there."""
    tool = shutil.which(simulator.program)
    if tool is None:
        raise MissingToolError(simulator.program, simulator.package)
    work = _Work(
        spec,
        simulator,
        what or f"the simulator of {spec.name}",
        tool,
        Cache(),
        {"runtime": os.fspath(runtime_dir()), **_python_package(simulator)},
        # The key is for agents, not for compilers. Their messages are shown, and searched.
        {name: value for name, value in os.environ.items() if name != KEY_VARIABLE} | _ENGLISH,
        timeout_s,
    )
    built = _built(work, on_note or (lambda text: None))
    check_runnable(built)
    return built


@dataclass(frozen=True)
class _Work:
    """A build with its inputs; ``environment`` is for all of its programs."""

    spec: BoardSpec
    simulator: SimulatorSpec
    what: str
    tool: str
    cache: Cache
    values: dict[str, str]
    environment: dict[str, str]
    timeout_s: float


def _built(work: _Work, note: Callable[[str], None]) -> Path:
    """Return the program of the current sources; build it if it is not in the cache."""
    for _ in range(_TRIES):
        key = _key(work)
        place = ("simulators", key)
        if (built := work.cache.find(_PROGRAM, *place)) is not None:
            return built
        with _alone(
            work.cache.root / "simulators" / f"{key}.lock", work.what, note, work.timeout_s
        ):
            if _key(work) != key:
                continue  # the sources changed while we waited; these have another lock
            if (built := work.cache.find(_PROGRAM, *place)) is not None:
                return built
            note(f"building {work.what} with {work.simulator.program}, once")
            if (built := _build(work, key, place)) is not None:
                return built
            note(f"sources of {work.what} changed while it was built")
    raise BuildError(
        f"{_begun(work.what)} was not built: its sources changed during the build, {_TRIES} times.",
        hint="try again when the sources no longer change",
    )


def _python_package(simulator: SimulatorSpec) -> dict[str, str]:
    """Return the folder of the package of sources, by its placeholder."""
    name = simulator.python_package
    if name is None:
        return {}
    # Not imported: only its data are needed.
    found = find_spec(name.replace("-", "_")) if python_package_version(name) else None
    if found is None or not found.submodule_search_locations:
        raise MissingToolError(
            name,
            name,
            message=f"The Python package {name} is not installed for {sys.executable}.",
            hint=f"{sys.executable} -m pip install {name}",
        )
    return {"python_package": next(iter(found.submodule_search_locations))}


def _key(work: _Work) -> str:
    """Return the digest of all that the program depends on."""
    hashes = FileHashes()
    sources = simulator_sources(work.spec.folder, work.simulator)
    found = {label: hashes.of(path) for label, path in sources.items()}
    name = work.simulator.python_package
    package = name and [name, python_package_version(name)]
    return digest(_FORMAT, found, work.simulator.command, _version(work), package)


def _version(work: _Work) -> str:
    command = [work.tool, "--version"]
    try:
        done = ended(command, Path("/"), work.environment, _VERSION_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BuildError(f"{shlex.join(command)} does not run: {error}.") from error
    return done.stdout


@contextlib.contextmanager
def _alone(path: Path, what: str, note: Callable[[str], None], timeout_s: float) -> Iterator[None]:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("a")
    except OSError as error:
        raise unwritable_cache(path.parent, error) from error
    with file:
        told = f"waiting for another process that builds {what}"
        if not lock_within(file.fileno(), timeout_s, lambda: note(told)):
            raise BuildError(
                f"Another process has been building {what} for {timeout_s:g} s.",
                hint=f"find it with: fuser -v {path}",
            )
        yield  # the lock ends with the file, also when we are killed


def _build(work: _Work, key: str, place: tuple[str, ...]) -> Path | None:
    """Run the board's command; keep the result if the sources did not change during the build."""
    spec, simulator = work.spec, work.simulator
    what = _begun(work.what)
    with work.cache.scratch() as folder:
        scratch, output = folder / "scratch", folder / _PROGRAM
        scratch.mkdir()
        own = {"scratch": os.fspath(scratch), "output": os.fspath(output)}
        command = filled(simulator.command, {**work.values, **own})
        shown = f"The command was:\ncd {shlex.quote(str(spec.folder))} && {shlex.join(command)}"
        try:
            with activity(f"building {work.what}"):
                done = ended(command, spec.folder, work.environment, work.timeout_s)
        except subprocess.TimeoutExpired as error:
            raise BuildError(
                f"{what} was not built: the build did not end within {work.timeout_s:g} s.\n{shown}"
            ) from error
        except FileNotFoundError as error:
            raise MissingToolError(command[0], simulator.package) from error
        except OSError as error:
            raise BuildError(
                f"{what} was not built: {error.strerror or error}.\n{shown}"
            ) from error
        if done.returncode != 0 or not output.is_file():
            raise _failure(what, simulator, done, shown)
        if _key(work) != key:
            return None
        return work.cache.store(output, *place)


def _begun(what: str) -> str:
    return what[0].upper() + what[1:]


def _failure(
    what: str, simulator: SimulatorSpec, done: subprocess.CompletedProcess[str], shown: str
) -> BuildError:
    """Return why a build failed, in the tool's own words."""
    words = done.stderr.strip() or done.stdout.strip()
    check_room(f"{what} was not built", words)
    for header, package in simulator.headers.items():
        if f"{header}: No such file" in words:
            return MissingToolError(
                header, package, message=f"{what} was not built: {header} was not found."
            )
    lines = words.splitlines()
    if len(lines) > _SHOWN_LINES:  # the cause is usually among the first
        lines = [*lines[:_SHOWN_LINES], f"... ({len(lines) - _SHOWN_LINES} more lines)"]
    ended_so = f"exit code {done.returncode}" if done.returncode else "no program was written"
    return BuildError("\n".join([f"{what} was not built ({ended_so}):", *lines, shown]))
