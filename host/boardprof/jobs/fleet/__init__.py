# SPDX-License-Identifier: Apache-2.0
"""Batches of measurements on many boards and hosts; see docs/fleet.md.

The boards of this machine need no extra. Those of other hosts need ``boardprof[fleet]``.
"""

from boardprof.jobs.fleet.batch import Progress
from boardprof.jobs.fleet.fleet import Fleet, FleetRunner
from boardprof.jobs.fleet.job import Job, JobError, Limits, Result, merged_report, read_jobs
from boardprof.jobs.fleet.policy import Rules

__all__ = [
    "Fleet",
    "FleetRunner",
    "Job",
    "JobError",
    "Limits",
    "Progress",
    "Result",
    "Rules",
    "merged_report",
    "read_jobs",
]
