# SPDX-License-Identifier: Apache-2.0
"""The history: all kept runs, in one SQLite file."""
