# SPDX-License-Identifier: Apache-2.0
"""The session with a board: frames, calls, bulk and streams over a transport."""
