# SPDX-License-Identifier: Apache-2.0
"""A connected board: its functions, its memory, its counters."""
