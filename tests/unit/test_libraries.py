# SPDX-License-Identifier: Apache-2.0
"""What boardprof has of cffi's out-of-line mode is what cffi makes of the declarations."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import _cffi_backend
import cffi
import pytest

from boardprof.transport import libraries


def test_the_tables_are_those_that_cffi_compiles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables: list[dict[str, Any]] = []
    monkeypatch.setattr(_cffi_backend, "FFI", lambda _, **given: tables.append(given))
    maker = cffi.FFI()
    maker.cdef(libraries.DECLARATIONS)
    maker.set_source("compiled", None)
    maker.compile(tmpdir=str(tmp_path))
    runpy.run_path(str(tmp_path / "compiled.py"))
    runpy.run_path(libraries.__file__)
    assert len(tables) == 2
    assert tables[0] == tables[1]
