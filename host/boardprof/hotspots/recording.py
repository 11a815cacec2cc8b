# SPDX-License-Identifier: Apache-2.0
"""Record calls on an emulated board that a recorder watches."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from boardprof.boards.board_file import BoardSpec
from boardprof.boards.launch import SimulatorSpec, filled
from boardprof.elf.disassembly import disassembly, objdump_of
from boardprof.elf.symbol_table import symbol_table
from boardprof.errors import BoardprofError
from boardprof.hotspots.plan import plan_text
from boardprof.hotspots.record import read_record
from boardprof.hotspots.recordable import check_recordable
from boardprof.hotspots.symbolizer import profile_of
from boardprof.report.measurement import Measurement
from boardprof.report.profile import Profile
from boardprof.toolchain.simulator import build_simulator

_VERSION_S = 10.0
_NEW_INTERFACE = 9
"""The first version of QEMU whose plugins have the second interface."""


def _plugin(qemu: str) -> SimulatorSpec:
    """Return how the plugin for a QEMU is built."""
    return SimulatorSpec(
        sources=("{runtime}/recorder/*.[ch]",),
        command=(
            *("gcc", "-std=c11", "-O2", "-shared", "-fPIC"),
            f"-DBP_QEMU_API={1 if _major(qemu) < _NEW_INTERFACE else 2}",
            *("{runtime}/recorder/bp_qemu.c", "{runtime}/recorder/bp_recorder.c"),
            *("-o", "{output}"),
        ),
        program="gcc",
        package="gcc",
    )


def _major(qemu: str) -> int:
    """Return the version of a QEMU, 0 if it does not tell."""
    command = [qemu, "--version"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=_VERSION_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0  # starting the board tells what is wrong
    found = re.search(r"version (\d+)", done.stdout)
    return int(found[1]) if found else 0


class RecordedBoard(Protocol):
    """What recording needs of a board that was started."""

    def measure(
        self,
        function: str,
        *args: object,
        warmup: int,
        repeat: int,
        named: Mapping[str, object] | None,
    ) -> Measurement:
        """Measure a function."""

    def close(self) -> None:
        """End it."""


class Recording:
    """A board of its own, started with a recorder. Use it by ``with``, or `close` it."""

    def __init__(
        self,
        spec: BoardSpec,
        image: Path,
        functions: Iterable[str],
        start: Callable[[BoardSpec], RecordedBoard],
        *,
        sources: Iterable[Path] = (),
        on_note: Callable[[str], None] | None = None,
    ) -> None:
        """Start the board.

        Args:
            spec: the board.
            image: what it runs.
            functions: that may be recorded.
            start: starts a board of this description with the image.
            sources: files that the image was made of, whose text a profile keeps.
            on_note: gets a note when the recorder is built.

        Raises:
            UsageError: no recorder knows such a board, or the image has no symbols.
            BoardprofError: as ``start``.
        """
        self._folder = contextlib.ExitStack()
        self._image = image
        self._sources = tuple(sources)
        self._table = symbol_table(image)
        check_recordable(spec)
        try:
            folder = Path(self._folder.enter_context(tempfile.TemporaryDirectory(prefix="bp-")))
            self._record = folder / "record"
            plan = folder / "plan"
            plan.write_text(plan_text(self._table, functions, self._record, image), "utf-8")
            self._record.touch()  # until it is wanted
            self._board = start(_watched(spec, plan, on_note))
        except BaseException:
            self._folder.close()
            raise
        self._name = spec.name
        self._texts = disassembly(image, objdump_of(spec.build.cc))

    def profile(
        self,
        function: str,
        *args: object,
        named: Mapping[str, object] | None = None,
        warmup: int = 1,
    ) -> Profile:
        """Record one call of a function.

        Args:
            function: its name.
            args: its arguments.
            named: arguments by parameter name.
            warmup: calls before it.

        Returns:
            Its profile; incomplete if a fault or a limit has ended the call.

        Raises:
            DecodeError: what was recorded is not what the board has counted.
            BoardprofError: as `Board.measure`, if nothing was recorded.
        """
        rounds = [warmup - 1] if warmup else []
        counted: dict[str, int] = {}
        failure = ""
        # The warm-up is recorded, too: should it not return, there is no other call.
        for before in (*rounds, 0):
            self._record.unlink(missing_ok=True)
            try:
                found = self._board.measure(function, *args, warmup=before, repeat=1, named=named)
            except BoardprofError as error:
                if not self._record.exists():
                    raise
                failure = error.message
                break
            counted = {name: nets[0] for name, nets in found.nets.items()}
        record = read_record(self._record)
        profile = profile_of(
            record,
            self._table,
            self._image,
            function,
            self._name,
            counted,
            self._texts,
            self._sources,
        )
        return replace(profile, failure=failure) if failure else profile

    def close(self) -> None:
        """End the board."""
        self._board.close()
        self._folder.close()

    def __enter__(self) -> Self:
        """Return it."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End it."""
        self.close()


def _watched(spec: BoardSpec, plan: Path, on_note: Callable[[str], None] | None) -> BoardSpec:
    """Return a board whose emulator records."""
    values = {"plan": os.fspath(plan).replace(",", ",,"), "image": "{image}", "port": "{port}"}
    options = spec.launch.record
    if any("{recorder}" in option for option in options):
        plugin = _plugin(spec.launch.command[0])
        recorder = build_simulator(spec, plugin, what="the recorder for QEMU", on_note=on_note)
        values["recorder"] = os.fspath(recorder).replace(",", ",,")
    command = (*spec.launch.command, *filled(options, values))
    return replace(spec, launch=replace(spec.launch, command=command))
