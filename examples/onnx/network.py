# SPDX-License-Identifier: Apache-2.0
"""A quantised network from ONNX as C, measured on a board, with its output checked.

It needs ``pip install onnx emx-onnx-cgen``. Run it from the repository: ``python
examples/onnx/network.py [BOARD]``. It leaves ``network.c`` and ``x.npy`` in the working folder.
"""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import boardprof

GENERATOR = ["emx-onnx-cgen", "compile", "network.onnx", "network.c", "--large-temp-threshold", "0"]


def network(rng: np.random.Generator) -> onnx.ModelProto:
    """Return a convolution of 3 x 3 and a dense layer, all of bytes with scales."""
    constants = {
        "x_scale": np.float32(1 / 16),
        "weights": rng.integers(-20, 20, (4, 1, 3, 3), dtype=np.int8),
        "w_scale": np.float32(1 / 64),
        "y_scale": np.float32(1 / 4),
        "flat": np.array([1, 144], np.int64),
        "matrix": rng.integers(-20, 20, (144, 10), dtype=np.int8),
        "out_scale": np.float32(1),
        "zero": np.uint8(0),
        "w_zero": np.int8(0),
    }
    weights, matrix = ("weights", "w_scale", "w_zero"), ("matrix", "w_scale", "w_zero")
    x, y = ("x", "x_scale", "zero"), ("y_scale", "zero")
    nodes = [
        helper.make_node("QLinearConv", [*x, *weights, *y], ["y"], "conv"),
        helper.make_node("Reshape", ["y", "flat"], ["f"], "flatten"),
        helper.make_node(
            "QLinearMatMul", ["f", *y, *matrix, "out_scale", "zero"], ["out"], "dense"
        ),
    ]
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info("x", TensorProto.UINT8, [1, 1, 8, 8])],
        [helper.make_tensor_value_info("out", TensorProto.UINT8, [1, 10])],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])


def main(board: str) -> None:
    """Generate the C file, call it on the board, and compare with ONNX's own evaluator."""
    rng = np.random.default_rng(1)
    model, x = network(rng), rng.integers(0, 255, (1, 1, 8, 8), dtype=np.uint8)
    onnx.save(model, "network.onnx")
    np.save("x.npy", x.ravel())
    (expected,) = ReferenceEvaluator(model).run(None, {"x": x})
    subprocess.run(GENERATOR, check=True, stdout=subprocess.DEVNULL)

    nodes_apart = "EMX_NODE_FN=static __attribute__((noinline))"
    with boardprof.build("network.c", board=board, define=[nodes_apart]).open() as there:
        out = np.zeros(10, np.uint8)
        there.functions.model(x.ravel(), out)
        assert (out == expected.ravel()).all(), f"{out} on {board}, {expected} by ONNX"
        print(f"Output on {board}, equal to ONNX's own: {out.tolist()}")
        profile = there.hotspots("model", x.ravel(), out)
    nodes = [each for each in profile.functions() if each.name.startswith("node")]
    for node in sorted(nodes, key=lambda each: each.name):
        print(f"{node.total:12,} {profile.metric}  {node.name.partition('.')[0]}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "qemu-rv32")
