# SPDX-License-Identifier: Apache-2.0
"""Conversion of Python values to a C function's parameters, and back."""
