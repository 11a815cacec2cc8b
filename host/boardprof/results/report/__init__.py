# SPDX-License-Identifier: Apache-2.0
"""The Report, and how measurements become its rows: from raw to net values."""
