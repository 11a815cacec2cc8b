# SPDX-License-Identifier: Apache-2.0
"""Exporters of a Report or a Comparison, each a pure function in a module of its own."""
