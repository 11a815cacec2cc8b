# SPDX-License-Identifier: Apache-2.0
"""TVM's compiler: its C made plain, from a recorded output; TVM itself in the nightly tests."""

from __future__ import annotations

import re
import statistics
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest

import boardprof
import boardprof.compat.tvm
from boardprof.base.errors import UsageError
from boardprof.compat.tvm.c_source import c_file, c_name, c_names, plain_functions
from tests.support import ROOT

GENERATED = (Path(__file__).parent / "fixtures" / "tvm" / "generated.c.txt").read_text()
"""What TVM 0.27.0 makes of D = A B + (A B)^T, of 32 by 32 bytes, and of y = max(x, 0), of 32."""

AGAIN = """\
TVM_DLL int32_t clip(int32_t* A, int32_t* B) {
  for (int32_t i = 0; i < 8; ++i) {
    B[i] = (A[i] * 3);
    int32_t v_ = B[i];
    B[i] = ((v_) > (-20) ? (v_) : (-20));
    B[i] = ((v_) < (20) ? (v_) : (20));
  }
  return 0;
}
TVM_DLL int32_t slide(int32_t* A, int32_t* B) {
  for (int32_t i = 0; i < 8; ++i) {
    B[i] = -999;
    int32_t v_ = B[i];
    int32_t v__1 = A[i];
    B[i] = ((v_) > (v__1) ? (v_) : (v__1));
    int32_t v__2 = A[(i + 1)];
    B[i] = ((v_) > (v__2) ? (v_) : (v__2));
    int32_t v__3 = A[(i + 2)];
    B[i] = ((v_) > (v__3) ? (v_) : (v__3));
  }
  return 0;
}
TVM_DLL int32_t inner(int32_t* A, int32_t* B) {
  B[0] = 1;
  int32_t v_ = B[0];
  int32_t v__1 = ((v_) > (2) ? (v_) : (2));
  B[1] = ((v__1) < (9) ? (v__1) : (9));
  for (int32_t i = 0; i < 3; ++i) {
    B[0] = (((v__1) < (9) ? (v__1) : (9)) + 3);
  }
  return 0;
}
"""
"""What TVM 0.27.0 makes of functions that write an operand of max or min, and use it again.

`inner`, with an operand in a loop and within another, is written by hand.
"""

EXAMPLES = ROOT / "examples" / "tvm"


def test_tvms_functions_become_plain_c() -> None:
    product, relu = plain_functions(GENERATED)
    assert (product.name, product.workspace) == ("product", 4096)
    assert product.parameters == ("const int8_t* A", "const int8_t* B", "int32_t* D")
    assert relu.parameters == ("const int32_t* x", "int32_t* y")
    _, relu = plain_functions(GENERATED, ["relu"])
    assert relu.parameters == ("const int32_t* restrict x", "int32_t* restrict y")
    assert (product.outputs, relu.outputs) == (["D"], ["y"])
    assert relu.workspace == 0
    assert "TVM" not in c_file([product, relu])


def test_plain_functions_compute_what_tvm_says(tmp_path: Path) -> None:
    file = tmp_path / "generated.c"
    file.write_text(c_file(plain_functions(GENERATED, ["product"])))
    rng = np.random.default_rng(7)
    a, b = (rng.integers(-128, 128, (32, 32)).astype(np.int8) for _ in range(2))
    d, y = np.zeros((32, 32), np.int32), np.zeros(32, np.int32)
    x = np.arange(-30, 2, dtype=np.int32)
    with boardprof.build(file, board="native", cflags="-Wall -Wextra -Werror").open() as board:
        for _ in range(2):  # the workspace is there again
            board.functions.product(a, b, d)
        board.functions.relu(x, y)
    product = a.astype(np.int32) @ b.astype(np.int32)
    assert d.tolist() == (product + product.T).tolist()
    assert y.tolist() == [*[0] * 31, 1]


