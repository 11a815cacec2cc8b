# SPDX-License-Identifier: Apache-2.0
"""Firmware as it runs: what its probes record, as events, ranges, tasks and memory."""
