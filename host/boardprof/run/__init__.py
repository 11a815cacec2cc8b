# SPDX-License-Identifier: Apache-2.0
"""What the commands do, apart from how they are spelled."""
