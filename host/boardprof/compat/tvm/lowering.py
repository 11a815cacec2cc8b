# SPDX-License-Identifier: Apache-2.0
"""TIR functions to plain C, by TVM's own passes."""

from __future__ import annotations

import contextlib
import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import tvm
from boardprof.base.errors import UsageError
from boardprof.compat.tvm.c_source import OPERAND, CFunctionText, c_file, c_names, plain_functions
from tvm import tirx
from tvm.ir.instrument import pass_instrument

_LEFT_OUT = frozenset(
    [
        "tirx.MakePackedAPI",  # a function of TVM's own calling convention, with checks
        "tirx.FP8StorageLegalize",  # these three come after it, and expect its form
        "tirx.BF16StorageLegalize",
        "tirx.AnnotateEntryFunc",
    ]
)
FUNCTION = "main"
"""The name of the function in the modules that MetaSchedule builds."""

_CONFIG = {"tirx.disable_vectorize": True}
"""TVM's C has vector types of OpenCL, which no C compiler knows."""

_NO_ALIAS = "tirx.noalias"

_CPU = 1
"""kDLCPU of DLPack."""

C_TARGET = tvm.target.Target({"kind": "c"})
_HOST_TARGET = tvm.target.Target({"kind": "llvm"})


@pass_instrument
class _Skip:
    def should_run(self, _mod: object, info: Any) -> bool:
        return info.name not in _LEFT_OUT


def to_c(mod: tvm.IRModule | tirx.PrimFunc) -> str:
    """Return TIR functions as a C file of plain functions: ``void matmul(const int8_t* A, ...)``.

    Args:
        mod: with functions of static shapes; other than TIR functions are left out. A single
            function has the name of its ``global_symbol``.

    Returns:
        C11 that needs nothing of TVM. Temporary buffers are in one static workspace.

    Raises:
        UsageError: a shape is not static, or a function needs TVM's runtime.
    """
    if isinstance(mod, tirx.PrimFunc):
        name = mod.attrs["global_symbol"] if mod.attrs and "global_symbol" in mod.attrs else "main"
        mod = tvm.IRModule({str(name): mod})
    return c_file(c_functions(mod))


def static_shape(name: str, type_: Any) -> tuple[int, ...]:
    """Return the shape of an array."""
    shape = getattr(type_, "shape", None)
    hint = "bind its dimensions: relax.transform.BindSymbolicVars"
    if hasattr(type_, "fields"):
        raise UsageError(
            f"{name} has {len(type_.fields)} outputs; a network here has one for each operator.",
            hint="use an operator for each, such as relax.op.strided_slice in place of split",
        )
    if shape is None:
        raise UsageError(f"{name} is {type_}, not an array of a known shape.", hint=hint)
    try:
        return tuple(int(n) for n in shape)
    except TypeError as error:
        raise UsageError(
            f"{name} has the shape {shape}, which is not static.", hint=hint
        ) from error


def c_functions(mod: tvm.IRModule) -> list[CFunctionText]:
    """Return the TIR functions of a module in C; see `to_c`."""
    functions = {
        name.name_hint: f for name, f in mod.functions.items() if isinstance(f, tirx.PrimFunc)
    }
    for name, function in functions.items():
        for each in function.params:
            of_buffer = tirx.is_buffer_var(each)
            type_ = each if of_buffer else each.ty
            if of_buffer:
                static_shape(f"{each.name} of {name}", each)
            check_type(f"{each.name} of {name}", getattr(type_, "dtype", ""))
        if OPERAND.search(function.script()):
            raise UsageError(
                f"{name} has a variable v_, as TVM calls its own variables in C.", hint="rename it"
            )
    distinct = [name for name, function in functions.items() if _NO_ALIAS in function.attrs]
    found = plain_functions(tvms_c(mod), distinct)
    for each in found:
        if (inside := _OF_NO_BOARD.search(f"{each.parameters} {each.body}")) is not None:
            raise UsageError(f"{each.name} computes with {inside[0]}{_NO_TYPE}", hint=_OTHER_TYPE)
    return found


_TYPES = frozenset(
    [
        *("bool", "float32", "float64", "int8", "int16", "int32", "int64"),
        *("uint8", "uint16", "uint32", "uint64", "handle", ""),
    ]
)
_OF_NO_BOARD = re.compile(r"\b(half|bfloat16|float8\w*|float4\w*|u?int[1-7]_t)\b")
_NO_TYPE = ", which no board can take."
_OTHER_TYPE = "convert it to float32, or to an integer of 8 to 64 bits"


def check_type(name: str, dtype: object) -> None:
    """Check that a board can take a buffer's type."""
    if str(dtype) not in _TYPES:
        raise UsageError(f"{name} is {dtype}{_NO_TYPE}", hint=_OTHER_TYPE)


