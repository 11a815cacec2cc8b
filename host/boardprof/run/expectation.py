# SPDX-License-Identifier: Apache-2.0
"""Whether what a function gave is what a file says it should."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from boardprof.arguments.argument_text import load_array
from boardprof.errors import CheckFailedError, UnknownNameError, UsageError
from boardprof.report.measurement import Measurement
from boardprof.run.outputs import RETURN, outputs_of

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["Expectation", "check_outputs", "read_expectations"]

_BOARD = "{board}"
"""In a file's name: where the board's stands, as in the folders of ``--save-output``."""


@dataclass(frozen=True, eq=False)
class Expectation:
    """What one output must be.

    Attributes:
        name: of the parameter, or ``return``; None: the only output that there is.
        file: where it is from.
        array: as the file has it.
        board: whose output; None: each board's.
    """

    name: str | None
    file: str
    array: npt.NDArray[Any]
    board: str | None = None


def read_expectations(text: str, boards: Sequence[str]) -> list[Expectation]:
    """Read ``@y.npy`` or ``y=@y.npy``; of ``@{board}/y.npy``, the file of each board.

    Args:
        text: as ``--expect`` takes it.
        boards: the names of those that are measured; "" where it is not named.

    Raises:
        UsageError: it has another form, a file cannot be read, or the board has no name yet.
    """
    if _BOARD not in text:
        return [_read(text, None)]
    if "" in boards:
        raise UsageError(f"--expect {text} needs the name of the board.", hint="-b BOARD")
    return [_read(text.replace(_BOARD, board), board) for board in boards]


def _read(text: str, board: str | None) -> Expectation:
    name, equals, file = text.rpartition("=")
    if not file.startswith("@") or file == "@" or (equals and not name):
        raise UsageError(
            f"{text!r} says nothing of what to expect.", hint="--expect y=@y.npy, or @y.npy"
        )
    array = load_array(file[1:], f"--expect {text}", "--save-output DIR writes files that fit")
    values = array.astype(array.dtype.newbyteorder("="))
    return Expectation(name or None, file[1:], values, board)


def check_outputs(
    measurement: Measurement, expectations: Sequence[Expectation], tolerance: float = 0.0
) -> None:
    """Hold a measurement's outputs against what is expected.

    Args:
        measurement: with the outputs of one call.
        expectations: what some or all of them must be; those of other boards are passed over.
        tolerance: how far floats may be from what is expected, as a share of it; 0: not a bit.

    Raises:
        UnknownNameError: there is no output of that name.
        UsageError: which output is meant is not said, or it has another shape or element type.
        CheckFailedError: an output is something else.
    """
    own = [each for each in expectations if each.board in (None, measurement.device.name)]
    outputs = outputs_of(measurement) if own else {}
    for expectation in own:
        name = _name(measurement, expectation, outputs)
        _check(measurement, name, outputs[name], expectation, tolerance)


def _name(
    measurement: Measurement, expectation: Expectation, outputs: Mapping[str, npt.NDArray[Any]]
) -> str:
    if expectation.name is not None:
        if expectation.name not in outputs:
            raise UnknownNameError(
                "output", expectation.name, list(outputs), where=f"of {measurement.function}"
            )
        return expectation.name
    arrays = [name for name in outputs if name != RETURN] or list(outputs)
    if not arrays:
        raise UsageError(
            f"{measurement.function} returns nothing and writes no array: there is nothing to "
            f"compare with {expectation.file}."
        )
    if len(arrays) != 1:
        raise UsageError(
            f"{measurement.function} has {len(arrays)} outputs: {', '.join(arrays)}.",
            hint=f"say which: --expect {arrays[0]}=@{expectation.file}",
        )
    return arrays[0]


def _check(
    measurement: Measurement,
    name: str,
    found: npt.NDArray[Any],
    expectation: Expectation,
    tolerance: float,
) -> None:
    import numpy as np

    wanted = expectation.array
    what = f"{name} of {measurement.function} on {measurement.device.name}"
    if (wanted.shape, wanted.dtype) != (found.shape, found.dtype):
        raise UsageError(
            f"{what} is {found.dtype}{list(found.shape)}; {expectation.file} has "
            f"{wanted.dtype}{list(wanted.shape)}.",
            hint="--save-output DIR writes files that fit",
        )
    if not found.size:
        return
    differs = ~_equal(found, wanted, tolerance)
    count = int(np.count_nonzero(differs))
    if count:
        first = tuple(int(i) for i in np.argwhere(differs)[0])
        place = f"[{', '.join(map(str, first))}]" if first else ""
        raise CheckFailedError(
            f"{what} is not what {expectation.file} has: {count:,} of {found.size:,} differ. The "
            f"first is {name}{place}: {found[first]!s}, expected {wanted[first]!s}"
            f"{_furthest(found, wanted)}.",
            hint="--tolerance 1e-6 lets floats differ by that share"
            if found.dtype.kind == "f" and not tolerance
            else None,
        )


def _equal(found: npt.NDArray[Any], wanted: npt.NDArray[Any], tolerance: float) -> npt.NDArray[Any]:
    """Compare element by element: bits, or floats to within the tolerance; NaN is NaN then."""
    import numpy as np

    if found.dtype.kind == "f" and tolerance:
        wide = np.promote_types(found.dtype, np.float64)  # the tolerance need not fit into others
        pair = found.astype(wide), wanted.astype(wide)
        with np.errstate(all="ignore"):
            return np.asarray(np.isclose(*pair, rtol=tolerance, atol=0.0, equal_nan=True))
    if found.dtype.kind == "V" and found.dtype.names:
        return np.asarray(found == wanted)
    size = found.dtype.itemsize
    bits = [
        np.ascontiguousarray(array).reshape(-1).view(np.uint8).reshape(*found.shape, size)
        for array in (found, wanted)
    ]
    return np.asarray((bits[0] == bits[1]).all(axis=-1))


def _furthest(found: npt.NDArray[Any], wanted: npt.NDArray[Any]) -> str:
    """Say how far floats are apart at most, as a share of what is expected."""
    import numpy as np

    if found.dtype.kind != "f":
        return ""
    with np.errstate(all="ignore"):
        shares = np.abs(found.astype(np.float64) - wanted) / np.abs(wanted.astype(np.float64))
    finite = shares[np.isfinite(shares)]
    return f"; the largest relative difference is {finite.max():.3g}" if finite.size else ""
