# SPDX-License-Identifier: Apache-2.0
"""From C files to a board's firmware, and onto the board."""
