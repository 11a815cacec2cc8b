# SPDX-License-Identifier: Apache-2.0
"""Compare the outputs of a function with expected values: arrays from files, or numbers.

Functions import numpy themselves: a run whose outputs nobody asks for does without it.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from boardprof.base.errors import UnknownNameError, UsageError, WrongOutputError
from boardprof.base.files import unwritable, write_bytes
from boardprof.results.record import RETURN
from boardprof.results.report.measurement import Measurement
from boardprof.target.arguments.argument_text import load_array
from boardprof.target.arguments.signature import to_float
from boardprof.target.cfunction import SCALARS, Scalar

if TYPE_CHECKING:
    import numpy.typing as npt

_BOARD = "{board}"
"""Placeholder for the board's name in a file name, as in the folders of ``--save-output``."""


@dataclass(frozen=True, eq=False)
class Expectation:
    """The expected value of one output."""

    name: str | None  # of the parameter, or "return"; None for the only output
    source: str  # its file, or the number as it was given
    array: npt.NDArray[Any]  # a number is an array without dimensions
    board: str | None = None  # None for every board
    is_number: bool = False


def read_expectations(text: str, boards: Sequence[str]) -> list[Expectation]:
    """Read ``@y.npy``, ``y=@y.npy`` or ``return=4``; of ``@{board}/y.npy``, each board's file."""
    if _BOARD not in text:
        return [_read(text, None)]
    if "" in boards:
        raise UsageError(f"--expect {text} needs the name of the board.", hint="-b BOARD")
    return [_read(text.replace(_BOARD, board), board) for board in boards]


def _read(text: str, board: str | None) -> Expectation:
    name, equals, value = text.rpartition("=")
    file = value.removeprefix("@")
    number = _number(value)
    if (number is None and value == file) or not file or (equals and not name):
        raise UsageError(
            f"{text!r} is not a valid --expect.", hint="--expect y=@y.npy, @y.npy or return=4"
        )
    if number is not None:
        return Expectation(name or None, value, number, board, is_number=True)
    array = load_array(file, f"--expect {text}", "--save-output DIR writes files that fit")
    values = array.astype(array.dtype.newbyteorder("="))
    return Expectation(name or None, file, values, board)


def _number(text: str) -> npt.NDArray[Any] | None:
    """Return a number, true or false as an array without dimensions, or None if it is neither."""
    import numpy as np

    try:
        number = {"false": 0, "true": 1}[text] if text in ("false", "true") else int(text, 0)
    except ValueError:
        try:
            return np.array(to_float(text))
        except (OverflowError, ValueError):
            return None
    array = np.array(number)
    return None if array.dtype == object else array  # more than 64 bits


