# SPDX-License-Identifier: Apache-2.0
"""The structs that a board's functions point to, as numpy types."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal

from boardprof.cfunction import CFunction, Pointer, Struct
from boardprof.errors import UnknownNameError, UsageError

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Dtypes"]


class Dtypes(Mapping[str, "np.dtype[Any]"]):
    """Numpy types by the structs' names: ``np.zeros(4, board.dtypes["fir_state"])``.

    Their members are known of firmware that was built here; of what else runs on a board there are
    none.
    """

    def __init__(
        self, functions: Mapping[str, CFunction], order: Literal["little", "big"] = "little"
    ) -> None:
        """Offer the structs of ``functions``, which may become more; bytes as on the board."""
        self._functions = functions
        self._order = order

    def __getitem__(self, name: str) -> np.dtype[Any]:
        """Return the type of the struct called ``name``.

        Raises:
            UnknownNameError: no function points to such a struct.
            UsageError: several structs have the name.
        """
        found = self._structs().get(name, {})
        if not found:
            raise UnknownNameError(
                "struct that functions of the board point to",
                name,
                list(self),
                hint="known are those of firmware that is opened by boardprof.build(...).open()",
            )
        if len(found) > 1:
            raise UsageError(
                f"{len(found)} different structs of the sources are called {name}.",
                hint="give them names of their own",
            )
        from boardprof.arguments.struct_dtype import struct_dtype  # numpy, only where it is used

        return struct_dtype(next(iter(found)), self._order)

    def __contains__(self, name: object) -> bool:
        """Tell whether a function points to a struct of that name."""
        return name in self._structs()

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names."""
        return iter(self._structs())

    def __len__(self) -> int:
        """Return how many names there are."""
        return len(self._structs())

    def _structs(self) -> dict[str, dict[Struct, None]]:
        structs: dict[str, dict[Struct, None]] = {}
        for function in self._functions.values():
            for parameter in function.parameters:
                pointer = parameter.type
                if isinstance(pointer, Pointer) and isinstance(pointer.element, Struct):
                    structs.setdefault(pointer.element.name, {})[pointer.element] = None
        return structs
