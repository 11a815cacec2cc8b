# SPDX-License-Identifier: Apache-2.0
"""torch.profiler's interface: the calls that the host makes of boards, on one time line.

::

    import boardprof.torch

    with boardprof.torch.profile(record_shapes=True) as prof:
        board.functions.fir(x, h)
    print(prof.key_averages().table(sort_by="cpu_time_total"))
"""

from boardprof.compat.torch.board_activity import MemoryChange
from boardprof.compat.torch.events import FunctionEvent, FunctionEventAvg
from boardprof.compat.torch.export import tensorboard_trace_handler
from boardprof.compat.torch.flops import (
    add,
    addmm,
    bmm,
    conv2d,
    mm,
    mul,
    register_flops,
    unregister_flops,
)
from boardprof.compat.torch.host_events import record_function
from boardprof.compat.torch.profiler import profile
from boardprof.compat.torch.results import EventAverages, EventList
from boardprof.compat.torch.settings import ProfilerAction, ProfilerActivity, schedule

__all__ = [
    "EventAverages",
    "EventList",
    "FunctionEvent",
    "FunctionEventAvg",
    "MemoryChange",
    "ProfilerAction",
    "ProfilerActivity",
    "add",
    "addmm",
    "bmm",
    "conv2d",
    "mm",
    "mul",
    "profile",
    "record_function",
    "register_flops",
    "schedule",
    "tensorboard_trace_handler",
    "unregister_flops",
]
