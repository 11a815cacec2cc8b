# SPDX-License-Identifier: Apache-2.0
"""`boardprof run` with arrays: from files and generated, written back to files, and checked."""

from __future__ import annotations

import base64
import json
import re
import shlex
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest

from tests.cli.command import FIXTURES, Outcome, boardprof, rows
from tests.support import requires_tool

KERNELS = FIXTURES / "kernels.c"


@pytest.fixture
def rv32() -> str:
    requires_tool("riscv64-unknown-elf-gcc", "gcc-riscv64-unknown-elf")
    requires_tool("qemu-system-riscv32", "qemu-system-misc")
    return "qemu-rv32"


@pytest.fixture
def x(tmp_path: Path) -> str:
    """Five samples, 1 to 5."""
    np.save(tmp_path / "x.npy", np.array([1, 2, 3, 4, 5], np.int16))
    return f"x=@{tmp_path / 'x.npy'}"


def run(function: str, *arguments: str | Path) -> Outcome:
    return boardprof("run", f"{KERNELS}:{function}", *arguments, "--repeat", "2", "--warmup", "1")


def refused(done: Outcome, message: str) -> bool:
    assert (done.code, done.out) == (2, ""), done
    return message in done.err


# -- in, out, and what becomes of it ----------------------------------------------------------


def test_files_and_generated_arrays_go_in_and_the_output_is_a_file(x: str, tmp_path: Path) -> None:
    out = tmp_path / "a" / "b"
    done = run("fir", x, "h=int16[2]:ones", "y=int32[4]:out", "n=4", "--save-output", out)
    assert (done.code, rows(done.out)) == (0, ["fir"])
    assert "x=int16[5], h=int16[2], y=int32[4], n=4" in done.out
    assert sorted(path.name for path in out.iterdir()) == ["y.npy"]
    y = np.load(out / "y.npy")
    assert (y.dtype, y.tolist()) == (np.dtype(np.int32), [3, 5, 7, 9])


def test_an_in_out_array_begins_anew_in_each_call_unless_it_is_kept(x: str, tmp_path: Path) -> None:
    arguments = [x, "h=int16[2]:ones", "n=4", "--save-output", tmp_path]
    assert run("fir", *arguments, "y=int32[4]:ones").code == 0
    assert np.load(tmp_path / "y.npy").tolist() == [4, 6, 8, 10]
    done = run("fir", *arguments, "y=int32[4]:ones:keep")
    # One warm-up call, two samples, one for the stack, and the last.
    assert np.load(tmp_path / "y.npy").tolist() == [1 + 5 * s for s in (3, 5, 7, 9)]
    assert "native kept: y of fir: not restored between calls\n" in done.out


def test_the_return_value_is_a_file_of_its_own_type(tmp_path: Path) -> None:
    done = run("scale", "x=float32[2,2]:ones", "n=4", "gain=0.5", "--save-output", tmp_path)
    assert done.code == 0
    assert "native returned: 0.5\n" in done.out
    returned = np.load(tmp_path / "return.npy")
    assert (returned.dtype, returned.shape, returned.item()) == (np.dtype(np.float32), (), 0.5)
    assert np.load(tmp_path / "x.npy").tolist() == [[0.5, 0.5], [0.5, 0.5]]


def test_structs_come_from_files_of_bytes(tmp_path: Path) -> None:
    (tmp_path / "pairs.bin").write_bytes(bytes([1, 0, 2, 0, 3, 0, 4, 0]))
    arguments = [f"pairs=@{tmp_path / 'pairs.bin'}", "n=2", "--save-output", tmp_path]
    assert run("swap", *arguments).code == 0
    assert np.load(tmp_path / "pairs.npy").tobytes() == bytes([2, 0, 1, 0, 4, 0, 3, 0])
    np.save(tmp_path / "records.npy", np.array([(1, 2)], "<i2, <i2"))
    one = ["n=1", *arguments[2:]]
    assert run("swap", f"pairs=@{tmp_path / 'records.npy'}", *one).code == 0
    assert np.load(tmp_path / "pairs.npy").tolist() == [(2, 1)]


