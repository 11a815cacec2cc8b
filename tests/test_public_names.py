# SPDX-License-Identifier: Apache-2.0
"""What users import as ``boardprof.NAME`` is the module of its room, for Python and a type checker.

A stub package beside the package tells type checkers where the modules stand.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import boardprof
from tests.support import ROOT

STUBS = ROOT / "host" / "boardprof-stubs"

USE = """\
import boardprof.errors
from boardprof.errors import DeviceTimeoutError
from boardprof.metrics import Duration
from boardprof.tune import Runner

reveal_type(Runner)
reveal_type(boardprof.errors.BoardError.exit_code)
reveal_type(DeviceTimeoutError)
reveal_type(Duration(1).microseconds)
"""


@pytest.mark.parametrize(
    ("public", "room"),
    [
        ("errors", "base.errors"),
        ("metrics", "base.metrics"),
        ("flops", "compat.torch.flops"),
        ("profiling", "compat.tvm_profiler"),
        ("itt", "compat.itt"),
        ("fleet", "jobs.fleet"),
        ("tune", "jobs.tune"),
    ],
)
def test_a_public_module_is_the_one_in_its_room(public: str, room: str) -> None:
    module = importlib.import_module(f"boardprof.{public}")
    assert module is importlib.import_module(f"boardprof.{room}")
    assert getattr(boardprof, public) is module


def test_names_of_public_modules_are_the_same_objects_by_either_name() -> None:
    from boardprof.base.errors import DeviceTimeoutError as error_in_its_room
    from boardprof.errors import DeviceTimeoutError
    from boardprof.jobs.tune.runner import Runner as runner_in_its_room
    from boardprof.tune import Runner

    assert DeviceTimeoutError is error_in_its_room
    assert Runner is runner_in_its_room


def test_a_module_that_is_not_there_is_missing_by_its_public_name() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"boardprof\.nothing"):
        importlib.import_module("boardprof.nothing")


def test_each_public_module_has_a_stub_that_names_its_room() -> None:
    found = {path.stem: path.read_text().splitlines()[1] for path in STUBS.glob("*.pyi")}
    assert found == {
        name: f"from boardprof.{place} import *" for name, place in boardprof._PARTS.items()
    }


@pytest.mark.slow
def test_a_type_checker_knows_the_public_modules(tmp_path: Path) -> None:
    file = tmp_path / "use.py"
    file.write_text(USE)
    command = [sys.executable, "-m", "mypy", "--strict", "--python-executable", sys.executable]
    command += ["--cache-dir", str(ROOT / ".mypy_cache" / "of-users"), str(file)]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    runner, code, error, time, _ = done.stdout.splitlines()
    assert runner.endswith('-> boardprof.jobs.tune.runner.Runner"')
    assert code.endswith(('"int"', '"builtins.int"'))
    assert error.endswith('-> boardprof.base.errors.DeviceTimeoutError"')
    assert time.endswith(('"float"', '"builtins.float"'))
