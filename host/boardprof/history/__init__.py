# SPDX-License-Identifier: Apache-2.0
"""Every run that was kept, in one SQLite file."""
