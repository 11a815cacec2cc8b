# SPDX-License-Identifier: Apache-2.0
"""The board's packed functions as attributes, called with Python values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from boardprof.arguments.arguments import Arguments, bind
from boardprof.arguments.signature import Signature, pack_arguments, parse_signature
from boardprof.board.call_observers import OBSERVERS, HostCall, observe
from boardprof.cfunction import CFunction, Pointer
from boardprof.decode.dictionary import FunctionInfo
from boardprof.errors import UnknownNameError, UsageError
from boardprof.measure.placement import Placement

if TYPE_CHECKING:
    from boardprof.board.board import Board
    from boardprof.measure.counted_pass import Value


class RemoteFunction:
    """A packed function of the board, callable with Python values.

    Attributes:
        info: its entry in the board's dictionary.
    """

    def __init__(self, board: Board, info: FunctionInfo) -> None:
        """Wrap one entry of the dictionary of ``board``."""
        self.info = info
        self._board = board
        self._value = board.session.value
        self._is_checked = False  # that the board's stack is large enough
        self._signature: Signature | None = None  # read at the first call

    def __call__(self, *args: object, **named: object) -> object:
        """Call it once on the board; return its result as a Python value.

        Arrays for ``T*`` are changed in place, as by a call in C; see `array_argument` for the
        values of pointers.

        Raises:
            UsageError: the arguments do not fit the signature, or the board's arena.
            DeviceFaultError: it trapped; or its stack is too small, and it was not called.
            FrameError: the board returned something that is not of the declared type.
            RpcError, DeviceError, BoardTimeoutError, LinkError: see `Session.call`.
        """
        if OBSERVERS:
            call = HostCall(self._board, self, args, named)
            return observe(call, lambda value: self._run(args, named, value), self._value)
        return self._run(args, named, self._value)

    def _run(self, args: Sequence[object], named: Mapping[str, object], call: Value) -> object:
        """Do the same as `__call__`, but make the call itself with ``call``."""
        info, signature = self.info, self._signature or self.signature
        if not self._is_checked:
            self._board.stack_check.require(info.name)
            self._is_checked = True
        if signature.pointers:
            with Placement(self._board.memory, self.bind(args, named)) as placement:
                value = placement.call(info).execute(call)
                placement.fetch()
        else:
            packed, count = pack_arguments(info.name, signature, args, named)
            value = call(info.id, packed, count, info.name)
        signature.check_result(info.name, value)
        return value

    @property
    def signature(self) -> Signature:
        """Its parameters and result.

        Raises:
            UsageError: this version of boardprof does not know the form of the signature.
        """
        if self._signature is None:
            source = self._board.sources.get(self.info.name)
            self._signature = _with_members(parse_signature(self.info.signature), source)
        return self._signature

    def bind(self, args: Sequence[object], named: Mapping[str, object]) -> Arguments:
        """Give each parameter its value; see `boardprof.arguments.arguments.bind`."""
        return bind(self.info.name, self.signature, args, named, self._board.memory.byte_order)

    def __repr__(self) -> str:
        """Return name and signature."""
        return f"<function {self.info.name}{self.info.signature} on the board>"


def _with_members(signature: Signature, source: CFunction | None) -> Signature:
    """Add the members to the structs of a signature; a board only reports their sizes."""
    pointers = dict(signature.pointers)
    for parameter in source.parameters if source is not None else ():
        known, better = pointers.get(parameter.name), parameter.type
        if known is not None and isinstance(better, Pointer) and better.text == known.text:
            pointers[parameter.name] = replace(known, element=better.element)
    return replace(signature, pointers=pointers)


class Functions:
    """The board's functions as attributes: ``board.functions.fir(3)``; or by name in brackets."""

    def __init__(self, board: Board) -> None:
        """Offer the functions in the dictionary of ``board``."""
        self._board = board
        self._known: dict[str, RemoteFunction] = {}

    def __getitem__(self, name: str) -> RemoteFunction:
        """Return the function called ``name``.

        Raises:
            UnknownNameError: no such function.
            UsageError: it is not a name.
        """
        if not isinstance(name, str):
            known = name.info.name if isinstance(name, RemoteFunction) else "fir"
            raise UsageError(
                f"{name!r:.80} is not the name of a function.",
                hint=f'give a string, such as "{known}"',
            )
        if name not in self._known:
            self._known[name] = RemoteFunction(self._board, self._board.dictionary.function(name))
        return self._known[name]

    def __getattr__(self, name: str) -> RemoteFunction:
        """Return the function called ``name``, or raise AttributeError with the known names."""
        if "_known" not in self.__dict__:  # copy and pickle ask before __init__ has run
            raise AttributeError(name)
        try:
            remote = self[name]
        except UnknownNameError as error:
            raise AttributeError(str(error)) from error
        self.__dict__[name] = remote  # later look-ups find it there
        return remote

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of the board's own functions."""
        return iter([f.name for f in self._board.dictionary.user_functions])

    def __dir__(self) -> list[str]:
        """List the functions for completion."""
        return list(self)
