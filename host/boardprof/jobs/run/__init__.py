# SPDX-License-Identifier: Apache-2.0
"""The work of ``boardprof run``: planning, building, measuring and saving, without the CLI."""
