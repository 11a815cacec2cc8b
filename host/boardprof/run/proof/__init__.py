# SPDX-License-Identifier: Apache-2.0
"""``boardprof doctor -b BOARD``: are a board's counters, clocks and sizes what they say?"""
