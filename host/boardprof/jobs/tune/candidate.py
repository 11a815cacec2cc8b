# SPDX-License-Identifier: Apache-2.0
"""Candidates, each one way to write or compile a function, and the images that have them.

They are compiled on all cores, and linked in batches while the board measures. A batch that does
not link is split in halves, until the candidate that is to blame is alone.
"""

from __future__ import annotations

import os
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from boardprof.base.errors import BoardprofError, BuildError, MissingToolError, UsageError
from boardprof.target.build.build_options import BuildOptions
from boardprof.target.build.firmware import BuiltFirmware, sizes_of
from boardprof.target.build.versions import Version, VersionBuilder
from boardprof.target.toolchain.cache import FileHashes

if TYPE_CHECKING:
    import numpy.typing as npt


class MeasureError(IntEnum):
    """Why a candidate has no cost. The numbers up to 8 are TVM's."""

    NO_ERROR = 0
    INSTANTIATION_ERROR = 1
    """The candidate is not valid, or the arguments do not fit its function."""
    COMPILE_HOST = 2
    """Not used: nothing is compiled for the host."""
    COMPILE_DEVICE = 3
    """It does not compile or link."""
    RUNTIME_DEVICE = 4
    """It trapped, or ended the board."""
    WRONG_ANSWER = 5
    """Its output is not the expected one."""
    BUILD_TIMEOUT = 6
    """Not used: a compiler that does not end is a COMPILE_DEVICE."""
    RUN_TIMEOUT = 7
    """It did not end in time."""
    UNKNOWN_ERROR = 8
    """Anything else."""
    OVER_LIMIT = 9
    """It is right, but it breaks a constraint."""


@dataclass(frozen=True)
class MeasureResult:
    """The result of one candidate.

    Attributes:
        costs: the cost of a call, one for each sample; () if it has none. Lower is better.
        error_no: why it has none.
        all_cost: seconds that compiling and measuring took.
        timestamp: seconds since the epoch, at the end of the measurement.
        metrics: of a call: the medians of all counters, and sizes. Those of candidates that break a
            constraint are kept, too.
        error: what went wrong, with file and line where they are known.
        build_s: the part of ``all_cost`` for compiling. Linking is shared out evenly.
        run_s: the part for the board.
        key: digest of all that the result depends on; "" if it did not compile.
        is_known: it was not measured now: a candidate with the same code was, or the history has
            it.
        is_from_history: it was not measured now: the history has it.
        outputs: what the function returned (as ``return``) and wrote, by parameter; empty if it is
            from the history.
    """

    costs: tuple[float, ...]
    error_no: MeasureError
    all_cost: float
    timestamp: float
    metrics: Mapping[str, float] = field(default_factory=dict)
    error: BoardprofError | None = None
    build_s: float = 0.0
    run_s: float = 0.0
    key: str = ""
    is_known: bool = False
    is_from_history: bool = False
    outputs: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict, compare=False, repr=False)

    @property
    def cost(self) -> float:
        """The median cost of a call; infinite if there is none."""
        return statistics.median(self.costs) if self.costs else float("inf")

    @property
    def ok(self) -> bool:
        """Whether it has a cost: it ran, its output is right, and it breaks no constraint."""
        return bool(self.costs)


@dataclass(frozen=True)
class Candidate:
    """One way to write or compile the function.

    Attributes:
        source: a file, or several: C, C++, assembler or objects. () takes those of the runner.
        text: C source, instead of a file. Its headers are searched in the runner's include folders.
        flags: compiler flags, after those of the runner; the last ``-O`` counts.
        defines: macros: name -> value. None as a value defines the name alone.
        image: an ELF image that has the function, instead of all that.
    """

    source: str | Path | Sequence[str | Path] = ()
    text: str | None = None
    flags: str = ""
    defines: Mapping[str, object] = field(default_factory=dict)
    image: str | Path | None = None

    def __post_init__(self) -> None:
        """Check that it has one origin."""
        compiled = (bool(self.source), self.text is not None)
        if sum((*compiled, self.image is not None)) > 1:
            raise UsageError(
                "A candidate has one of source, text and image, not several of them.",
                hint="Candidate(text=...) for C source, Candidate(source=...) for files",
            )
        if self.image is not None and (self.flags or self.defines):
            raise UsageError(
                "An image is already compiled, so flags and defines have no effect.",
                hint="leave them out, or give the source",
            )

    @property
    def files(self) -> list[Path]:
        """Its files."""
        source = self.source
        return [Path(source)] if isinstance(source, str | Path) else list(map(Path, source))

    def options(self, base: BuildOptions) -> BuildOptions:
        """Return the options of its compilation, from those of all candidates."""
        given = self.defines.items()
        defines = [name if value is None else f"{name}={value}" for name, value in given]
        return replace(
            base, cflags=f"{base.cflags} {self.flags}", defines=(*base.defines, *defines)
        )