def test_several_boards_get_the_same_values_and_folders_of_their_own(
    rv32: str, tmp_path: Path
) -> None:
    arguments = ["x=int16[65]:random(3)", "h=int16[2]:random", "y=int32[64]:out", "n=64"]
    done = run("fir", "-b", f"native,{rv32}", *arguments, "--save-output", tmp_path)
    assert done.code == 0
    native, other = (np.load(tmp_path / name / "y.npy") for name in ("native", rv32))
    assert native.any()
    assert native.tobytes() == other.tobytes()


def test_the_json_has_the_outputs_shapes_and_the_data_of_small_ones(x: str, tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    assert run("fir", x, "h=int16[2]:ones", "y=int32[4]:out", "n=4", "--json", file).code == 0
    found = json.loads(file.read_text())["boardprof"]["measurements"][0]
    values = zlib.decompress(base64.b64decode(found["outputs"]["y"].pop("values")))
    assert np.frombuffer(values, "<i4").tolist() == [3, 5, 7, 9]
    # CRC-32 of 3, 5, 7 and 9 as 32 bits each.
    assert found["outputs"] == {"y": {"dtype": "int32", "shape": [4], "crc32": "2a1dce24"}}
    assert found["result"] is None


def test_a_run_without_arrays_does_not_import_numpy() -> None:
    target = f"{FIXTURES / 'scalars.c'}:count_calls"
    assert boardprof("run", target).code == 0  # a build reads objects with numpy
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "boardprof", "run", target],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    imported = set(re.findall(r"^import time: .*\| +(\S+)$", done.stderr, re.MULTILINE))
    assert "boardprof.measure.sampling.measure_function" in imported
    assert "numpy" not in imported


# -- what is expected -------------------------------------------------------------------------


def test_an_output_that_is_expected_passes_and_another_is_exit_code_6(
    x: str, tmp_path: Path
) -> None:
    arguments = [x, "h=int16[2]:ones", "y=int32[4]:out", "n=4"]
    right, wrong = tmp_path / "right.npy", tmp_path / "wrong.npy"
    np.save(right, np.array([3, 5, 7, 9], np.int32))
    np.save(wrong, np.array([3, 5, 8, 10], np.int32))
    assert run("fir", *arguments, "--expect", f"@{right}").code == 0
    assert run("fir", *arguments, "--expect", f"y=@{right}").code == 0
    done = run("fir", *arguments, "--expect", f"@{wrong}", "--save-output", tmp_path)
    assert (done.code, rows(done.out)) == (6, ["fir"])
    assert done.err == (
        f"error: y of fir on native differs from {wrong}: 2 of 4 values. The first is y[2]: 7, "
        "expected 8.\n"
    )
    assert np.load(tmp_path / "y.npy").tolist() == [3, 5, 7, 9]  # it is saved nevertheless


def test_what_was_measured_is_told_though_an_output_is_not_as_expected(
    x: str, tmp_path: Path
) -> None:
    np.save(tmp_path / "wrong.npy", np.zeros(4, np.int32))
    arguments = [
        x,
        "h=int16[2]:ones",
        "y=int32[4]:out",
        "n=4",
        "--expect",
        f"@{tmp_path}/wrong.npy",
    ]
    file = tmp_path / "report.json"
    done = run("fir", *arguments, "--json", file, "--save-output", tmp_path)
    assert (done.code, rows(done.out)) == (6, ["fir"])
    assert "error: y of fir on native differs from " in done.err
    (told,) = [line for line in done.out.splitlines() if "differs" in line]
    assert told.startswith("Wrong output: y of fir on native differs from ")
    assert len(json.loads(file.read_text())["calls"]) == 2
    assert (tmp_path / "y.npy").is_file()


def test_floats_are_expected_to_the_bit_unless_there_is_a_tolerance(tmp_path: Path) -> None:
    arguments = ["x=float32[2]:ones", "n=2", "gain=0.1"]
    file = tmp_path / "x.npy"
    np.save(file, np.array([0.1, 0.1000001], np.float32))
    done = run("scale", *arguments, "--expect", f"x=@{file}")
    assert done.code == 6
    assert "1 of 2 values. The first is x[1]: 0.1, expected 0.1000001" in done.err
    assert "Try: --tolerance 1e-6" in done.err
    assert run("scale", *arguments, "--expect", f"x=@{file}", "--tolerance", "1e-5").code == 0


