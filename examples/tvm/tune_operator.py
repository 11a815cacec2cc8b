# SPDX-License-Identifier: Apache-2.0
"""A matrix product or a convolution of bytes, tuned on a board by TVM's MetaSchedule.

Run it with ``python tune_operator.py matmul --board ibex-rtl``. It needs ``boardprof[tvm]``.
"""

import argparse

from tvm import te, topi

from boardprof.tvm import tune

N = 32


def matmul():
    """Return the TIR function: C = A B."""
    a = te.placeholder((N, N), "int8", name="A")
    b = te.placeholder((N, N), "int8", name="B")
    k = te.reduce_axis((0, N), name="k")

    def product(i, j):
        return te.sum(a[i, k].astype("int32") * b[k, j].astype("int32"), axis=k)

    return te.create_prim_func([a, b, te.compute((N, N), product, name="C")])


def conv2d():
    """Return the TIR function: 3 by 3, 16 by 16 pixels of 8 channels to 16, padded."""
    x = te.placeholder((1, 16, 16, 8), "int8", name="X")
    w = te.placeholder((3, 3, 8, 16), "int8", name="W")
    y = topi.nn.conv2d_nhwc(x, w, stride=1, padding=1, dilation=1, out_dtype="int32")
    return te.create_prim_func([x, w, y])


OPERATORS = {"matmul": matmul, "conv2d": conv2d}


def main() -> None:
    """Print the untuned cost and the best one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("operator", choices=OPERATORS)
    parser.add_argument("--board", default="ibex-rtl")
    parser.add_argument("--metric", default="cycles")
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    function = OPERATORS[options.operator]()
    found = tune(function, options.board, options.metric, trials=options.trials, seed=options.seed)
    right = sum(each.ok for each in found.trials)
    print(f"{right} of {len(found.trials)} candidates right")
    print(f"{options.metric}: {found.untuned.cost:,.0f} -> {found.result.cost:,.0f}")


if __name__ == "__main__":
    main()