def as_candidates(values: Sequence[Candidate | str | Path]) -> list[Candidate]:
    """Return candidates; a text is C source, and a path is a file or an image."""
    if isinstance(values, str | Path | Candidate):
        raise UsageError("One candidate is not a list of candidates.", hint="measure([candidate])")
    return [_candidate(each) for each in values]


def _candidate(value: object) -> Candidate:
    if isinstance(value, Candidate):
        return value
    if isinstance(value, str):
        return Candidate(text=value)
    if isinstance(value, Path):
        return Candidate(image=value) if value.suffix in (".elf", ".so") else Candidate(value)
    raise UsageError(
        f"{value!r:.60} is not a candidate.", hint="give a Candidate, C source as a text, or a Path"
    )


FLASH, RAM, STACK = "Flash (bytes)", "RAM (bytes)", "Stack (bytes)"
"""Names of the sizes among the metrics."""

SHORT_NAMES = {
    "flash": FLASH,
    "ram": RAM,
    "stack": STACK,
    "time": "Duration (us)",
    "duration": "Duration (us)",
}
"""Short names of metrics, for constraints and goals."""

BATCH = 32
"""Candidates in an image, if they fit. The next batch is built while one is measured."""

_TOO_LARGE = " needs "  # as `build_errors.explain` writes it


@dataclass
class Build:
    """A candidate on its way through compiler, linker and board."""

    index: int  # its place in the caller's list
    candidate: Candidate
    version: Version | None = None  # once it is compiled; None for an image
    key: str = ""  # digest of all that its result depends on; "" if not known
    sizes: Mapping[str, float] | None = None  # of its code and data; None if not known
    error: BoardprofError | None = None  # why it cannot be measured
    build_s: float = 0.0  # time of compiling, and its share of linking

    @property
    def function(self) -> str:
        """The function's name in its source; "" if not known."""
        return "" if self.version is None else self.version.function.name

    def name(self, offered: Sequence[str]) -> str:
        """Return its name in an image that offers these functions."""
        if self.version is not None:
            return self.version.name
        if len(offered) != 1:
            raise UsageError(
                f"It is not clear which function of {self.candidate.image} is meant: it has "
                f"{', '.join(offered) or 'none'}.",
                hint="name it: Runner(function=...)",
            )
        return offered[0]


@dataclass(frozen=True)
class Batch:
    """The candidates of one image, and those that need none."""

    image: BuiltFirmware | Path | None = None  # None if none of its candidates can be measured
    builds: Sequence[Build] = ()
    failed: Sequence[Build] = ()  # candidates that have an error already
    repeated: Sequence[Build] = ()  # candidates whose key was seen before

    @property
    def is_shared(self) -> bool:
        """Whether the image was linked from several candidates."""
        return len(self.builds) + len(self.failed) > 1


