# SPDX-License-Identifier: Apache-2.0
"""A network of integers on a board: a table by layer, the worst layer tuned, the table again.

Run it with ``python network.py --board ibex-rtl --trials 32``. It needs ``boardprof[tvm]``.
"""

import argparse

import numpy as np
import tvm
from tvm import relax

from boardprof.tvm import host_run, lower, network_c, profile, tune


def network() -> tvm.IRModule:
    """Return two convolutions, two poolings and a dense layer, with bytes between them."""
    rng = np.random.default_rng(1)
    first = rng.integers(-8, 8, (8, 3, 3, 4)).astype("int8")
    second = rng.integers(-8, 8, (16, 3, 3, 8)).astype("int8")
    dense = rng.integers(-8, 8, (256, 10)).astype("int8")
    op, builder = relax.op, relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((1, 16, 16, 4), "int8"))

    def convolution(value, weights, shift):
        value = op.nn.conv2d(
            value,
            relax.const(weights),
            padding=(1, 1),
            data_layout="NHWC",
            kernel_layout="OHWI",
            out_dtype="int32",
        )
        value = op.maximum(value, relax.const(0, "int32"))
        value = op.minimum(op.right_shift(value, relax.const(shift, "int32")), relax.const(127))
        value = builder.emit(op.astype(value, "int8"))
        return builder.emit(op.nn.max_pool2d(value, (2, 2), strides=(2, 2), layout="NHWC"))

    with builder.function("main", [x]):
        with builder.dataflow():
            value = convolution(convolution(x, first, 5), second, 6)
            value = op.matmul(op.reshape(value, (1, 256)), relax.const(dense), out_dtype="int32")
            result = builder.emit_output(value)
        builder.emit_func_output(result)
    return builder.get()


def main() -> None:
    """Print the three steps."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--board", default="ibex-rtl")
    parser.add_argument("--metric", default="cycles")
    parser.add_argument("--trials", type=int, default=32)
    parser.add_argument("--c", metavar="FILE", help="write the tuned network as one C file")
    options = parser.parse_args()

    mod = network()
    x = np.random.default_rng(2).integers(-100, 100, (1, 16, 16, 4)).astype("int8")
    expected = host_run(mod, [x])[0]
    before = lower(mod)
    costs = show("untuned", before, x, expected, options)
    worst = max(costs, key=costs.get)
    tuned = tune(before.function(worst), options.board, options.metric, trials=options.trials)
    print(f"{worst}: {tuned.untuned.cost:,.0f} -> {tuned.result.cost:,.0f}\n")
    after = before.with_function(worst, tuned.mod["main"])
    show("tuned", after, x, expected, options)
    if options.c:
        with open(options.c, "w", encoding="utf-8") as file:
            file.write(network_c(after))


def show(what, net, x, expected, options) -> dict[str, int]:
    """Measure a network, check its output against TVM's on this machine, and print a table."""
    report, (output,) = profile(net, [x], options.board, [options.metric], warmup=0)
    assert (output == expected).all(), f"the {what} network is wrong on {options.board}"
    costs = {str(row["Name"]): row[options.metric].value for row in report.calls}
    total = sum(costs.values())
    print(f"{what}, on {options.board}, output right:")
    for name, cost in costs.items():
        print(f"{cost:12,} {options.metric}  {100 * cost / total:5.1f} %  {name}")
    print(f"{total:12,} {options.metric}\n")
    return costs


if __name__ == "__main__":
    main()
