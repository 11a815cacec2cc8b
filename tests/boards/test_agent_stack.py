# SPDX-License-Identifier: Apache-2.0
"""What links also runs: the agent's deepest calls fit into the least stack that a board leaves.

The depth is computed from the linked image: the frames of the call-frame information, the calls in
the machine code, and `stack_rules.toml` for calls through pointers.
"""

from __future__ import annotations

import fnmatch
from contextlib import suppress
from functools import cached_property
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from boardprof.base.errors import BuildError
from boardprof.base.metrics import Count
from boardprof.target.elf.machine_code import calls_through_pointer, targets
from boardprof.target.elf.object_file import code_address, functions_in, symbols
from boardprof.target.elf.stack_need import image_stack
from scripts.stack_depth import Rules
from tests.boards.conftest import NAMES, SMALL, available, spec_of
from tests.firmware import build
from tests.support import AGENT

THUNKS = ("bp_thunk_void", "bp_thunk_of_*")
MORE_RULES = {
    "bp_target_open": ("bp_unpack_of_*",),
    "bp_call_target": ("bp_pack_of_*", *THUNKS),
    "bp_measure": ("bp_pack_of_*", *THUNKS),
    "bp_invoke": ("bp_guard", "bp_sampling", "bp_sample", "bp_arena_crc"),
    "bp_guard_enter": ("bp_sampled",),
    "bp_arch_guard_enter": ("bp_sampled",),
    "bp_changed": (),
    "bp_all_off": (),
    "bp_port_write": (),  # bp_stdio_flush, which needs less than what a frame's CRC does
    **dict.fromkeys(
        ("bp_single", "bp_round", "bp_painted", "bp_call_painted", "bp_window", "bp_stack"), THUNKS
    ),
    "bp_sampled": THUNKS,
}
SAMPLING = "bp_sample"
"""The only call of the agent that sampling's interrupt is enabled in."""

OF_COLLECTORS = {
    "bp_init": ("init",),
    "bp_describe_entry": ("counter", "operation", "event"),
    "bp_start_all": ("start",),
    "bp_stop_all": ("stop",),
    "bp_blob_put": ("encode",),
    "bp_window_call": ("init", "start", "stop"),
    "bp_select_slots": ("select",),
}
"""Functions that call the board's collectors, and which of their functions."""

SAVED = 18
"""Registers that the naked bp_guard_enter of an AVR pushes."""

SAVED_TO_SAMPLE = 15
"""Those that the naked bp_avr_compare pushes."""

RARE, UNUSUAL = "bp_trace_rare", "bp_trace_unusual"
"""They call each other once: what was rare about a record is not any more the second time."""

WITHOUT_FRAME = 48
"""More than any of libgcc's functions in assembly needs, whose frames are not described."""


