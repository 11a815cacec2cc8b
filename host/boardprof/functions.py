# SPDX-License-Identifier: Apache-2.0
"""The board's packed functions as Python's: called with Python values, found as attributes."""

from __future__ import annotations

from collections.abc import Iterator

from boardprof.dictionary import Dictionary, FunctionInfo
from boardprof.errors import UnknownNameError
from boardprof.session import Session
from boardprof.signature import Signature, pack_arguments, parse_signature

__all__ = ["Functions", "RemoteFunction"]


class RemoteFunction:
    """A packed function of the board, callable with Python values."""

    def __init__(self, session: Session, info: FunctionInfo) -> None:
        """Wrap one entry of the board's dictionary."""
        self.info = info
        self._session = session
        self._signature: Signature | None = None  # read at the first call
        self._is_plain = False  # known to take nothing

    def __call__(self, *args: object, **named: object) -> object:
        """Call it once on the board; returns its result as a Python value.

        Raises:
            UsageError: the arguments do not fit the signature.
            RpcError, DeviceError, BoardTimeoutError, LinkError: see `Session.call`.
        """
        info = self.info
        if self._is_plain and not (args or named):
            return self._session.value(info.id, b"", 0, info.name)
        packed, count = self.pack(*args, **named)
        return self._session.value(info.id, packed, count, info.name)

    def pack(self, *args: object, **named: object) -> tuple[bytes, int]:
        """Pack the arguments for the wire; see `pack_arguments`."""
        signature = self._signature
        if signature is None:
            signature = self._signature = parse_signature(self.info.signature)
            self._is_plain = not signature.parameters
        return pack_arguments(self.info.name, signature, args, named)

    def __repr__(self) -> str:
        """Return name and signature."""
        return f"<function {self.info.name}{self.info.signature} on the board>"


class Functions:
    """The board's functions as attributes: ``board.functions.fir(3)``; or by name in brackets."""

    def __init__(self, session: Session, dictionary: Dictionary) -> None:
        """Offer what the dictionary lists."""
        self._session = session
        self._dictionary = dictionary
        self._known: dict[str, RemoteFunction] = {}

    def __getitem__(self, name: str) -> RemoteFunction:
        """Return the function called ``name``, or raise UnknownNameError."""
        if name not in self._known:
            self._known[name] = RemoteFunction(self._session, self._dictionary.function(name))
        return self._known[name]

    def __getattr__(self, name: str) -> RemoteFunction:
        """Return the function called ``name``, or raise AttributeError with what there is."""
        if "_known" not in self.__dict__:  # copy and pickle ask before anything is there
            raise AttributeError(name)
        try:
            remote = self[name]
        except UnknownNameError as error:
            raise AttributeError(str(error)) from error
        self.__dict__[name] = remote  # found there from now on, without coming here
        return remote

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of the board's own functions."""
        return iter([f.name for f in self._dictionary.user_functions])

    def __dir__(self) -> list[str]:
        """List the functions for completion."""
        return list(self)
