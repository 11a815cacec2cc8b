# SPDX-License-Identifier: Apache-2.0
"""Checks of this machine, of a board's counters, and of a link: ``boardprof doctor``."""
