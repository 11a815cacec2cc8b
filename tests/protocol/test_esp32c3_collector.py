# SPDX-License-Identifier: Apache-2.0
"""ESP32-C3's collector on a model of its counter, which knows nothing of it."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import msgpack
import pytest

from boardprof_protocol.codes import CounterStatus
from boardprof_protocol.collectors.esp32c3 import LAYOUT
from tests.support import AGENT, C_TESTS, WARNINGS, agent_sources, built_once, requires_tool

OK, ABSENT = CounterStatus.OK, CounterStatus.ABSENT
CYCLES, LOADS = 0x1, 0x20


@pytest.fixture(scope="module")
def library() -> Any:
    cc = requires_tool("gcc", package="gcc")
    sources = [AGENT / "collectors" / "bp_esp32c3.c", C_TESTS / "esp32c3_model.c"]
    sources += [s for s in agent_sources() if s.name in ("bp_call.c", "bp_le.c", "bp_select.c")]
    folders = (AGENT / "include", AGENT / "src", C_TESTS, C_TESTS / "arch")
    includes = [*(f"-I{folder}" for folder in folders), "-include", "esp32c3_model.h"]
    flags = ["-O1", "-fPIC", "-shared", "-Wl,-Bsymbolic", "-DBP_CFG_OPEN_WINDOWS=1"]
    command = [cc, *WARNINGS, *flags, *includes, *sources]
    library = ctypes.CDLL(str(built_once(command, "esp32c3_model.so")))
    library.model_select.restype = library.model_status.restype = ctypes.c_uint8
    return library


@pytest.fixture
def model(library: Any) -> Any:
    library.model_reset()
    return library


def select(model: Any, *events: int) -> Any:
    """Call ``esp32c3.select``; None is a refusal."""
    packed = b"".join(bytes(msgpack.packb(event)) for event in events)
    out = ctypes.create_string_buffer(64)
    length = model.model_select(packed, len(packed), len(events), out)
    return msgpack.unpackb(out.raw[:length]) if length else None


def window(model: Any, body: Callable[[], object]) -> int:
    """Measure what ``body`` does to the model; return the count."""
    state, out = ctypes.create_string_buffer(8), ctypes.create_string_buffer(8)
    model.model_start(state)
    body()
    model.model_stop(state)
    model.model_encode(out, state)
    fields = LAYOUT.struct.parse(out.raw)
    return int(fields.stop - fields.start) % (1 << 32)


def test_after_a_reset_nothing_is_selected_and_nothing_counts(model: Any) -> None:
    assert model.model_status() == ABSENT
    assert window(model, lambda: model.model_event(CYCLES, 1000)) == 0


def test_the_selected_event_is_counted_and_no_other(model: Any) -> None:
    assert select(model, LOADS) == [[0, 0]]
    assert model.model_status() == OK
    assert window(model, lambda: model.model_event(LOADS, 40)) == 40
    assert window(model, lambda: model.model_event(CYCLES, 40)) == 0
    assert select(model, CYCLES) == [[0, 0]]
    assert window(model, lambda: model.model_event(CYCLES | LOADS, 7)) == 7


def test_the_counter_goes_on_at_its_greatest_value(model: Any) -> None:
    """After a reset it would stop there."""
    select(model, CYCLES)
    model.model_preset(2**32 - 16)
    assert window(model, lambda: model.model_event(CYCLES, 32)) == 32


def test_several_events_at_once_or_none_are_no_event(model: Any) -> None:
    assert select(model, CYCLES | LOADS) == [[1, 0]]
    assert select(model, 0) == [[1, 0]]
    assert model.model_status() == ABSENT
    assert window(model, lambda: model.model_event(CYCLES | LOADS, 9)) == 0


def test_two_events_or_a_code_of_too_many_bits_are_refused_and_nothing_changes(model: Any) -> None:
    select(model, LOADS)
    assert select(model, LOADS, CYCLES) is None
    assert select(model, 0x800) is None
    assert model.model_status() == OK
    assert window(model, lambda: model.model_event(LOADS, 3)) == 3


def test_selecting_nothing_switches_the_counter_off(model: Any) -> None:
    select(model, LOADS)
    assert select(model) == []
    assert model.model_status() == ABSENT
    assert window(model, lambda: model.model_event(LOADS, 3)) == 0


def test_a_core_without_the_registers_is_found_out(model: Any) -> None:
    ctypes.c_bool.in_dll(model, "model_is_there").value = False
    assert select(model, CYCLES) == [[1, 0]]
    assert model.model_status() == ABSENT
