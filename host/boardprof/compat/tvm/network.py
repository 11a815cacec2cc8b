# SPDX-License-Identifier: Apache-2.0
"""Relax networks on a board: a Program with a row for each fused operator, and a C file."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import tvm
from boardprof.base.errors import UnknownNameError, UsageError
from boardprof.compat.tvm.c_source import c_name
from boardprof.compat.tvm.lowering import check_type, host_library, static_shape, to_c
from boardprof.compat.tvm_profiler import Program
from boardprof.measure.board.board import Board
from boardprof.measure.connect import build
from boardprof.results.report.report import Report
from tvm import relax, tirx

_Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Operator:
    """A call of a fused operator.

    Attributes:
        function: the C function.
        inputs: names of the values that it reads.
        output: name of the value that it writes.
    """

    function: str
    inputs: tuple[str, ...]
    output: str


@dataclass(frozen=True)
class Network:
    """A network of static shapes as calls of C functions; `lower` makes it.

    Attributes:
        mod: TVM's module, with operators fused and made TIR functions.
        inputs: names of the inputs, in order.
        outputs: names of the outputs, in order.
        operators: in the order of execution.
        constants: weights, by name.
        shapes: of all other values: shape and dtype, by name.
    """

    mod: tvm.IRModule
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    operators: tuple[Operator, ...]
    constants: Mapping[str, _Array]
    shapes: Mapping[str, tuple[tuple[int, ...], str]]

    @property
    def text(self) -> str:
        """The C file of the operators."""
        return to_c(self.mod)

    def function(self, name: str) -> tirx.PrimFunc:
        """Return the TIR function of an operator, to tune it.

        Raises:
            UnknownNameError: there is no such operator.
        """
        known = dict.fromkeys(each.function for each in self.operators)
        if name not in known:
            raise UnknownNameError("operator", name, known)
        return self.mod[self._called(name)]

    def _called(self, name: str) -> str:
        """Return what TVM calls an operator's C function."""
        every = (each.name_hint for each in self.mod.functions)
        return next((each for each in every if c_name(each) == name), name)

    def with_function(self, name: str, function: tirx.PrimFunc) -> Network:
        """Return the network with another schedule of an operator."""
        functions = {each.name_hint: f for each, f in self.mod.functions.items()}
        called = self._called(name)
        functions[called] = function.with_attr("global_symbol", called)
        return lower_again(tvm.IRModule(functions))

    def program(self, board: Board) -> tuple[Program, dict[str, _Array]]:
        """Return a program on a board that runs the operators' C file, and its arrays by name.

        `Program.run` and `Program.profile` take the inputs. Weights are sent once.
        """
        arrays = dict(self.constants)
        arrays |= {name: np.zeros(shape, dtype) for name, (shape, dtype) in self.shapes.items()}
        program = Program(board, inputs=[arrays[name] for name in self.inputs])
        for each in self.operators:
            values = [arrays[name] for name in (*each.inputs, each.output)]
            program.add(each.function, *values, label=each.output)
        return program, arrays


def lower(mod: tvm.IRModule) -> Network:
    """Fuse the operators of a Relax module and make them TIR functions, as TVM does.

    Args:
        mod: with a function ``main`` of static shapes, such as ``relax.frontend.onnx`` makes.

    Raises:
        UsageError: it calls what does not become a TIR function, or a shape is not static.
    """
    passes = [
        relax.transform.LegalizeOps(),
        relax.transform.AnnotateTIROpPattern(),
        relax.transform.FoldConstant(),
        relax.transform.FuseOps(),
        relax.transform.FuseTIR(),
        relax.transform.DeadCodeElimination(),
    ]
    return lower_again(tvm.transform.Sequential(passes)(mod))


def lower_again(mod: tvm.IRModule) -> Network:
    """Read a module whose operators are TIR functions already."""
    return _Reader(mod).network()


