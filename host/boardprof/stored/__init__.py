# SPDX-License-Identifier: Apache-2.0
"""Read stored Reports: their measurements, and their blobs decoded again."""
