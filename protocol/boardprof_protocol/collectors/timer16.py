# SPDX-License-Identifier: Apache-2.0
"""A 16-bit timer that counts the core's cycles, and whose interrupt counts its wraps (AVR TIMER1).

The interrupts that run within the window are in what the timer counts. How many there were, and
what one takes, is in the blob, so that they can be taken out again.
"""

from __future__ import annotations

from construct import Int8ul, Int16ul, Int32ul, Struct

from boardprof_protocol.layout import Counter, Layout

__all__ = ["LAYOUT"]

LAYOUT = Layout(
    name="timer16",
    schema_id=7,
    version=1,
    struct=Struct(
        "start" / Int16ul * "cycles",
        "stop" / Int16ul * "cycles",
        "wraps" / Int32ul * "wraps",
        "interrupts" / Int32ul * "interrupts",
        "interrupt_cycles" / Int16ul * "cycles an interrupt",
        "return_cycles" / Int8ul * "cycles a return",
    ),
    counters=(
        Counter(
            "cycles",
            "start",
            "stop",
            unit="ticks",
            own_return="return_cycles",
            wraps="wraps",
            interrupts="interrupts",
            interrupt_cost="interrupt_cycles",
        ),
    ),
)
