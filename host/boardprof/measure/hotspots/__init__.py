# SPDX-License-Identifier: Apache-2.0
"""Where a call spends what it costs: by function, line, instruction and call path."""
