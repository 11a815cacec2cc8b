# SPDX-License-Identifier: Apache-2.0
"""Read the descriptions of boards, and find boards by name."""
