# SPDX-License-Identifier: Apache-2.0
"""Functions that stand for a job on a board, where a test is about the fleet itself."""

from __future__ import annotations

import time

from boardprof.fleet.boards import FleetBoard
from boardprof.fleet.work import Answer

NAP_S = 0.1


def nap(job: object, board: FleetBoard) -> Answer:
    time.sleep(NAP_S)
    return Answer()


def long_nap(job: object, board: FleetBoard) -> Answer:
    time.sleep(60.0)
    return Answer()
