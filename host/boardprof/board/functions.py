# SPDX-License-Identifier: Apache-2.0
"""The board's packed functions as Python's: called with Python values, found as attributes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from boardprof.arguments.arguments import Arguments, bind
from boardprof.arguments.signature import Signature, pack_arguments, parse_signature
from boardprof.board.call_observers import OBSERVERS, HostCall, observe
from boardprof.board.memory import Memory
from boardprof.cfunction import CFunction, Pointer
from boardprof.decode.dictionary import Dictionary, FunctionInfo
from boardprof.errors import UnknownNameError, UsageError
from boardprof.link.session import Session
from boardprof.measure.placement import Placement

if TYPE_CHECKING:
    from boardprof.board.board import Board
    from boardprof.measure.counted_pass import Value


class RemoteFunction:
    """A packed function of the board, callable with Python values."""

    def __init__(
        self,
        session: Session,
        info: FunctionInfo,
        memory: Memory,
        source: CFunction | None = None,
        require: Callable[[str], None] | None = None,
        board: Board | None = None,
    ) -> None:
        """Wrap one entry of the board's dictionary.

        Args:
            session: with the board.
            info: the entry.
            memory: where arrays are placed.
            source: further facts about it, such as the members of structs.
            require: called with its name before its first call; refuses what cannot go well.
            board: the function's board, for observers of its calls. None if there are none.
        """
        self.info = info
        self._board = board
        self._source = source
        self._session = session
        self._memory = memory
        self._require = require
        self._signature: Signature | None = None  # read at the first call

    def __call__(self, *args: object, **named: object) -> object:
        """Call it once on the board; returns its result as a Python value.

        Arrays for ``T*`` are changed in place, as by a call in C; see `array_argument` for what may
        be passed for a pointer.

        Raises:
            UsageError: the arguments do not fit the signature, or the board's arena.
            DeviceFaultError: likewise its stack, which is seen before it is called; see
                `StackCheck.require`.
            FrameError: the board returned something that is not of the declared type.
            RpcError, DeviceError, BoardTimeoutError, LinkError: see `Session.call`.
        """
        if OBSERVERS and self._board is not None:
            call = HostCall(self._board, self, args, named)
            return observe(call, self._run, self._session.value)
        return self._run(args, named, self._session.value)

    def _run(self, args: Sequence[object], named: Mapping[str, object], call: Value) -> object:
        """Do the same as `__call__`, but make the call itself with ``call``."""
        info, signature = self.info, self._signature or self.signature
        if self._require is not None:
            self._require(info.name)
            self._require = None
        if signature.pointers:
            with Placement(self._memory, self.bind(args, named)) as placement:
                value = placement.call(info).execute(call)
                placement.fetch()
        else:
            packed, count = pack_arguments(info.name, signature, args, named)
            value = call(info.id, packed, count, info.name)
        signature.check_result(info.name, value)
        return value

    @property
    def signature(self) -> Signature:
        """What it takes and returns.

        Raises:
            UsageError: the board says it in a form that this boardprof does not know.
        """
        if self._signature is None:
            self._signature = _with_members(parse_signature(self.info.signature), self._source)
        return self._signature

    def bind(self, args: Sequence[object], named: Mapping[str, object]) -> Arguments:
        """Give each parameter its value; see `boardprof.arguments.arguments.bind`."""
        return bind(self.info.name, self.signature, args, named, self._memory.byte_order)

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

    def __init__(
        self,
        session: Session,
        dictionary: Dictionary,
        memory: Memory,
        sources: Mapping[str, CFunction] | None = None,
        require: Callable[[str], None] | None = None,
        board: Board | None = None,
    ) -> None:
        """Offer what the dictionary lists; arrays go into ``memory``.

        ``sources`` is what is known of some besides; it may become more before they are used.
        ``require`` is called with a function's name before its first call. ``board`` is whose they
        are, for those who watch their calls.
        """
        self._board = board
        self._sources: Mapping[str, CFunction] = {} if sources is None else sources
        self._session = session
        self._memory = memory
        self._require = require
        self._dictionary = dictionary
        self._known: dict[str, RemoteFunction] = {}

    def __getitem__(self, name: str) -> RemoteFunction:
        """Return the function called ``name``.

        Raises:
            UnknownNameError: there is none.
            UsageError: it is not a name.
        """
        if not isinstance(name, str):
            known = name.info.name if isinstance(name, RemoteFunction) else "fir"
            raise UsageError(
                f"{name!r:.80} is not the name of a function.",
                hint=f'give a string, such as "{known}"',
            )
        if name not in self._known:
            info = self._dictionary.function(name)
            source = self._sources.get(name)
            self._known[name] = RemoteFunction(
                self._session, info, self._memory, source, self._require, self._board
            )
        return self._known[name]

    def __getattr__(self, name: str) -> RemoteFunction:
        """Return the function called ``name``, or raise AttributeError with the known names."""
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
