# SPDX-License-Identifier: Apache-2.0
"""What the probes of running firmware have recorded: events, ranges, tasks, and files of them."""
