# SPDX-License-Identifier: Apache-2.0
"""Compilers and their runs, with a cache of their outputs."""
