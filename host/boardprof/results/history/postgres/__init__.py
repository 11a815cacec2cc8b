# SPDX-License-Identifier: Apache-2.0
"""A team's history in a PostgreSQL database; it needs the extra ``boardprof[postgres]``."""
