# SPDX-License-Identifier: Apache-2.0
"""Checks of a board's counters and of its link: ``boardprof doctor``."""
