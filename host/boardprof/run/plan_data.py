# SPDX-License-Identifier: Apache-2.0
"""What goes into the functions of a plan and what must come out, read before anything is built."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from boardprof.arguments.argument_text import ArgumentText, read_argument
from boardprof.arguments.signature import Signature
from boardprof.errors import UsageError
from boardprof.report.measurement import Measurement
from boardprof.run.expectation import Expectation, check_outputs, read_expectations
from boardprof.run.outputs import check_folder, save_outputs

__all__ = ["PlanData", "read_plan_data"]


@dataclass(frozen=True)
class PlanData:
    """Arguments, expectations and the place for outputs, the same for every board.

    Attributes:
        arguments: by parameter name.
        expectations: what outputs must be.
        tolerance: of floats, as a share of what is expected.
        folder: where outputs go; None: nowhere.
    """

    arguments: Mapping[str, ArgumentText] = field(default_factory=dict)
    expectations: Sequence[Expectation] = ()
    tolerance: float = 0.0
    folder: Path | None = None

    def values(self, signature: Signature) -> dict[str, object]:
        """Return the arguments for a function, arrays as copies of their own.

        Names that it does not know stay in, to be refused with the others.

        Raises:
            UsageError: an array for a scalar, or the other way round.
        """
        known = {name for name, _ in signature.parameters}
        return {
            # Of a parameter that is not there nothing can be said; the call tells the right name.
            name: text.value(signature.pointers.get(name)) if name in known else text.text
            for name, text in self.arguments.items()
        }

    def take(self, measurement: Measurement, *below: str) -> None:
        """Save a measurement's outputs, if that is wanted, and hold them against what is expected.

        Args:
            measurement: with the outputs of one call.
            below: folders within the one for outputs, where there are several boards, say.

        Raises:
            UsageError: a file cannot be written, or an expectation does not fit.
            CheckFailedError: an output is not what is expected.
        """
        if self.folder is not None:
            parts = [part.replace("/", "_").replace(" ", "_") for part in below]
            save_outputs(measurement, self.folder.joinpath(*parts))
        check_outputs(measurement, self.expectations, self.tolerance)


def read_plan_data(
    arguments: Mapping[str, str],
    expect: Sequence[str] = (),
    tolerance: float = 0.0,
    folder: str | None = None,
    boards: Sequence[str] = (),
) -> PlanData:
    """Read what the command line says, and the files that it names.

    Args:
        arguments: texts by parameter name; see `read_argument`.
        expect: texts; see `read_expectations`.
        tolerance: see `check_outputs`.
        folder: where outputs go; it is made if need be.
        boards: the names of those that are measured.

    Raises:
        UsageError: a text has no form that is known, or a file or folder cannot be had.
    """
    expectations = [each for text in expect for each in read_expectations(text, boards)]
    if tolerance and not expectations:
        raise UsageError("A tolerance needs something to expect.", hint="--expect @y.npy")
    texts = {name: read_argument(name, text) for name, text in arguments.items()}
    if folder is not None:
        check_folder(folder)
    return PlanData(texts, expectations, tolerance, None if folder is None else Path(folder))
