# SPDX-License-Identifier: Apache-2.0
"""A host that is made to be killed: begins a session on an inherited descriptor, and calls.

``python -m tests.faults.host DESCRIPTOR FUNCTION-ID MOMENT`` prints ``ready`` when it stands at
that moment, and does not end by itself.
"""

from __future__ import annotations

import os
import sys
import time

from boardprof.link.session import Session
from boardprof.transport.base import DescriptorTransport
from boardprof_protocol.codes import FrameKind
from boardprof_protocol.frame import Frame, encode_frame

__all__ = ["ARGUMENT", "MOMENTS", "main"]

MOMENTS = ("after HELLO", "within a frame", "within a call")
ARGUMENT = 20_000_000
"""Of the function that is called; it shall still be running when this process is killed."""


def main(descriptor: int, function_id: int, moment: str) -> None:
    """Say HELLO, go to the moment, and stay there until killed."""
    session = Session(
        DescriptorTransport(descriptor, "inherited", lambda: os.close(descriptor)), timeout_s=20.0
    )
    session.open()
    argument = b"\xce" + ARGUMENT.to_bytes(4, "big")
    if moment == "within a frame":
        frame = encode_frame(Frame(FrameKind.CALL, 1, 1, b"\x92" + bytes([function_id]) + argument))
        session.transport.write(frame[: len(frame) // 2], 1.0)
    print("ready", flush=True)
    if moment == "within a call":
        session.call(function_id, argument, 1, name="spin")
    time.sleep(60.0)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