def test_an_operand_of_max_and_min_is_read_again_after_it_was_written(tmp_path: Path) -> None:
    file = tmp_path / "again.c"
    file.write_text(c_file(plain_functions(AGAIN, ["clip", "slide"])))
    clipped, longest, inner = (np.zeros(8, np.int32) for _ in range(3))
    with boardprof.build(file, board="native").open() as board:
        board.functions.clip(np.array([-50, -3, 0, 3, 6, 9, 50, -7], np.int32), clipped)
        board.functions.slide(np.array([5, -3, 8, 1, 7, -9, 2, 30, 4, 6], np.int32), longest)
        board.functions.inner(np.zeros(8, np.int32), inner)
    assert clipped.tolist() == [-20, -9, 0, 9, 18, 20, 20, -20]
    assert longest.tolist() == [8, 8, 8, 7, 7, 30, 30, 30]
    # max(1, 2) = 2; then min(max(B, 2), 9) + 3 three times: 5, 8, 11
    assert inner.tolist()[:2] == [11, 2]


def test_functions_that_run_one_after_another_share_a_workspace() -> None:
    product, _ = plain_functions(GENERATED)
    text = c_file([product, product])
    assert re.findall(r"workspace\[(\d+)\]", text) == ["4096"]


@pytest.mark.parametrize(
    ("name", "in_c"),
    [
        ("fused_matmul", "fused_matmul"),
        ("/model/x", "_model_x"),
        ("a/b:0", "a_b_0"),
        ("x y", "x_y"),
        ("1", "_1"),
        ("äx", "_x"),
        ("", "_"),
        ("erf", "erf_"),
        ("roundf", "roundf_"),
        ("index", "index_"),
        ("restrict", "restrict_"),
        ("workspace", "workspace_"),
        ("main", "main_"),
        ("bp_poll", "_bp_poll"),
    ],
)
def test_names_of_networks_become_names_that_c_may_define(name: str, in_c: str) -> None:
    assert c_name(name) == in_c


def test_names_that_become_the_same_are_told_apart() -> None:
    assert c_names(["x y", "x/y", "int", "x_y"]) == ["x_y", "x_y_", "int_", "x_y__"]


def test_functions_named_like_the_c_library_compile(tmp_path: Path) -> None:
    names = ("erf", "round", "log", "index", "y0", "memcpy", "strlen", "isinf", "float", "bp_init")
    source = "".join(
        f"TVM_DLL int32_t {name}(float* A, float* B) {{\n  B[0] = A[0];\n  return 0;\n}}\n"
        for name in names
    )
    file = tmp_path / "network.c"
    file.write_text(c_file(plain_functions(source)))
    command = ["gcc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-c", file, "-o", "network.o"]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=60)


def test_what_needs_tvms_runtime_is_refused() -> None:
    calls = GENERATED.replace("y[i] =", "TVMFFIFunctionCall(f, args, 2, &result);\n    y[i] =")
    with pytest.raises(UsageError, match=r"relu calls TVMFFIFunctionCall of TVM's runtime"):
        plain_functions(calls)


@pytest.mark.parametrize(
    ("found", "told"), [("0.28.0", "apache-tvm==0.27.0"), (None, "apache-tvm==")]
)
def test_without_the_version_of_tvm_that_was_tried_the_extra_is_named(
    found: str | None, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def version(_name: str) -> str:
        if found is None:
            raise metadata.PackageNotFoundError
        return found

    monkeypatch.setattr(metadata, "version", version)
    with pytest.raises(UsageError, match=f"boardprof.tvm needs {told}") as refused:
        _ = boardprof.tvm.tune
    assert "pip install 'boardprof[tvm]'" in str(refused.value)


# -- TVM itself -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python with boardprof[tvm], from the package registry."""
    folder = tmp_path_factory.mktemp("tvm")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True, timeout=300)
    python = folder / "bin" / "python"
    install = [python, "-m", "pip", "install", "-q", f"{ROOT}[tvm]", "pythondata-cpu-ibex", "onnx"]
    subprocess.run(install, check=True, timeout=1200)
    return python


