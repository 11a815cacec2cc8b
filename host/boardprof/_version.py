# SPDX-License-Identifier: Apache-2.0
"""The version, where a fast start can read it without anything else."""

from __future__ import annotations

__all__ = ["__version__"]

__version__ = "0.1.0"
