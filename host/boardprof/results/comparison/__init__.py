# SPDX-License-Identifier: Apache-2.0
"""Comparison of two Reports: what differs, whether it is noise, and rules that gate it."""
