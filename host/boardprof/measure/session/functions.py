# SPDX-License-Identifier: Apache-2.0
"""The board's packed functions as attributes, called with Python values; observers of all calls.

While `OBSERVERS` is empty, the only cost of a call is the check for that.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

from boardprof.base.errors import UnknownNameError, UsageError
from boardprof.measure.sampling.counted_pass import Value
from boardprof.measure.sampling.placement import Placement
from boardprof.target.arguments.arguments import RETURN, Arguments, bind
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

if TYPE_CHECKING:
    from boardprof.measure.sampling.passes import Rounds
    from boardprof.measure.session.board import Board
    from boardprof.results.report.measurement import Measurement


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
            with self._board.session.turn(self.info.name):
                return observe(call, lambda value: self._run(args, named, value), self._value)
        return self._run(args, named, self._value)

    def _run(self, args: Sequence[object], named: Mapping[str, object], call: Value) -> object:
        """Do the same as `__call__`, but make the call itself with ``call``."""
        info, signature = self.info, self._signature or self.signature
        if not self._is_checked:
            self._board.stack_check.require(info.name)
            self._is_checked = True
        if not signature.is_plain:
            arguments = self.bind(args, named)
            memory = self._board.memory
            turn = self._board.session.turn(info.name)
            with turn, Placement(memory, arguments, store=True) as placement:
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
        """Return what a call returned, as a Python value; a struct as a dict, a pointer as such.

        Args:
            value: what came over the wire.
            placement: of the call's arrays.
            outputs: the arrays that the call has written.

        Raises:
            FrameError: it is not of the declared type.
        """
        self.signature.check_result(self.info.name, value)
        returns = self.signature.returns
        if returns is None:
            return value
        if not returns.by_value:
            assert isinstance(value, bytes)
            found = placement.pointer_of(value)
            if found is not None and returns.is_function and self._is_harvard:
                return replace(found, text="pointer to a function")
            return found
        place = next(each for each in placement.arguments.arrays if each.name == RETURN)
        if place.struct is None:
            return outputs[RETURN][0]
        return place.members()

    @property
    def _is_harvard(self) -> bool:
        """Whether functions and variables have the same addresses, so symbols are ambiguous."""
        return self._board.welcome.pointer_size == 2

    def reported(self, value: object, placement: Placement, outputs: Mapping[str, Any]) -> object:
        """Return what a call returned as Reports show it; see `result`."""
        return self.result_text(self.result(value, placement, outputs))

    def result_text(self, result: object) -> object:
        """Return a result as Reports show it: a struct or a pointer as text, a number as it is.

        A pointer to characters outside of the call's arrays is shown as the text there.
        """
        returns = self.signature.returns
        if returns is None:
            return result
        if returns.by_value:
            return members_text(result)
        if not isinstance(result, BoardPointer):
            return "NULL"
        if returns.element == CHAR and result.token is not None:
            return json.dumps(self._board.memory.text_at(result))
        return str(result) if not str(result).startswith("pointer ") else "a pointer"

    @property
    def signature(self) -> Signature:
        """Its parameters and result.

        Raises:
            UsageError: this version of boardprof does not know the form of the signature.
        """
        if self._signature is None:
            self._signature = self._described(reads_image=False)
        return self._signature

    def _described(self, *, reads_image: bool) -> Signature:
        """Return the signature with the facts that the board does not report.

        Reading an image takes a while. Numbers need it only for the names of enums.
        """
        parsed = parse_signature(self.info.signature)
        source = self._board.sources.get(self.info.name)
        if source is None and (reads_image or not parsed.is_plain):
            source = self._board.source_of(self.info.name)
        if source is not None and self.info.signature in signature_forms(source):
            parsed = parse_signature(signature(source))  # the board's may be shortened
        return _with_members(parsed, source)

    def _learn_names(self, values: Iterable[object]) -> None:
        """Read the names of enums from the image if a value is a name, unless they are known."""
        if any(isinstance(each, str) and each.isidentifier() for each in values):
            source = self._board.sources.get(self.info.name)
            if source is None:
                self._signature = self._described(reads_image=True)

    def bind(self, args: Sequence[object], named: Mapping[str, object]) -> Arguments:
        """Give each parameter its value; see `boardprof.target.arguments.arguments.bind`."""
        self._learn_names([*args, *named.values()])
        order = self._board.memory.byte_order
        return bind(self.info.name, self.signature, args, named, order, self._function_id)

    def _function_id(self, name: str) -> int:
        try:
            return self._board.dictionary.function(name).id
        except UnknownNameError as error:
            hint = f"if {name} is static, --keep {name} puts it on the board"
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
            self._known[name] = RemoteFunction(self._board, self._info(name))
        return self._known[name]

    def _info(self, name: str) -> FunctionInfo:
        try:
            return self._board.dictionary.function(name)
        except UnknownNameError as error:
            if self._board.image is None:
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
        return iter([f.name for f in self._board.dictionary.user_functions])

    def __dir__(self) -> list[str]:
        """List the functions for completion."""
        return list(self)


# -- observers ---------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class HostCall:
    """A call that the host's program makes.

    Attributes:
        board: the called board.
        function: the called function.
        args: values by position, unless they are already bound.
        named: values by parameter name, likewise.
        arguments: the bound arguments; None if not bound yet.
        rounds: how often a measurement calls it; None for a single call.
        label: the caller's name for the call, such as a network's layer; None if it has none.
    """

    board: Board
    function: RemoteFunction
    args: Sequence[object] = ()
    named: Mapping[str, object] = field(default_factory=dict)
    arguments: Arguments | None = None
    rounds: Rounds | None = None
    label: str | None = None

    def bound(self) -> Arguments:
        """Return the arguments, bound now unless they are already.

        Raises:
            UsageError: they do not fit the function's signature.
        """
        return self.arguments or self.function.bind(self.args, self.named)


class Observation(Protocol):
    """Observation of one call, from the host's first step to the last."""

    def begin(self) -> None:
        """Note that the call begins."""

    def through(self, value: Value, is_plain: bool) -> Value:
        """Return the function that makes the call itself; the arrays are already on the board.

        This is not used for a measurement, whose windows are the board's own.

        Args:
            value: makes the call, and returns its result.
            is_plain: ``value`` does nothing else, so that a measured call may replace it.
        """

    def end(self, measurement: Measurement | None, error: BaseException | None) -> None:
        """Note that the call has ended, with its measurement or its exception."""


