# SPDX-License-Identifier: Apache-2.0
"""Compilers and their runs, through a cache of what they made."""
