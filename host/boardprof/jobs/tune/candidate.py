# SPDX-License-Identifier: Apache-2.0
"""A candidate: one way to write or compile the function that is tuned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from boardprof.base.errors import UsageError
from boardprof.target.build.build_options import BuildOptions


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
        """Check that it has one origin.

        Raises:
            UsageError: it has several.
        """
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
        """Return the options of its compilation.

        Args:
            base: of all candidates.
        """
        given = self.defines.items()
        defines = [name if value is None else f"{name}={value}" for name, value in given]
        return replace(
            base, cflags=f"{base.cflags} {self.flags}", defines=(*base.defines, *defines)
        )


def as_candidates(values: Sequence[Candidate | str | Path]) -> list[Candidate]:
    """Return candidates; see `as_candidate`.

    Raises:
        UsageError: it is not a list of candidates.
    """
    if isinstance(values, str | Path | Candidate):
        raise UsageError("One candidate is not a list of candidates.", hint="measure([candidate])")
    return [as_candidate(each) for each in values]


def as_candidate(value: object) -> Candidate:
    """Return a candidate; a text is C source, and a path is a file or an image.

    Raises:
        UsageError: it is neither.
    """
    if isinstance(value, Candidate):
        return value
    if isinstance(value, str):
        return Candidate(text=value)
    if isinstance(value, Path):
        return Candidate(image=value) if value.suffix in (".elf", ".so") else Candidate(value)
    raise UsageError(
        f"{value!r:.60} is not a candidate.",
        hint="give a Candidate, C source as a text, or a Path",
    )
