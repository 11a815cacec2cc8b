# SPDX-License-Identifier: Apache-2.0
"""How bytes reach a board. One file a transport; none knows frames or metrics."""
