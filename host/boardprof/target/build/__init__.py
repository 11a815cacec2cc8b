# SPDX-License-Identifier: Apache-2.0
"""Build a board's firmware from C files, and flash it."""
