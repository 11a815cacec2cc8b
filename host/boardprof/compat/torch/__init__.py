# SPDX-License-Identifier: Apache-2.0
"""torch.profiler's interface: the calls that the host makes of boards, on one time line."""
