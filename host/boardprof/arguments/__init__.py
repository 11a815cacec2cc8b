# SPDX-License-Identifier: Apache-2.0
"""Python values to what a C function's parameter takes, and back."""