def test_a_nan_is_equal_to_another_nan(tmp_path: Path) -> None:
    """The sign and the payload of a NaN depend on the core."""
    arguments = ["x=[nan, 2]", "n=2", "gain=1"]
    file, other = tmp_path / "x.npy", tmp_path / "other.npy"
    np.save(file, np.array([0xFFC12345, 0x40000000], np.uint32).view(np.float32))
    np.save(other, np.array([1, 2], np.float32))
    assert run("scale", *arguments, "--expect", f"x=@{file}").code == 0
    assert run("scale", *arguments, "--expect", f"x=@{file}", "--tolerance", "1e-6").code == 0
    done = run("scale", *arguments, "--expect", f"x=@{other}", "--tolerance", "1e-6")
    assert done.code == 6
    assert "1 of 2 values. The first is x[0]: nan, expected 1.0.\n" in done.err


def test_an_array_far_larger_than_the_arena_is_refused_at_once() -> None:
    done = run("sum", "x=[4000000000000]:random", "n=3")
    assert done.code == 2
    assert "x=[4000000000000]:random takes 16,000,000,000,000 bytes; the board's arena" in done.err


def test_the_return_value_can_be_expected(tmp_path: Path) -> None:
    file = tmp_path / "sum.npy"
    np.save(file, np.array(3, np.int32))
    assert run("sum", "x=int32[3]:ones", "n=3", "--expect", f"@{file}").code == 0
    assert run("sum", "x=int32[3]:ones", "n=3", "--expect", f"return=@{file}").code == 0
    done = run("sum", "x=int32[3]:ones", "n=2", "--expect", f"return=@{file}")
    assert done.code == 6
    assert "return of sum on native is 2, expected 3." in done.err


def test_a_file_whose_name_is_a_number_is_a_file(tmp_path: Path, x: str) -> None:
    with (tmp_path / "4").open("wb") as file:
        np.save(file, np.array([3, 5, 7, 9], np.int32))
    arguments = [x, "h=int16[2]:ones", "y=int32[4]:out", "n=4"]
    assert run("fir", *arguments, "--expect", f"@{tmp_path / '4'}").code == 0
    done = boardprof("run", "-q", f"{KERNELS}:fir", *arguments, "--expect", "@4", folder=tmp_path)
    assert done.code == 0, done.err


def test_a_number_can_be_expected_as_it_stands() -> None:
    arguments = ["x=int32[3]:ones", "n=3", "--expect"]
    for right in ("3", "return=3", "return=0x3", "return=3.0"):
        assert run("sum", *arguments, right).code == 0, right
    for wrong in ("return=4", "return=3.5", "return=4294967299"):  # 3 + 2^32: no int32
        done = run("sum", *arguments, wrong)
        assert done.code == 6
        assert f"return of sum on native is 3, expected {wrong[7:]}." in done.err
        assert f"\nWrong output: return of sum on native is 3, expected {wrong[7:]}\n" in done.out
    assert "is 3, expected 1." in run("sum", *arguments, "return=true").err
    assert refused(run("sum", *arguments, "x=3"), "There is no output 'x' of sum")
    wrong_kind = run("fir", "x=[1, 2, 3]", "h=[1, 1]", "y=[2]:out", "n=2", "--expect", "3")
    assert refused(wrong_kind, "y of fir on native is not a number, so it cannot be 3.")
    assert refused(run("sum", *arguments, f"return={10**20}"), "is not a valid --expect")