class _Reader:
    """Reads the calls of a module's main function. Names of Relax variables are not unique."""

    def __init__(self, mod: tvm.IRModule) -> None:
        self._mod = mod
        self._names: dict[Any, str] = {}
        self._constants: dict[str, _Array] = {}
        self._shapes: dict[str, tuple[tuple[int, ...], str]] = {}
        self._operators: list[Operator] = []

    def network(self) -> Network:
        main = self._mod["main"]
        inputs = [self._new(each) for each in main.params]
        for block in main.body.blocks:
            for binding in block.bindings:
                self._bind(binding.var, binding.value)
        return Network(
            self._mod,
            tuple(inputs),
            tuple(self._values(main.body.body)),
            tuple(self._operators),
            self._constants,
            self._shapes,
        )

    def _bind(self, var: Any, value: Any) -> None:
        if isinstance(value, relax.Var):
            self._names[var] = self._names[value]
            return
        if not isinstance(value, tvm.ir.Call) or value.op != _CALL_TIR:
            raise UsageError(
                f"{var.name}: {type(value).__name__} is not a call of a TIR function.",
                hint="use operators that relax.transform.LegalizeOps turns into TIR",
            )
        function, arguments = value.args[0], value.args[1]
        inputs = [name for each in arguments.fields for name in self._values(each)]
        name = c_name(function.name_hint)
        self._operators.append(Operator(name, tuple(inputs), self._new(var)))

    def _values(self, value: Any) -> list[str]:
        if isinstance(value, relax.Tuple):
            return [name for each in value.fields for name in self._values(each)]
        if isinstance(value, tvm.ir.GenericConst):
            return [self._constant(value)]
        return [self._names[value]]

    def _constant(self, value: Any) -> str:
        if value not in self._names:
            name = self._names[value] = f"constant{len(self._constants)}"
            self._constants[name] = value.value.numpy()
        return self._names[value]

    def _new(self, var: Any) -> str:
        taken = {*self._names.values()}
        first = name = str(var.name)
        number = 1
        while name in taken:
            number += 1
            name = f"{first}_{number}"
        self._names[var] = name
        self._shapes[name] = static_shape(name, var.ty), str(var.ty.dtype)
        check_type(name, var.ty.dtype)
        return name


_CALL_TIR = tvm.ir.Op.get("relax.call_tir")


# -- on a board ---------------------------------------------------------------------------------


def profile(
    network: Network,
    inputs: Sequence[_Array],
    board: str,
    collectors: Sequence[str] | None = None,
    *,
    optimize: str = "-O2",
    **settings: Any,
) -> tuple[Report, list[_Array]]:
    """Run a network on a board and measure each operator, as ``graph_executor.profile`` did.

    Args:
        network: from `lower`.
        inputs: its inputs.
        board: its name.
        collectors: as for ``Program.profile``.
        optimize: flags of the compiler.
        settings: more for ``Program.profile``.

    Returns:
        The Report, with a row for each operator in the order of execution, and the outputs.

    Raises:
        UsageError: the network has another number of inputs, or an input another shape.
        BoardprofError: as `boardprof.build` and ``Program.profile``.
    """
    if len(inputs) != len(network.inputs):
        raise UsageError(
            f"The inputs of the network are {', '.join(network.inputs)}, but {len(inputs)} arrays "
            "were given."
        )
    with tempfile.TemporaryDirectory(prefix="boardprof-tvm-") as folder:
        file = Path(folder) / "network.c"
        file.write_text(network.text, encoding="utf-8")
        with build(file, board=board, optimize=optimize).open() as connected:
            program, arrays = network.program(connected)
            report = program.profile(list(inputs), collectors=collectors, **settings)
    return report, [arrays[name] for name in network.outputs]


def host_run(mod: tvm.IRModule, inputs: Sequence[_Array]) -> list[_Array]:
    """Run a Relax module on this machine, compiled by TVM; return its outputs."""
    with host_library(mod) as library:
        machine = relax.VirtualMachine(library, tvm.cpu())
        found = machine["main"](*map(tvm.runtime.tensor, inputs))
        outputs = [found] if hasattr(found, "numpy") else list(found)
        return [each.numpy() for each in outputs]


_ALIGNMENT = 16
_A_LINE = 16
"""Numbers on a line."""

_C_TYPES = {"float32": "float", "float64": "double", "bool": "bool"}


def network_c(network: Network, name: str = "network") -> str:
    """Return a network as a C file: ``void network(const int8_t *x, int32_t *y)``.

    Weights are constant, so that a linker puts them into flash. TVM's memory planner places the
    values between operators: those that are not alive at the same time share memory.

    Args:
        network: from `lower`.
        name: of the entry function.

    Raises:
        UsageError: an output is an input or a weight, so that there is nothing to compute.
    """
    passes = [
        relax.transform.ToNonDataflow(),
        relax.transform.RemovePurityChecking(),
        relax.transform.CallTIRRewrite(),
        relax.transform.StaticPlanBlockMemory(),
    ]
    return _Entry(tvm.transform.Sequential(passes)(network.mod), name).text()


