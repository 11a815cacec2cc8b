# SPDX-License-Identifier: Apache-2.0
"""Record calls on an emulated board that a recorder watches."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from boardprof.base.errors import BoardError, BoardprofError, DecodeError
from boardprof.measure.hotspots.call_tree import CallTree, profile_of
from boardprof.measure.hotspots.callgrind import Callgrind
from boardprof.measure.hotspots.emulator_recorder import Emulator
from boardprof.results.report.measurement import Measurement
from boardprof.results.report.profile import Profile
from boardprof.target.arguments.passing import copied_arguments
from boardprof.target.descriptions.board import BoardSpec, check_recordable
from boardprof.target.elf.addresses import SymbolTable, disassembly, objdump_of, symbol_table

_REFUSED = "Could not load plugin"
"""What QEMU says if it has no plugins, or an interface that the recorder does not know."""


def _refused(spec: BoardSpec, error: BoardError) -> BoardError:
    qemu = spec.launch.command[0]
    return BoardError(
        f"{qemu} does not load the recorder. {error.message}",
        hint=f"install another version of {qemu}: 7.2 and 10.0 of Debian 12 and 13 load it; or "
        "sample the call instead (--sampled, or sampled=True)",
    )


_REMOVED_S = 3.0
"""How long a board that has ended may go on writing: under callgrind its doorman does."""


def _remove(folder: Path) -> None:
    deadline_s = time.monotonic() + _REMOVED_S
    while True:
        is_last = time.monotonic() > deadline_s
        try:
            shutil.rmtree(folder, ignore_errors=is_last)
            return
        except OSError:
            time.sleep(0.02)


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


class HotspotRun:
    """A board of its own, started with a recorder; `close` it."""

    def __init__(
        self,
        spec: BoardSpec,
        image: Path,
        functions: Mapping[str, str],
        start: Callable[[BoardSpec], RecordedBoard],
        *,
        sources: Iterable[Path] = (),
    ) -> None:
        """Start the board; ``functions`` may be recorded: name -> name for the linker."""
        check_recordable(spec)
        self._folder = contextlib.ExitStack()
        self._image = image
        self._sources = tuple(sources)
        self._start = start
        self._symbols = functions
        self._board: RecordedBoard | None = None
        table = symbol_table(image)
        self._texts = disassembly(image, objdump_of(spec.build.cc))
        try:
            folder = Path(tempfile.mkdtemp(prefix="bp-"))
            self._folder.callback(_remove, folder)
            self._recorder: Emulator | Callgrind = (
                Callgrind(folder, image, table, self._texts)
                if spec.launch.recorder
                else Emulator(folder, image, table, functions.values())
            )
            self._spec = self._recorder.watched(spec)
            self._board = start(self._spec)
        except BaseException as error:
            self._folder.close()
            if isinstance(error, BoardError) and _REFUSED in error.message:
                raise _refused(spec, error) from error
            raise

    def profile(
        self,
        function: str,
        *args: object,
        named: Mapping[str, object] | None = None,
        warmup: int = 1,
    ) -> Profile:
        """Record one call of a function.

        Arrays are not changed. The profile is incomplete if a fault or a limit has ended the call.
        """
        if self._board is None:
            self._board = self._start(self._spec)
        symbol = self._symbols.get(function, function)
        counted: dict[str, int] = {}
        failure = ""
        self._recorder.arm()
        ours, by_name = copied_arguments(args, named)
        try:
            found = self._board.measure(function, *ours, warmup=warmup, repeat=1, named=by_name)
        except BoardprofError as error:
            failure = error.message
            kept = self._recorder.record(symbol) or self._ended(function)
            if kept is None:
                raise
        else:
            counted = {name: nets[0] for name, nets in found.nets.items()}
            kept = self._recorder.record(symbol)
            if kept is None:
                raise DecodeError(f"Nothing was recorded of the call of {function}.")
        record, table = kept
        if failure and record.is_complete:
            record = replace(record, state="incomplete left")
        profile = profile_of(
            record,
            table,
            self._image,
            function,
            self._spec.name,
            {} if self._spec.launch.recorder else counted,
            self._texts,
            self._sources,
        )
        return replace(profile, failure=failure, recorder=self._spec.launch.recorder or "")

    def _ended(self, function: str) -> tuple[CallTree, SymbolTable] | None:
        """Return what a recorder tells only when its board has ended."""
        assert self._board is not None
        self._board.close()
        self._board = None
        return self._recorder.record(self._symbols.get(function, function))

    def close(self) -> None:
        """End the board."""
        if self._board is not None:
            self._board.close()
        self._folder.close()
