# SPDX-License-Identifier: Apache-2.0
"""Decoding of blobs to readings by the collectors' layouts, and the board's dictionary."""