class _Entry:
    """Writes the entry function from a module with planned memory."""

    def __init__(self, mod: tvm.IRModule, name: str) -> None:
        self._mod = mod
        self._name = name
        self._main = mod["main"]
        self._values: dict[Any, str] = {}
        self._declared: list[str] = []
        self._calls: list[str] = []
        self._outputs: dict[Any, str] = {}

    def text(self) -> str:
        main = self._main
        parameters = []
        for number, each in enumerate(main.params):
            self._values[each] = f"input{number}"
            parameters.append(f"const {_c_type(each.ty.dtype)} *input{number}")
        bindings = [binding for block in main.body.blocks for binding in block.bindings]
        aliases = {b.var: b.value for b in bindings if isinstance(b.value, relax.Var)}
        result = main.body.body
        outputs = list(result.fields) if isinstance(result, relax.Tuple) else [result]
        for number, each in enumerate(outputs):
            var = each
            while var in aliases:
                var = aliases[var]
            if var in self._values or var in self._outputs:
                raise UsageError(f"Output {number} of the network is not computed by an operator.")
            self._outputs[var] = f"output{number}"
            parameters.append(f"{_c_type(each.ty.dtype)} *output{number}")
        for binding in bindings:
            self._bind(binding.var, binding.value)
        entry = [f"void {self._name}({', '.join(parameters)}) {{", *self._calls, "}", ""]
        return "\n".join([to_c(self._mod), *self._declared, *entry])

    def _bind(self, var: Any, value: Any) -> None:
        if isinstance(value, relax.Var):
            self._values[var] = self._values[value]
            return
        operator = getattr(value.op, "name", None)
        if operator == "relax.memory.alloc_storage":
            size = int(value.args[0].values[0])
            name = self._values[var] = f"storage{len(self._values)}"
            self._declared.append(f"static _Alignas({_ALIGNMENT}) uint8_t {name}[{size}];\n")
        elif operator in ("relax.memory.alloc_tensor", "relax.builtin.alloc_tensor"):
            self._values[var] = self._tensor(var, value, operator)
        elif isinstance(value.op, tvm.ir.GlobalVar):
            arguments = ", ".join(map(self._argument, value.args))
            self._calls.append(f"    {c_name(value.op.name_hint)}({arguments});")
        elif operator not in ("relax.memory.kill_tensor", "relax.memory.kill_storage"):
            raise UsageError(f"{operator} of TVM's runtime is not on a board.")

    def _tensor(self, var: Any, value: Any, operator: str) -> str:
        type_ = _c_type(var.ty.dtype)
        if var in self._outputs:
            return self._outputs[var]
        if operator == "relax.memory.alloc_tensor":
            storage, offset = self._values[value.args[0]], int(value.args[1].value)
            return f"({type_} *)({storage} + {offset})"
        name, size = f"value{len(self._values)}", math.prod(map(int, var.ty.shape))
        self._declared.append(f"static {type_} {name}[{size}];\n")
        return name

    def _argument(self, value: Any) -> str:
        if not isinstance(value, tvm.ir.GenericConst):
            return self._values[value]
        if value not in self._values:
            array = value.value.numpy()
            name = self._values[value] = f"weights{len(self._values)}"
            numbers = [_literal(number) for number in array.ravel()]
            lines = [
                f"    {', '.join(numbers[at : at + _A_LINE])},"
                for at in range(0, len(numbers), _A_LINE)
            ]
            head = f"static const {_c_type(str(array.dtype))} {name}[{len(numbers)}] = {{"
            self._declared.append("\n".join([head, *lines, "};\n"]))
        return self._values[value]


def _c_type(dtype: object) -> str:
    name = str(dtype)
    return _C_TYPES.get(name, f"{name}_t")


def _literal(number: Any) -> str:
    """Return a number in C; floats are exact."""
    if number.dtype.kind != "f":
        return str(int(number))
    return float(number).hex() + ("f" if number.dtype.itemsize == 4 else "")
