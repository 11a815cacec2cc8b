# SPDX-License-Identifier: Apache-2.0
"""Images of candidates: compiled on all cores, linked in batches while the board measures.

A batch that does not link is split in halves, until the candidate that is to blame is alone.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from boardprof.base.errors import BoardprofError, BuildError, MissingToolError, UsageError
from boardprof.jobs.tune.candidate import FLASH, RAM, Candidate
from boardprof.target.build.build_options import BuildOptions
from boardprof.target.build.firmware import BuiltFirmware, sizes_of
from boardprof.target.build.versions import Version, VersionBuilder
from boardprof.target.toolchain.cache import FileHashes

BATCH = 32
"""Candidates in an image, if they fit. The next batch is built while one is measured."""

_TOO_LARGE = " needs "  # as `build_errors.explain` writes it


@dataclass
class Job:
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
    jobs: Sequence[Job] = ()
    failed: Sequence[Job] = ()  # candidates that have an error already
    repeated: Sequence[Job] = ()  # candidates whose key was seen before

    @property
    def is_shared(self) -> bool:
        """Whether the image was linked from several candidates."""
        return len(self.jobs) + len(self.failed) > 1


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
        jobs = [Job(index, each) for index, each in enumerate(self.candidates)]
        compiled = [self._pool.submit(self._compiled, job) for job in jobs]
        chunks = [compiled[at : at + BATCH] for at in range(0, len(compiled), BATCH)]
        waiting = [self._linker.submit(self._linked, chunk) for chunk in chunks]
        for each in waiting:
            yield from each.result()

    def _compiled(self, job: Job) -> Job:
        began_s = time.monotonic()
        try:
            self._compile(job)
        except MissingToolError:
            raise
        except BoardprofError as error:
            job.error = error
        job.build_s = time.monotonic() - began_s
        return job

    def _compile(self, job: Job) -> None:
        candidate = job.candidate
        if candidate.image is not None:
            path = Path(candidate.image).absolute()
            content = FileHashes().of(path)
            if content is None:
                raise UsageError(f"The image {path} cannot be read.")
            job.key = self.conditions(content)
            job.sizes = _sizes_of(*(sizes_of(self.builder.spec, [path]) or ()))
            return
        files = [self.builder.write_source(candidate.text)] if candidate.text is not None else []
        files = files or candidate.files or list(self.sources)
        if not files:
            raise UsageError(
                "A candidate has no source.", hint="give it one, or sources= to the runner"
            )
        extra = [Path(each) for each in self.base.sources if Path(each).suffix != ".a"]
        options = candidate.options(self.base)
        job.version = self.builder.compile([*files, *extra], options)
        job.key = self.conditions(job.version.code)

    def _linked(self, chunk: Sequence[Future[Job]]) -> list[Batch]:
        """Link a chunk of candidates to one image, or to several."""
        jobs = [each.result() for each in chunk]
        failed = [job for job in jobs if job.error is not None]
        able = [job for job in jobs if job.error is None]
        known = self.is_known([job.key for job in able])
        fresh: list[Job] = []
        repeated: list[Job] = []
        for job in able:
            is_new = job.key not in known and job.key not in self._seen
            self._seen.add(job.key)
            (fresh if is_new else repeated).append(job)
        batches = [Batch(failed=failed, repeated=repeated)]
        images = [job for job in fresh if job.version is None]
        batches += [Batch(Path(job.candidate.image or ""), [job]) for job in images]
        versions = [job for job in fresh if job.version is not None]
        alone = [job for job in versions if job.version is not None and job.version.is_alone]
        batches += [batch for job in alone for batch in self._halved([job])]
        shared = [job for job in versions if job not in alone]
        for at in range(0, len(shared), self._most):
            batches += self._halved(shared[at : at + self._most])
        return batches

    def halves(self, jobs: Sequence[Job]) -> list[Batch]:
        """Link candidates of a shared image again in two images; a single one in its own."""
        half = len(jobs) // 2
        return [*self._halved(jobs[:half]), *self._halved(jobs[half:])]

    def _halved(self, jobs: Sequence[Job]) -> list[Batch]:
        """Link candidates, in halves if they do not link together."""
        if not jobs:
            return []
        versions = [job.version for job in jobs if job.version is not None]
        began_s = time.monotonic()
        try:
            firmware = self.builder.link(versions)
        except MissingToolError:
            raise
        except BuildError as error:
            if len(jobs) == 1:
                jobs[0].error = error
                return [Batch(failed=jobs)]
            half = len(jobs) // 2
            if _TOO_LARGE in error.message:
                self._most = min(self._most, max(1, half))
            return [*self._halved(jobs[:half]), *self._halved(jobs[half:])]
        sizes = self.builder.sizes(versions)
        share_s = (time.monotonic() - began_s) / len(jobs)
        for job, size in zip(jobs, sizes, strict=True):
            job.build_s += share_s
            job.sizes = _sizes_of(size)
            job.error = _missing(job, firmware)
        failed = [job for job in jobs if job.error is not None]
        return [Batch(firmware, [job for job in jobs if job.error is None], failed)]


def _missing(job: Job, firmware: BuiltFirmware) -> BuildError | None:
    """Return an error if a function was left out of an image."""
    assert job.version is not None
    symbol = firmware.missing.get(job.version.name)
    if symbol is None:
        return None
    return BuildError(
        f"{job.function} does not link: it needs {symbol}, which is not defined.",
        hint="give the file that defines it among the sources",
    )


def _sizes_of(size: Mapping[str, int] | None = None) -> dict[str, float] | None:
    """Return flash and RAM of a file: initial values of variables are in both."""
    if size is None:
        return None
    count = Counter(size)
    return {FLASH: count["text"] + count["data"], RAM: count["data"] + count["bss"]}
