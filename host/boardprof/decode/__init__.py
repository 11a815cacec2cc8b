# SPDX-License-Identifier: Apache-2.0
"""Blobs to readings, by the layouts of the collectors; what the board says it has."""