def test_what_can_not_be_expected_is_refused(x: str, tmp_path: Path) -> None:
    arguments = [x, "h=int16[2]:ones", "y=int32[4]:out", "n=4", "--expect"]
    file = tmp_path / "e.npy"
    np.save(file, np.zeros(5, np.int32))
    assert refused(run("fir", *arguments, f"@{file}"), "y of fir on native is int32[4];")
    assert refused(run("fir", *arguments, f"z=@{file}"), "no output 'z' of fir. Known: y")
    assert refused(run("fir", *arguments, str(file)), "is not a valid --expect")
    assert refused(run("fir", *arguments, "@nowhere.npy"), "nowhere.npy cannot be read")
    assert refused(run("fir", *arguments, "@"), "'@' is not a valid --expect")
    file.write_text("1 2 3 4 5\n")
    done = run("fir", *arguments, f"@{file}")
    assert refused(done, "e.npy is not a .npy file of numbers: it is text.\nTry: --save-output DIR")
    assert "pickle" not in done.err
    assert refused(run("fir", *arguments[:-1], "--tolerance", "1"), "--tolerance needs --expect")
    for number in ("inf", "1e999"):
        done = run("fir", *arguments, "@nowhere.npy", "--tolerance", number)
        assert refused(done, f"'--tolerance': {number} is not a finite number."), number
    np.save(file, np.zeros(5, np.int32))
    done = boardprof("run", f"{FIXTURES / 'endless.c'}:a_ends", "--expect", f"@{file}")
    assert refused(done, "a_ends returns nothing and writes no array: there is nothing to compare")


# -- bad input --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            ["x=int32[5]:ones"],
            "x=int32[5]:ones is int32[5]; the parameter's type is const i16*, which",
        ),
        (["x=int32[5]:ones"], "Try: x=int16[5]:ones\n"),
        (["x=7"], "x=7 is not an array; the parameter's type is const i16*."),
        (["x=int16[5"], "x=int16[5 is not a known form of argument."),
        (["x=@nowhere.npy"], "nowhere.npy cannot be read"),
        (["x=int16[5]:out"], "the function does not write it"),
        (["x=int16[9000000]"], "takes 18,000,000 bytes; the board's arena has 8,388,608 bytes."),
        (["x=int16[4194304]"], "take 8,388,640 bytes; the board's arena has 8,388,608 bytes."),
    ],
)
def test_arrays_that_do_not_fit_are_refused(values: list[str], message: str) -> None:
    done = run("fir", *values, "h=int16[2]:ones", "y=int32[4]:out", "n=4")
    assert refused(done, message)


def test_an_argument_that_is_missing_is_told_with_the_signature() -> None:
    done = run("fir", "x=int16[5]", "h=int16[2]", "n=4")
    assert refused(done, "fir was called without y.")
    assert (
        "Try: fir(x: const i16*, h: const i16*, y: i32*, n: u32) -> void; e.g. y='[4]:random(7)'\n"
    ) in done.err


def test_the_examples_of_a_message_are_arguments_that_a_function_takes(tmp_path: Path) -> None:
    (tmp_path / "kinds.c").write_text(
        "#include <stdbool.h>\n#include <stdint.h>\n"
        "typedef struct { int32_t a[2]; } pair_t;\n"
        "int32_t kinds(const int16_t *x, void *raw, char *text, pair_t *pair, double gain,\n"
        "              bool on, uint8_t n) {\n"
        "    const uint8_t *byte = raw;\n"
        "    return x[n - 1] + byte[n - 1] + text[n - 1] + pair->a[1] + (int32_t)gain + on;\n"
        "}\n"
    )
    target = f"{tmp_path / 'kinds.c'}:kinds"
    done = boardprof("run", target)
    examples = done.err.partition("; e.g. ")[2].strip()
    assert examples == (
        "x='[64]:random(7)' raw='uint8[64]:random(7)' text='[64]:zeros' pair=zeros gain=1.5 "
        "on=true n=64"
    )
    done = boardprof("run", target, *shlex.split(examples), "--repeat", "1")
    assert (done.code, done.err) == (0, "")


def test_a_function_that_hangs_is_stopped_after_milliseconds() -> None:
    done = boardprof("run", "-b", "linux", f"{KERNELS}:hang", "x=int32[1]", "--timeout", "200ms")
    assert (done.code, done.out) == (6, "")
    assert "hang did not end within 0.2 s of the board's clock" in done.err
    assert "kernels.c:" in done.err


def test_a_time_of_an_unknown_unit_is_refused() -> None:
    done = run("hang", "x=int32[1]", "--timeout", "5x")
    assert refused(done, "5x is not a time: 2s, 500ms, 1.5.")


def test_a_folder_that_cannot_be_made_is_told_before_anything_is_built(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = run("hang", "x=int32[1]", "--save-output", tmp_path / "file" / "below")
    assert refused(done, "cannot be written: Not a directory.")