def check_outputs(
    measurement: Measurement, expectations: Sequence[Expectation], tolerance: float = 0.0
) -> None:
    """Compare a measurement's outputs with the expected values."""
    # ``tolerance`` is the largest relative difference of floats; with 0 every bit must be the same.
    # NaN equals NaN.
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
    if RETURN in outputs and expectation.is_number:
        return RETURN
    if not arrays:
        raise UsageError(
            f"{measurement.function} returns nothing and writes no array: there is nothing to "
            f"compare with {expectation.source}."
        )
    if len(arrays) != 1:
        file = "FILE.npy" if expectation.is_number else expectation.source
        raise UsageError(
            f"{measurement.function} has {len(arrays)} outputs: {', '.join(arrays)}.",
            hint=f"say which: --expect {arrays[0]}=@{file}",
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
    if _is_scalar(found, wanted):
        _check_scalar(what, found, wanted, tolerance)
        return
    if expectation.is_number:
        raise UsageError(
            f"{what} is not a number, so it cannot be {expectation.source}.",
            hint=f"--expect {name}=@FILE.npy; --save-output DIR writes files that fit",
        )
    if (wanted.shape, wanted.dtype) != (found.shape, found.dtype):
        raise UsageError(
            f"{what} is {found.dtype}{list(found.shape)}; {expectation.source} has "
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
        raise WrongOutputError(
            f"{what} differs from {expectation.source}: {count:,} of {found.size:,} values. The "
            f"first is {name}{place}: {found[first]!s}, expected {wanted[first]!s}"
            f"{_furthest(found, wanted)}.",
            hint=_tolerance_hint(found, tolerance),
        )


def _is_scalar(found: npt.NDArray[Any], wanted: npt.NDArray[Any]) -> bool:
    """Return whether both are numbers without dimensions, whatever their types are."""
    return not (found.shape or wanted.shape) and {found.dtype.kind, wanted.dtype.kind} <= {*"biuf"}


def _check_scalar(
    what: str, found: npt.NDArray[Any], wanted: npt.NDArray[Any], tolerance: float
) -> None:
    """Compare numbers; a decimal one is first rounded to the function's type of float."""
    import numpy as np

    with np.errstate(all="ignore"):
        same = wanted.astype(found.dtype)
    kept = found.dtype.kind == "f" or same.item() == wanted.item()
    if not kept or not _equal(found, same, tolerance):
        raise WrongOutputError(
            f"{what} is {found!s}, expected {wanted!s}{_furthest(found, wanted)}.",
            hint=_tolerance_hint(found, tolerance),
        )


def _tolerance_hint(found: npt.NDArray[Any], tolerance: float) -> str | None:
    floats = found.dtype.kind == "f" and not tolerance
    return "--tolerance 1e-6 lets floats differ by that share" if floats else None


def _equal(found: npt.NDArray[Any], wanted: npt.NDArray[Any], tolerance: float) -> npt.NDArray[Any]:
    """Compare element by element: bits, or floats as `difference.is_equal` does."""
    import numpy as np

    if found.dtype.kind == "V" and found.dtype.names:
        members = [_equal(found[name], wanted[name], 0.0) for name in found.dtype.names]
        rows = [each.reshape(*found.shape, -1).all(axis=-1) for each in members]
        return np.asarray(np.logical_and.reduce(rows))
    size = found.dtype.itemsize
    bits = [
        np.ascontiguousarray(array).reshape(-1).view(np.uint8).reshape(*found.shape, size)
        for array in (found, wanted)
    ]
    same = np.asarray((bits[0] == bits[1]).all(axis=-1))
    if found.dtype.kind == "f":  # the bits of equal ones may differ, such as those of NaNs
        finest = np.result_type(found.dtype, np.float64)
        new, old = found[~same].astype(finest), wanted[~same].astype(finest)
        with np.errstate(all="ignore"):
            share = tolerance * np.abs(old)
            near = (np.abs(new - old) <= share) & np.isfinite(share) | (new == old)
        same[~same] = np.isnan(new) & np.isnan(old) | (near if tolerance else False)
    return same


def _furthest(found: npt.NDArray[Any], wanted: npt.NDArray[Any]) -> str:
    """Describe the largest relative difference of floats from the expected values."""
    import numpy as np

    if found.dtype.kind != "f":
        return ""
    with np.errstate(all="ignore"):
        shares = np.abs(found.astype(np.float64) - wanted) / np.abs(wanted.astype(np.float64))
    found_shares = shares[np.isfinite(shares) & (shares > 0)]  # none if only NaNs differ
    if not found_shares.size:
        return ""
    return f"; the largest relative difference is {found_shares.max():.3g}"


def outputs_of(measurement: Measurement) -> dict[str, npt.NDArray[Any]]:
    """Return the outputs of the extra call after the samples, by name, the return value first."""
    # The return value is an array without dimensions of the function's own type.
    outputs = dict(measurement.outputs)
    if measurement.result_type == "void":
        return outputs
    import numpy as np

    from boardprof.target.arguments.dtypes import element_dtype

    kind = measurement.result_type
    if kind not in SCALARS:  # a struct is among the outputs already, a pointer is a text
        return outputs if RETURN in outputs else {RETURN: np.array(measurement.result), **outputs}
    size = 1 if kind == "bool" else int(kind[1:]) // 8
    dtype = element_dtype(Scalar(kind, "", size)).newbyteorder("=")
    return {RETURN: np.array(measurement.result, dtype), **outputs}


def check_folder(folder: str) -> None:
    """Check before the first measurement that files can be written there; create the folder."""
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(folder, error) from error


def save_outputs(measurement: Measurement, folder: str | Path) -> list[Path]:
    """Write ``return.npy`` and one ``NAME.npy`` an output; return their paths."""
    import numpy as np

    paths = []
    for name, array in outputs_of(measurement).items():
        path = Path(folder) / f"{name}.npy"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            content = io.BytesIO()  # numpy does not report why it cannot write to a path
            np.save(content, array, allow_pickle=False)
        except OSError as error:
            raise unwritable(path, error) from error
        write_bytes(content.getvalue(), str(path))
        paths.append(path)
    return paths
