# SPDX-License-Identifier: Apache-2.0
"""A network as one C file for firmware: an entry function, weights, and planned buffers."""

from __future__ import annotations

from typing import Any

import tvm
from boardprof.base.errors import UsageError
from boardprof.compat.tvm.lowering import to_c
from boardprof.compat.tvm.network import Network
from tvm import relax

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
            self._calls.append(f"    {value.op.name_hint}({arguments});")
        elif operator not in ("relax.memory.kill_tensor", "relax.memory.kill_storage"):
            raise UsageError(f"{operator} of TVM's runtime is not on a board.")

    def _tensor(self, var: Any, value: Any, operator: str) -> str:
        type_ = _c_type(var.ty.dtype)
        if var in self._outputs:
            return self._outputs[var]
        if operator == "relax.memory.alloc_tensor":
            storage, offset = self._values[value.args[0]], int(value.args[1].value)
            return f"({type_} *)({storage} + {offset})"
        name, size = f"value{len(self._values)}", _size(var.ty.shape)
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


def _size(shape: Any) -> int:
    size = 1
    for each in shape:
        size *= int(each)
    return size


def _literal(number: Any) -> str:
    """Return a number in C; floats are exact."""
    if number.dtype.kind != "f":
        return str(int(number))
    return float(number).hex() + ("f" if number.dtype.itemsize == 4 else "")
