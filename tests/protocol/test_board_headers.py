# SPDX-License-Identifier: Apache-2.0
"""The headers that boards' own schemas are made into: their encoders write what the vectors say."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest

from tests.memory_board import WARNINGS
from tests.support import AGENT, ROOT, requires_tool, run, unhex, vectors

IBEX = ROOT / "boards" / "ibex-rtl"
NAMES = ("ibex_hpm", "ibex_accelerator")
PUT = """\
size_t put_{0}(uint8_t *out, const bp_{0}_t *in);
size_t put_{0}(uint8_t *out, const bp_{0}_t *in) {{
    return (size_t)(bp_{0}_put(out, in) - out);
}}
"""


@pytest.fixture(scope="module")
def encoders(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("ibex")
    source, library = folder / "put.c", folder / "put.so"
    source.write_text(
        '#include <stddef.h>\n#include "ibex_wire.h"\n' + "".join(map(PUT.format, NAMES))
    )
    cc = requires_tool("gcc", package="gcc")
    includes = [f"-I{place}" for place in (IBEX, AGENT / "include")]
    run(
        [
            cc,
            *WARNINGS,
            "-fPIC",
            "-shared",
            *includes,
            source,
            AGENT / "src" / "bp_le.c",
            "-o",
            library,
        ]
    )
    return ctypes.CDLL(str(library))


@pytest.mark.parametrize(
    ("name", "vector"),
    [
        pytest.param(name, vector, id=f"{name}: {vector['name']}")
        for name in NAMES
        for vector in vectors(name)
        if "fields" in vector
    ],
)
def test_a_blobs_body_is_written(encoders: Any, name: str, vector: dict[str, Any]) -> None:
    fields = list(vector["fields"].values())  # 64 bits each, in the order of the struct
    state, out = (ctypes.c_uint64 * len(fields))(*fields), ctypes.create_string_buffer(256)
    put = getattr(encoders, f"put_{name}")
    put.restype = ctypes.c_size_t
    length = put(out, state)
    assert out.raw[:length] == unhex(vector["body"])