def tvms_c(mod: tvm.IRModule) -> str:
    """Return what TVM's code generator makes of the TIR functions, with pointers as parameters."""
    functions = {
        name: f.with_attr("global_symbol", name.name_hint)
        for name, f in mod.functions.items()
        if isinstance(f, tirx.PrimFunc)
    }
    try:
        return _generated(functions)
    except tvm.error.InternalError as error:
        failed = next((n.name_hint for n, f in functions.items() if _fails({n: f})), "a function")
        why = f"{error}".strip().rpartition("\n")[2].rpartition("InternalError: ")[2]
        why = re.sub(r'ir\.Op\(.*?name="([^"]+)".*\)', r"\1", why).rstrip(".")
        raise UsageError(
            f"TVM makes no C of {failed}: {why}.",
            hint="use another operator in its place; TVM's target c does not know all of them",
        ) from error


def _fails(functions: Mapping[Any, tirx.PrimFunc]) -> bool:
    try:
        _generated(functions)
    except tvm.error.InternalError:
        return True
    return False


def _generated(functions: Mapping[Any, tirx.PrimFunc]) -> str:
    with tvm.transform.PassContext(opt_level=3, config=_CONFIG, instruments=[_Skip()]):
        pipeline, finalize_host, _ = tirx.get_default_tir_pipeline(C_TARGET)
        bound = tirx.transform.BindTarget(C_TARGET.with_host(C_TARGET))(tvm.IRModule(functions))
        lowered = pipeline(bound)
        plain = {name: _with_pointers(f) for name, f in lowered.functions.items()}
        generated = tvm.get_global_func("target.build.c")(
            finalize_host()(tvm.IRModule(plain)), C_TARGET
        )
    return str(generated.inspect_source())


def _with_pointers(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """Give a function pointers instead of buffers, and its body the device that it runs on."""
    zero = tirx.IntImm("int32", 0)
    parameters, buffers = [], []
    names = c_names(parameter.name for parameter in function.params)
    for name, parameter in zip(names, function.params, strict=True):
        if tirx.is_buffer_var(parameter):
            pointer = tirx.Var(name, tirx.buffer_data_pointer_type(parameter))
            buffers.append(tirx.DeclBuffer(parameter, data=pointer))
            parameter = pointer
        parameters.append(parameter)
    # The attributes must end before the return: otherwise temporary buffers are never freed.
    body = tirx.SeqStmt([*buffers, function.body])
    body = tirx.AttrStmt(zero, "device_type", tirx.IntImm("int32", _CPU), body)
    body = tirx.AttrStmt(zero, "device_id", zero, body)
    return tirx.PrimFunc(
        parameters,
        tirx.SeqStmt([body, tirx.Return(zero)]),
        tvm.ir.PrimType("int32"),
        attrs=function.attrs,
    )


# -- the arrays of a function ------------------------------------------------------------------


@contextlib.contextmanager
def host_library(mod: tvm.IRModule) -> Iterator[Any]:
    """Compile a module for this machine by LLVM, and load it while the context lasts.

    LLVM's code checks that of the target ``c``, from which the board's comes.
    """
    with tempfile.TemporaryDirectory(prefix="boardprof-tvm-") as folder:
        library = str(Path(folder) / "host.so")
        tvm.compile(mod, target=_HOST_TARGET).export_library(library)
        yield tvm.runtime.load_module(library)


def _shapes(function: tirx.PrimFunc) -> dict[str, tuple[tuple[int, ...], np.dtype[Any]]]:
    """Return shape and type of each of a function's buffers."""
    found = {}
    for each in function.params:
        type_ = each if tirx.is_buffer_var(each) else each.ty
        check_type(each.name, type_.dtype)
        found[each.name] = static_shape(each.name, type_), np.dtype(str(type_.dtype))
    return found


def in_order(
    function: tirx.PrimFunc, arguments: Mapping[str, npt.NDArray[Any]]
) -> dict[str, npt.NDArray[Any]]:
    """Return arrays in the order of a function's buffers."""
    shapes = _shapes(function)
    if set(arguments) != set(shapes):
        raise UsageError(
            f"The function takes arrays for {', '.join(shapes)}, not for "
            f"{', '.join(arguments) or 'nothing'}.",
            hint="give one for each buffer, outputs included",
        )
    for name, (shape, dtype) in shapes.items():
        given = arguments[name]
        if (given.shape, given.dtype) != (shape, dtype):
            raise UsageError(
                f"{name} is {dtype} of shape {shape}, not {given.dtype} of {given.shape}."
            )
    return {name: arguments[name] for name in shapes}


def c_arguments(
    function: tirx.PrimFunc, arguments: Mapping[str, npt.NDArray[Any]]
) -> dict[str, npt.NDArray[Any]]:
    """Return arrays, which are in order, by the names that the function's parameters have in C."""
    names = c_names(each.name for each in function.params)
    return dict(zip(names, arguments.values(), strict=True))


def random_arguments(function: tirx.PrimFunc, seed: int) -> dict[str, npt.NDArray[Any]]:
    """Return arrays for a function's buffers: small integers, or floats within -1 to 1."""
    generator = np.random.default_rng(seed)
    arrays: dict[str, npt.NDArray[Any]] = {}
    for name, (shape, dtype) in _shapes(function).items():
        if dtype.kind == "f":
            arrays[name] = generator.uniform(-1, 1, shape).astype(dtype)
        else:
            low = 0 if dtype.kind == "u" else -100
            arrays[name] = generator.integers(low, 100, shape).astype(dtype)
    return arrays
