# SPDX-License-Identifier: Apache-2.0
"""What x86-64 functions with a frame pointer take of the stack (encodings: Intel SDM, vol. 2)."""

from __future__ import annotations

import pytest

from boardprof.target.elf.machine_code import below_frame_pointer

PUSH_MOV = "55 4889e5"


@pytest.mark.parametrize(
    ("code", "taken"),
    [
        (f"{PUSH_MOV} 4881ec a0000000", 160),  # sub rsp, 160
        (f"{PUSH_MOV} 4883ec 40", 64),  # sub rsp, 64
        (f"f30f1efa {PUSH_MOV} 4883ec 10", 16),  # behind endbr64
        (f"{PUSH_MOV} 53 4883ec 48", 72),  # push rbx
        (f"{PUSH_MOV} 4157 4156 53 4883ec 08", 8),  # push r15, r14, rbx
        (f"{PUSH_MOV} 4883c4 80", 128),  # add rsp, -128
        (f"{PUSH_MOV} 8945fc 4883ec 40", 0),  # not behind it at once: no prologue
        (f"{PUSH_MOV} 5dc3", 0),
    ],
)
def test_what_is_taken_behind_the_frame_pointer(code: str, taken: int) -> None:
    assert below_frame_pointer("EM_X86_64", bytes.fromhex(code)) == taken
