# SPDX-License-Identifier: Apache-2.0
"""Transports carry bytes to a board: one file each, without knowledge of frames or metrics."""