@dataclass
class ImageFactory:
    """Makes the images of candidates, in order. Use it in a ``with``."""

    builder: VersionBuilder
    candidates: Sequence[Candidate]
    base: BuildOptions  # options of each compilation
    sources: Sequence[Path]  # of candidates that have none of their own
    # returns the key of a candidate's code under the conditions of all results
    conditions: Callable[[str], str]
    is_known: Callable[[Sequence[str]], set[str]]  # tells which keys need not be measured
    _pool: ThreadPoolExecutor = field(init=False)
    _linker: ThreadPoolExecutor = field(init=False)
    _seen: set[str] = field(init=False, default_factory=set)
    _most: int = field(init=False, default=BATCH)

    def __enter__(self) -> Self:
        """Start the threads."""
        self._pool = ThreadPoolExecutor(os.cpu_count(), "boardprof-compile")
        self._linker = ThreadPoolExecutor(1, "boardprof-link")
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """End the threads; after an error also what they compile."""
        if error is not None:
            self.builder.stop()
        self._linker.shutdown(cancel_futures=True)
        self._pool.shutdown(cancel_futures=True)

    def batches(self) -> Iterator[Batch]:
        """Yield the batches, each as soon as it is linked."""
        builds = [Build(index, each) for index, each in enumerate(self.candidates)]
        compiled = [self._pool.submit(self._compiled, build) for build in builds]
        chunks = [compiled[at : at + BATCH] for at in range(0, len(compiled), BATCH)]
        waiting = [self._linker.submit(self._linked, chunk) for chunk in chunks]
        for each in waiting:
            yield from each.result()

    def _compiled(self, build: Build) -> Build:
        began_s = time.monotonic()
        try:
            self._compile(build)
        except MissingToolError:
            raise
        except BoardprofError as error:
            build.error = error
        build.build_s = time.monotonic() - began_s
        return build

    def _compile(self, build: Build) -> None:
        candidate = build.candidate
        if candidate.image is not None:
            path = Path(candidate.image).absolute()
            content = FileHashes().of(path)
            if content is None:
                raise UsageError(f"The image {path} cannot be read.")
            build.key = self.conditions(content)
            build.sizes = _sizes_of(*(sizes_of(self.builder.spec, [path]) or ()))
            return
        files = [self.builder.write_source(candidate.text)] if candidate.text is not None else []
        files = files or candidate.files or list(self.sources)
        if not files:
            raise UsageError(
                "A candidate has no source.", hint="give it one, or sources= to the runner"
            )
        extra = [Path(each) for each in self.base.sources if Path(each).suffix != ".a"]
        options = candidate.options(self.base)
        build.version = self.builder.compile([*files, *extra], options)
        build.key = self.conditions(build.version.code)

    def _linked(self, chunk: Sequence[Future[Build]]) -> list[Batch]:
        """Link a chunk of candidates to one image, or to several."""
        builds = [each.result() for each in chunk]
        failed = [build for build in builds if build.error is not None]
        able = [build for build in builds if build.error is None]
        known = self.is_known([build.key for build in able])
        fresh: list[Build] = []
        repeated: list[Build] = []
        for build in able:
            is_new = build.key not in known and build.key not in self._seen
            self._seen.add(build.key)
            (fresh if is_new else repeated).append(build)
        batches = [Batch(failed=failed, repeated=repeated)]
        shared: list[Build] = []
        for build in fresh:
            if build.version is None:
                batches.append(Batch(Path(build.candidate.image or ""), [build]))
            elif build.version.is_alone:
                batches += self._halved([build])
            else:
                shared.append(build)
        for at in range(0, len(shared), self._most):
            batches += self._halved(shared[at : at + self._most])
        return batches

    def halves(self, builds: Sequence[Build]) -> list[Batch]:
        """Link candidates of a shared image again in two images; a single one in its own."""
        half = len(builds) // 2
        return [*self._halved(builds[:half]), *self._halved(builds[half:])]

    def _halved(self, builds: Sequence[Build]) -> list[Batch]:
        """Link candidates, in halves if they do not link together."""
        if not builds:
            return []
        versions = [build.version for build in builds if build.version is not None]
        began_s = time.monotonic()
        try:
            firmware = self.builder.link(versions)
        except MissingToolError:
            raise
        except BuildError as error:
            if len(builds) == 1:
                builds[0].error = error
                return [Batch(failed=builds)]
            if _TOO_LARGE in error.message:
                self._most = min(self._most, max(1, len(builds) // 2))
            return self.halves(builds)
        sizes = self.builder.sizes(versions)
        share_s = (time.monotonic() - began_s) / len(builds)
        for build, size in zip(builds, sizes, strict=True):
            build.build_s += share_s
            build.sizes = _sizes_of(size)
            build.error = _missing(build, firmware)
        failed = [build for build in builds if build.error is not None]
        return [Batch(firmware, [build for build in builds if build.error is None], failed)]


def _missing(build: Build, firmware: BuiltFirmware) -> BuildError | None:
    """Return an error if a function was left out of an image."""
    assert build.version is not None
    symbol = firmware.missing.get(build.version.name)
    if symbol is None:
        return None
    return BuildError(
        f"{build.function} does not link: it needs {symbol}, which is not defined.",
        hint="give the file that defines it among the sources",
    )


def _sizes_of(size: Mapping[str, int] | None = None) -> dict[str, float] | None:
    """Return flash and RAM of a file: initial values of variables are in both."""
    if size is None:
        return None
    count = Counter(size)
    return {FLASH: count["text"] + count["data"], RAM: count["data"] + count["bss"]}