class Calls:
    """The calls of an image, and how deep they go: all of them, or only those while sampling."""

    def __init__(self, image: Path, collectors: tuple[str, ...], *, sampling: bool) -> None:
        self._sampling = sampling
        with image.open("rb") as file:
            elf = ELFFile(file)
            self.machine, self._bits = elf["e_machine"], elf.elfclass
            self._at = {code_address(elf, each): each.name for each in functions_in(elf)}
            sizes = {each.name: each.size for each in functions_in(elf)}
            self.values = {each.name: each.value for each in symbols(elf)}
            code = [(s["sh_addr"], s.data()) for s in elf.iter_sections() if s["sh_flags"] & 4]
        self._code = {}
        for address, name in self._at.items():
            for start, content in code:
                if start <= address < start + len(content):
                    begin = address - start
                    self._code[name] = address, content[begin : begin + sizes[name]]
        self._frames = {n: need.own for n, need in image_stack(image, self._code).needs.items()}
        rules = Rules.load(AGENT / "stack_rules.toml")
        self._extern = rules.extern
        self._indirect = {name: [*called] for name, called in rules.indirect.items()}
        for name, called in MORE_RULES.items():
            self._indirect[name] = [*self._indirect.get(name, ()), *called]
        for name, kinds in OF_COLLECTORS.items():
            of_each = [f"bp_{c}_{kind}" for c in collectors for kind in kinds]
            self._indirect[name] = [*self._indirect.get(name, ()), *of_each]
        self._leaves = ("__", *(f"bp_{c}_" for c in collectors))  # they call single instructions
        invoked = self._indirect["bp_invoke"]
        self._indirect["bp_invoke"] = [n for n in invoked if (n == SAMPLING) == sampling]
        self._known: dict[str, int] = {}

    @property
    def interrupts(self) -> list[str]:
        """Return an AVR's handlers that take the stack of what they interrupt."""
        vectors = [name for name in self._code if name.startswith("__vector_")]
        sampled = [name for name in vectors if "bp_avr_compare" in self._callees(name)]
        return sampled if self._sampling else [name for name in vectors if name not in sampled]

    @cached_property
    def return_address(self) -> int:
        if self.machine != "EM_AVR":
            return 0  # it is in the frame of a function that makes calls
        return 3 if self.values["bp_stack_top"] > 0x801000 else 2

    def depth(self, name: str) -> int:
        """Return the bytes of a function and all that it calls, without its own return address."""
        if name not in self._known:
            self._known[name] = -1_000_000  # a recursion would be a negative number
            called = [self.depth(each) + self.return_address for each in self._callees(name)]
            self._known[name] = self._own(name) + max(called, default=0)
        assert self._known[name] >= 0, f"{name} is recursive"
        return self._known[name]

    def _own(self, name: str) -> int:
        base = name.partition(".")[0]
        if self.machine == "EM_AVR" and base in ("bp_guard_enter", "bp_avr_compare"):
            return SAVED if base == "bp_guard_enter" else SAVED_TO_SAMPLE
        frame = self._frames.get(name, WITHOUT_FRAME if name.startswith("__") else 0)
        own = max(frame, self._extern.get(base, 0))
        return own + self._own(UNUSUAL) if name == RARE else own

    def _callees(self, name: str) -> set[str]:
        if name.startswith("bp_thunk_of_"):
            return set(self.interrupts) if self._sampling else set()  # and the user's function
        address, code = self._code[name]
        found = targets(self.machine, code, address, self._bits)
        called = {self._at[each] for each in found if each in self._at} - {name}
        rule = self._indirect.get(name.partition(".")[0])
        if rule is None and calls_through_pointer(self.machine, code):
            assert name.startswith(self._leaves), f"{name} calls through a pointer"
        called |= {n for n in self._code for each in rule or () if fnmatch.fnmatch(n, each)}
        if name == RARE and UNUSUAL in called:
            called = called - {UNUSUAL} | self._callees(UNUSUAL) - {RARE}
        return called


@pytest.mark.parametrize("name", [n for n in NAMES if spec_of(n).build.arch != "posix"])
def test_the_agent_s_deepest_call_fits_the_least_stack_that_links(name: str) -> None:
    spec = available(name)
    firmware = build(spec, [SMALL])
    calls, sampled = (
        Calls(firmware.image, spec.build.collectors, sampling=each) for each in (False, True)
    )
    least = calls.values.get("bp_stack_least") or calls.values["bp_stack_bytes"]
    address = calls.return_address
    on_top = max((address + calls.depth(name) for name in calls.interrupts), default=0)
    assert 300 < address + calls.depth("main") + on_top <= least
    assert 200 < address + sampled.depth("main") <= least


TOUCH = """\
#include <stdint.h>
volatile uint8_t table[{size}];
uint8_t touch(uint8_t i) {{ return table[i & 1]; }}
"""


@pytest.mark.parametrize("size", [400, 430, 450, 460, 465, 470, 480, 500, 515, 520, 540, 560])
def test_at_each_size_of_its_variables_an_uno_runs_or_does_not_link(
    tmp_path: Path, size: int
) -> None:
    """With 50 bytes less of stack than `bp_stack_least`, the agent hits its own canary."""
    source = tmp_path / "big.c"
    source.write_text(TOUCH.format(size=size))
    firmware = None
    with suppress(BuildError):
        firmware = build(available("arduino-uno"), [source])
    if firmware is None:
        assert size > 400
        with pytest.raises(BuildError, match="too little of the memory of arduino-uno for the st"):
            build(available("arduino-uno"), [source])
        return
    assert size < 500
    with firmware.open() as board:
        (row,) = board.profile("touch", 1, repeat=3).calls[-1:]
        assert row["cycles"] == Count(12)
        assert row["Stack (bytes)"] == Count(0)


@pytest.mark.parametrize("size", [40, 63, 64, 100, 200, 255, 256, 300, 512])
def test_the_frame_of_local_variables_is_known_on_an_avr(tmp_path: Path, size: int) -> None:
    """Frames of 64 to 255 bytes are made with SUBI and SBC, smaller ones with SBIW."""
    source = tmp_path / "local.c"
    source.write_text(
        f"int local(int n) {{ volatile char bytes[{size}]; bytes[n] = 1; return bytes[0]; }}\n"
    )
    need = image_stack(build(available("arduino-uno"), [source]).image, ["local"]).needs["local"]
    assert size <= need.own <= size + 8
