# SPDX-License-Identifier: Apache-2.0
"""New boards and collectors, and copies of the agent: ``boardprof new``, ``boardprof agent``."""
