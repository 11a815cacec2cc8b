# SPDX-License-Identifier: Apache-2.0
"""What a board is, and which there are."""
