# SPDX-License-Identifier: Apache-2.0
"""What a function gave: its return value and the arrays that it wrote, and files of them."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

from boardprof.report.measurement import Measurement
from boardprof.writing import unwritable

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["RETURN", "check_folder", "outputs_of", "save_outputs"]

RETURN = "return"
"""Name of the return value among the outputs; no parameter can have it."""


def outputs_of(measurement: Measurement) -> dict[str, npt.NDArray[Any]]:
    """Return the outputs of the one call behind the samples, by name, the return value first.

    The return value is an array without dimensions of the function's own type.
    """
    outputs = dict(measurement.outputs)
    if measurement.result_type == "void":
        return outputs
    import numpy as np

    from boardprof.arguments.struct_dtype import element_dtype
    from boardprof.cfunction import Scalar

    kind = measurement.result_type
    size = 1 if kind == "bool" else int(kind[1:]) // 8
    dtype = element_dtype(Scalar(kind, "", size)).newbyteorder("=")
    return {RETURN: np.array(measurement.result, dtype), **outputs}


def check_folder(folder: str) -> None:
    """See before anything is measured that files can be written there; it is made if need be.

    Raises:
        UsageError, StorageError: it cannot.
    """
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(folder, error) from error


def save_outputs(measurement: Measurement, folder: str | Path) -> list[Path]:
    """Write ``return.npy`` and one ``NAME.npy`` an output; return their paths.

    Raises:
        UsageError, StorageError: a file cannot be written.
    """
    import numpy as np

    paths = []
    for name, array in outputs_of(measurement).items():
        path = Path(folder) / f"{name}.npy"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            content = io.BytesIO()  # to a file itself, numpy does not tell why it cannot write
            np.save(content, array, allow_pickle=False)
            path.write_bytes(content.getbuffer())
        except OSError as error:
            raise unwritable(path, error) from error
        paths.append(path)
    return paths
