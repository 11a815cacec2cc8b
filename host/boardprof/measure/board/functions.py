# SPDX-License-Identifier: Apache-2.0
"""The board's packed functions as attributes, called with Python values."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from boardprof.base.errors import UnknownNameError, UsageError, option
from boardprof.measure.sampling.board_link import BoardLink
from boardprof.measure.sampling.counted_pass import Value
from boardprof.measure.sampling.placement import Placement
from boardprof.target.arguments.binding import RETURN, Arguments, bind
from boardprof.target.arguments.passing import BoardPointer
from boardprof.target.arguments.signature import Signature, pack_arguments, parse_signature
from boardprof.target.arguments.struct_value import members_text
from boardprof.target.cfunction import (
    CHAR,
    CFunction,
    Pointer,
    Scalar,
    Struct,
    signature,
    signature_forms,
)
from boardprof.wire.decode.dictionary import FunctionInfo

Call = Callable[["RemoteFunction", Sequence[object], Mapping[str, object]], object]
"""Calls a function with values by position and by name, through `RemoteFunction.run`."""


class RemoteFunction:
    """A packed function of the board, callable with Python values."""

    def __init__(self, link: BoardLink, info: FunctionInfo, call: Call) -> None:
        """Wrap one entry of the board's dictionary."""
        self.info = info
        self._link = link
        self._call = call
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
        return self._call(self, args, named)

    def run(self, args: Sequence[object], named: Mapping[str, object], call: Value) -> object:
        """Do the same as `__call__`, but make the call itself with ``call``."""
        info, signature = self.info, self._signature or self.signature
        if not self._is_checked:
            self._link.stack_check.require(info.name)
            self._is_checked = True
        if not signature.is_plain:
            arguments = self.bind(args, named)
            turn = self._link.session.exclusive(info.name)
            with turn, Placement(self._link.memory, arguments, store=True) as placement:
                value = placement.call(info).execute(call)
                outputs = placement.fetch()
                return self.result(value, placement, outputs)
        if any(type(value) is str for value in (*args, *named.values())):
            self._learn_names([*args, *named.values()])
            signature = self.signature
        packed, count = pack_arguments(info.name, signature, args, named)
        value = call(info.id, packed, count, info.name)
        signature.check_result(info.name, value)
        return value

    def result(self, value: object, placement: Placement, outputs: Mapping[str, Any]) -> object:
        """Return what a call returned, as a Python value; a struct as a dict, a pointer as such."""
        self.signature.check_result(self.info.name, value)
        returns = self.signature.returns
        if returns is None:
            return value
        if not returns.by_value:
            assert isinstance(value, bytes)
            found = placement.pointer_of(value)
            # With 16 bits, functions and variables have the same addresses: symbols are ambiguous.
            is_ambiguous = self._link.memory.pointer_size == 2
            if found is not None and returns.is_function and is_ambiguous:
                return replace(found, text="pointer to a function")
            return found
        place = next(each for each in placement.arguments.arrays if each.name == RETURN)
        if place.struct is None:
            return outputs[RETURN][0]
        return place.members()

    def reported(self, value: object, placement: Placement, outputs: Mapping[str, Any]) -> object:
        """Return what a call returned as Reports show it; see `result`."""
        return self.result_text(self.result(value, placement, outputs))

    def result_text(self, result: object) -> object:
        """Return a result as Reports show it: a struct or a pointer as text, a number as it is."""
        returns = self.signature.returns
        if returns is None:
            return result
        if returns.by_value:
            return members_text(result)
        if not isinstance(result, BoardPointer):
            return "NULL"
        if returns.element == CHAR and result.token is not None:
            return json.dumps(self._link.memory.text_at(result))
        return str(result) if not str(result).startswith("pointer ") else "a pointer"

    @property
    def signature(self) -> Signature:
        """Its parameters and result."""
        if self._signature is None:
            self._signature = self._described(reads_image=False)
        return self._signature

    def _described(self, *, reads_image: bool) -> Signature:
        """Return the signature with the facts that the board does not report."""
        # Reading an image takes a while. Numbers need it only for the names of enums.
        parsed = parse_signature(self.info.signature)
        source = self._link.image.sources.get(self.info.name)
        if source is None and (reads_image or not parsed.is_plain):
            source = self._link.image.source_of(self.info.name)
        if source is not None and self.info.signature in signature_forms(source):
            parsed = parse_signature(signature(source))  # the board's may be shortened
        return _with_members(parsed, source)

    def _learn_names(self, values: Iterable[object]) -> None:
        """Read the names of enums from the image if a value is a name, unless they are known."""
        if any(isinstance(each, str) and each.isidentifier() for each in values):
            source = self._link.image.sources.get(self.info.name)
            if source is None:
                self._signature = self._described(reads_image=True)

    def bind(self, args: Sequence[object], named: Mapping[str, object]) -> Arguments:
        """Give each parameter its value; see `boardprof.target.arguments.binding.bind`."""
        self._learn_names([*args, *named.values()])
        order = self._link.memory.byte_order
        return bind(self.info.name, self.signature, args, named, order, self._function_id)

    def _function_id(self, name: str) -> int:
        try:
            return self._link.dictionary.function(name).id
        except UnknownNameError as error:
            hint = f"if {name} is static, {option('--no-inline', name)} puts it on the board"
            raise UnknownNameError("function", name, error.known, hint=hint) from None

    def __repr__(self) -> str:
        """Return name and signature."""
        return f"<function {self.info.name}{self.info.signature} on the board>"


def _with_members(signature: Signature, source: CFunction | None) -> Signature:
    """Add to a signature what a board does not report: members of structs, names of enums."""
    if source is None:
        return signature
    pointers, numbers = dict(signature.pointers), {}
    for parameter in source.parameters:
        known, better = pointers.get(parameter.name), parameter.type
        if known is not None and isinstance(better, Pointer) and better.text == known.text:
            pointers[parameter.name] = replace(known, element=better.element)
        elif isinstance(better, Scalar):
            numbers[parameter.name] = better
    returns, better_result = signature.returns, source.result
    if returns and isinstance(better_result, Pointer) and better_result.text == returns.text:
        returns = replace(returns, element=better_result.element)
    structs = {(each.name, each.size): each for each in source.structs}
    for pointer in (*pointers.values(), returns):
        element = None if pointer is None else pointer.element
        if isinstance(element, Struct) and element.fields:
            structs[element.name, element.size] = element
    return replace(signature, pointers=pointers, returns=returns, numbers=numbers, structs=structs)


class Functions:
    """The board's functions as attributes: ``board.functions.fir(3)``; or by name in brackets."""

    def __init__(self, link: BoardLink, call: Call) -> None:
        """Offer the functions in the board's dictionary."""
        self._link = link
        self._call = call
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
            self._known[name] = RemoteFunction(self._link, self._info(name), self._call)
        return self._known[name]

    def _info(self, name: str) -> FunctionInfo:
        try:
            return self._link.dictionary.function(name)
        except UnknownNameError as error:
            if self._link.image.file is None:
                raise
            hint = "Firmware.functions has the reason if it cannot be called over the wire"
            raise UnknownNameError("function", name, error.known, hint=hint) from None

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
        return iter([f.name for f in self._link.dictionary.user_functions])

    def __dir__(self) -> list[str]:
        """List the functions for completion."""
        return list(self)
