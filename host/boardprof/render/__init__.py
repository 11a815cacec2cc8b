# SPDX-License-Identifier: Apache-2.0
"""Exporters of a Report: one per file, each a pure function of a Report.

To add one, write ``def render_x(report: Report, ...) -> str`` in a new file
here.
"""

from __future__ import annotations

__all__: list[str] = []
