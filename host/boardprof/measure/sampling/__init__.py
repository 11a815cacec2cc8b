# SPDX-License-Identifier: Apache-2.0
"""Measure on a connected board: passes, calibration, samples, arrays, stack and windows."""