class Observer(Protocol):
    """Observer of the calls of all boards."""

    def prepare(self, board: Board) -> None:
        """Prepare for a board whose samples will be watched one by one.

        An observer that programs the board's slots does it now: the samples' own events are
        selected afterwards.
        """

    def watch(self, call: HostCall) -> Observation | None:
        """Return the observation of a call, or None if it is not observed."""


OBSERVERS: list[Observer] = []
"""The active observers. The code that adds one also removes it."""

_IS_UNOBSERVED: ContextVar[bool] = ContextVar("boardprof_is_unobserved", default=False)


def observe(call: HostCall, run: Callable[[Value], object], value: Value) -> object:
    """Make a call as the observers want it.

    Args:
        call: for the observers.
        run: makes the call, through the function that it gets.
        value: `Session.value`, which observers may replace.
    """
    with watched(call) as (watching, _):
        for number, each in enumerate(reversed(watching)):
            value = each.through(value, is_plain=number == 0)
        return run(value)


def observe_measurement(call: HostCall, measure: Callable[[], Measurement]) -> Measurement:
    """Make a measurement, watched as a call is."""
    with watched(call) as (_, result):
        result.append(measure())
    return result[0]


def prepare_observers(board: Board) -> None:
    """Prepare all observers for a board; see `Observer.prepare`."""
    with board.session.turn("the profiler"):  # as around `Observer.watch`
        for observer in _observers():
            observer.prepare(board)


@contextlib.contextmanager
def unobserved() -> Iterator[None]:
    """Hide calls from observers, such as calls that an observer itself makes."""
    token = _IS_UNOBSERVED.set(True)
    try:
        yield
    finally:
        _IS_UNOBSERVED.reset(token)


def _observers() -> tuple[Observer, ...]:
    return () if _IS_UNOBSERVED.get() else tuple(OBSERVERS)


@contextlib.contextmanager
def watched(call: HostCall) -> Iterator[tuple[list[Observation], list[Measurement]]]:
    """Start the observations and end them in reverse order; also yield a list for the result."""
    found = [observer.watch(call) for observer in _observers()]
    watching = [each for each in found if each is not None]
    result: list[Measurement] = []
    for each in watching:
        each.begin()
    try:
        yield watching, result
    except BaseException as error:
        for each in reversed(watching):
            each.end(None, error)
        raise
    for each in reversed(watching):
        each.end(result[0] if result else None, None)