def said(python: Path, *command: str) -> str:
    done = subprocess.run(
        [python, *command], check=False, timeout=2400, text=True, stdout=-1, stderr=-1
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.nightly
@pytest.mark.timeout(3000)
def test_tvm_makes_what_was_recorded(python: Path) -> None:
    program = (
        "import tvm; from tvm import te, tirx; from boardprof.compat.tvm.lowering import tvms_c\n"
        "n = 32\n"
        "a, b = (te.placeholder((n, n), 'int8', name=c) for c in 'AB')\n"
        "k = te.reduce_axis((0, n), name='k')\n"
        "c = te.compute((n, n), lambda i, j: te.sum(a[i, k].astype('int32') * "
        "b[k, j].astype('int32'), axis=k), name='C')\n"
        "d = te.compute((n, n), lambda i, j: c[i, j] + c[j, i], name='D')\n"
        "x = te.placeholder((n,), 'int32', name='x')\n"
        "y = te.compute((n,), lambda i: tirx.max(x[i], 0), name='y')\n"
        "functions = {'product': te.create_prim_func([a, b, d]), "
        "'relu': te.create_prim_func([x, y])}\n"
        "print(tvms_c(tvm.IRModule(functions)))\n"
    )
    made = said(python, "-c", program)
    assert plain_functions(made) == plain_functions(GENERATED)


@pytest.mark.nightly
@pytest.mark.timeout(7500)
@pytest.mark.parametrize(
    ("operator", "board", "metric", "before", "after"),
    [
        ("matmul", "ibex-rtl", "cycles", 530_630, 210_000),
        ("conv2d", "qemu-rv32", "instructions", 3_406_192, 1_050_000),
    ],
)
def test_the_median_of_three_searches_is_fast(
    operator: str, board: str, metric: str, before: int, after: int, python: Path
) -> None:
    example = str(EXAMPLES / "tune_operator.py")
    best = []
    for seed in ("1", "2", "3"):
        told = said(python, example, operator, "--board", board, "--metric", metric, "--seed", seed)
        assert "64 of 64 candidates right" in told
        untuned, tuned = (int(each.replace(",", "")) for each in re.findall(r"[\d,]{7,}", told))
        assert untuned == pytest.approx(before, rel=0.01)
        best.append(tuned)
    assert statistics.median(best) <= after


SLIDE = """
import numpy as np
from tvm.script import tirx as T
from boardprof.base.errors import UsageError
from boardprof.compat.tvm import to_c, tune
from boardprof.compat.tvm.tuning import _host_outputs, _with_main

@T.prim_func
def slide(A: T.Buffer((10,), "int32"), B: T.Buffer((8,), "int32")):
    T.func_attr({"tirx.noalias": True})
    for i in T.serial(8):
        B[i] = -999
        for k in T.unroll(3):
            B[i] = T.max(B[i], A[i + k])

@T.prim_func
def named(v_: T.Buffer((8,), "int32")):
    v_[0] = T.max(v_[0], 3)

values = np.array([5, -3, 8, 1, 7, -9, 2, 30, 4, 6], np.int32)
print(_host_outputs(_with_main(slide), {"A": values, "B": np.zeros(8, np.int32)})["B"].tolist())
found = tune(slide, "qemu-rv32", "instructions", trials=2)
print(found.untuned.ok, all(each.ok for each in found.trials))
try:
    to_c(named)
except UsageError as error:
    print(error.message)
"""


@pytest.mark.nightly
@pytest.mark.timeout(3000)
def test_outputs_are_checked_by_another_generator_than_that_of_the_boards_c(python: Path) -> None:
    assert said(python, "-c", SLIDE).splitlines() == [
        "[8, 8, 8, 7, 7, 30, 30, 30]",
        "True True",
        "main has a variable v_, as TVM calls its own variables in C.",
    ]


GIVEN = """
import numpy as np
import tvm
from tvm import te, tirx
from boardprof.base.errors import UsageError
from boardprof.compat.tvm import to_c, tune
from boardprof.compat.tvm.tuning import _host_outputs

def relu(n):
    x = te.placeholder((n,), "int32", name="x")
    y = te.compute((n,), lambda i: tirx.max(x[i], 0), name="y")
    return te.create_prim_func([x, y])

x, zeros = np.full(32, -3, np.int32), np.zeros(32, np.int32)
main = tvm.IRModule({"main": relu(32).with_attr("global_symbol", "main")})
print(_host_outputs(main, {"x": x, "y": zeros})["y"].any())

def search(function=relu(32), arguments=None, trials=1):
    found = tune(function, "qemu-rv32", "instructions", trials=trials, arguments=arguments)
    return found.result is found.untuned and all(each.ok for each in found.trials)

print(search(arguments={"y": zeros, "x": x}))
print(search(tvm.IRModule({"relu": relu(32).with_attr("global_symbol", "relu")})))
for refused in (
    lambda: search(trials=0),
    lambda: search(arguments={"x": x}),
    lambda: search(arguments={"x": x[:16], "y": zeros}),
    lambda: search(tvm.IRModule({})),
    lambda: search(relu(te.var("n"))),
    lambda: to_c(relu(te.var("n"))),
):
    try:
        refused()
    except UsageError as error:
        print(error.message)
"""


@pytest.mark.nightly
@pytest.mark.timeout(3000)
def test_arguments_of_a_search_are_checked_and_a_search_without_gain_returns_the_function(
    python: Path,
) -> None:
    assert said(python, "-c", GIVEN).splitlines() == [
        "False",  # an output that the function does not change is one, too
        "True",
        "True",
        "trials is 0, but must be at least 1.",
        "The function takes arrays for x, y, not for x.",
        "x is int32 of shape (32,), not int32 of (16,).",
        "The module has 0 TIR functions, but one is tuned at a time.",
        "x has the shape (n,), which is not static.",
        "x of main has the shape (n,), which is not static.",
    ]


@pytest.mark.nightly
@pytest.mark.timeout(3000)
def test_a_network_is_measured_tuned_and_measured_again(python: Path, tmp_path: Path) -> None:
    """The example compares the outputs of each step with TVM's on this machine."""
    file = tmp_path / "network.c"
    arguments = ("--board", "qemu-rv32", "--metric", "instructions", "--trials", "8")
    told = said(python, str(EXAMPLES / "network.py"), *arguments, "--c", str(file))
    before, after = (
        int(each.replace(",", "")) for each in re.findall(r"^ *([\d,]+) instructions$", told, re.M)
    )
    assert after < before
    with boardprof.build(file, board="qemu-rv32").open() as board:
        x = np.random.default_rng(2).integers(-100, 100, (1, 16, 16, 4)).astype("int8")
        y = np.zeros((1, 10), np.int32)
        whole = board.profile("network", x, boardprof.Out(y), repeat=1).calls[0]["instructions"]
        found = board.hotspots("network", x, boardprof.Out(y)).functions()
    by_name = {each.name: each.total for each in found}
    assert isinstance(whole, boardprof.Count)
    assert whole.value == pytest.approx(after, rel=0.01)
    assert by_name["matmul"] == pytest.approx(23_117, rel=0.01)


NETWORK = """
import sys
import numpy as np
from tvm import relax
from boardprof.base.errors import UsageError
from boardprof.compat.tvm import host_run, lower, profile, tune_network

rng, op, builder = np.random.default_rng(1), relax.op, relax.BlockBuilder()
first, second = (
    relax.const(rng.integers(-8, 8, shape).astype("int8")) for shape in ((32, 24), (24, 10))
)
x = relax.Var("x", relax.TensorType((4, 32), "int8"))
with builder.function("main", [x]):
    with builder.dataflow():
        hidden = op.matmul(x, first, out_dtype="int32")
        hidden = op.minimum(op.maximum(hidden, relax.const(0, "int32")), relax.const(127))
        hidden = builder.emit(op.astype(hidden, "int8"))
        result = builder.emit_output(op.matmul(hidden, second, out_dtype="int32"))
    builder.emit_func_output(result)
mod = builder.get()
network = lower(mod)
found = tune_network(network, "qemu-rv32", "instructions", trials=16)
data = rng.integers(-100, 100, (4, 32)).astype("int8")
(expected,) = host_run(mod, [data])
for each in (network, found.network):
    report, (output,) = profile(each, [data], "qemu-rv32", ["instructions"], warmup=0)
    assert np.array_equal(output, expected)
    print("total", sum(row["instructions"].value for row in report.calls))
print("operators", len(found.untuned), "trials", len(found.trials))
for refused in (
    lambda: profile(network, [], "qemu-rv32"),
    lambda: network.function("softmax"),
    lambda: tune_network(network, "qemu-rv32", "instructions", trials=0),
):
    try:
        refused()
    except UsageError as error:
        print(error.message)
assert all(each.ok for each in found.trials)
"""


@pytest.mark.nightly
@pytest.mark.timeout(3000)
def test_a_network_of_two_layers_is_tuned_by_tune_relax(python: Path) -> None:
    told = said(python, "-c", NETWORK)
    before, after = map(int, re.findall(r"^total (\d+)$", told, re.M))
    assert after < 0.8 * before
    assert "operators 2 trials 16" in told
    assert told.splitlines()[-3:] == [
        "The inputs of the network are x, but 0 arrays were given.",
        "There is no operator 'softmax'. Known: fused_matmul_maximum_minimum_cast, matmul1",
        "trials is 0, but must be at least 1.",
    ]


QUANTISED = """
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from tvm.relax.frontend.onnx import from_onnx
from boardprof.compat.tvm import lower, profile

rng = np.random.default_rng(1)
weights = rng.integers(-90, 90, (16, 10)).astype(np.int8)
constants = {"w": weights, "xs": np.float32(0.02), "xz": np.int8(3), "ws": np.float32(0.01),
             "wz": np.int8(0), "ys": np.float32(0.05), "yz": np.int8(-4)}
nodes = [
    helper.make_node("DequantizeLinear", ["x", "xs", "xz"], ["xf"]),
    helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["wf"]),
    helper.make_node("MatMul", ["xf", "wf"], ["yf"]),
    helper.make_node("QuantizeLinear", ["yf", "ys", "yz"], ["y"]),
]
graph = helper.make_graph(
    nodes, "dense",
    [helper.make_tensor_value_info("x", TensorProto.INT8, [1, 16])],
    [helper.make_tensor_value_info("y", TensorProto.INT8, [1, 10])],
    [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
)
opset = [helper.make_opsetid("", 19)]
model = helper.make_model(graph, opset_imports=opset, ir_version=9)
x = rng.integers(-100, 100, (1, 16)).astype(np.int8)
(expected,) = ReferenceEvaluator(model).run(None, {"x": x})
network = lower(from_onnx(model, keep_params_in_input=False))
report, (output,) = profile(network, [x], "qemu-rv32", ["instructions"], warmup=0)
assert len(set(expected.ravel().tolist())) > 3
print("largest difference", int(np.abs(output.astype(int) - expected.astype(int)).max()))
"""


@pytest.mark.nightly
@pytest.mark.timeout(3000)
def test_a_quantised_layer_from_onnx_computes_what_onnx_says(python: Path) -> None:
    assert said(python, "-c", QUANTISED) == "largest difference 0\n"


REFUSED = """
import numpy as np
import tvm
from tvm import relax, te
from boardprof.compat.tvm import lower, profile, to_c, tune
from boardprof.base.errors import UsageError

def twice(dtype):
    a = te.placeholder((4, 4), dtype, name="A")
    return te.create_prim_func([a, te.compute((4, 4), lambda i, j: a[i, j] + a[i, j], name="B")])

def network(operator, name="x"):
    builder = relax.BlockBuilder()
    x = relax.Var(name, relax.TensorType((1, 4), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            output = builder.emit_output(builder.emit(operator(x)))
        builder.emit_func_output(output)
    return builder.get()

x = np.float32([[0, 0.5, 1, -9]])
for name in ("/model/x", "x y", "int"):
    report, (output,) = profile(lower(network(relax.op.erf, name)), [x], "native", [])
    print([call["Name"] for call in report.calls], output.round(3).tolist())
for call in (
    lambda: to_c(twice("float16")),
    lambda: tune(twice("bfloat16"), "qemu-rv32", "instructions", trials=1),
    lambda: to_c(twice("int4")),
    lambda: lower(network(relax.op.isinf)).text,
    lambda: lower(network(lambda x: relax.op.split(x, 2, axis=1))),
):
    try:
        call()
    except UsageError as error:
        print(error.message)
"""


@pytest.mark.nightly
@pytest.mark.timeout(3000)
def test_names_of_the_c_library_work_and_types_of_no_board_are_refused_by_name(
    python: Path,
) -> None:
    assert said(python, "-c", REFUSED).splitlines() == [
        *["['erf_'] [[0.0, 0.5199999809265137, 0.8429999947547913, -1.0]]"] * 3,
        "A of main is float16, which no board can take.",
        "A is bfloat16, which no board can take.",
        "A of main is int4, which no board can take.",
        "TVM makes no C of tir_isinf: Unresolved call tirx.fabs.",
        "gv has 2 outputs; a network here has one for each operator.",
    ]
