# SPDX-License-Identifier: Apache-2.0
"""Measurements to rows: raw to net, and the Report."""
