# SPDX-License-Identifier: Apache-2.0
"""Two Reports against each other: what differs, whether it is noise, and rules that gate it."""
