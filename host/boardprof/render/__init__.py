# SPDX-License-Identifier: Apache-2.0
"""Exporters of a Report: one file each, each a pure function on a Report.

To add one, write ``def render_x(report: Report, ...) -> str`` in a new file
here.
"""

from __future__ import annotations

__all__: list[str] = []
