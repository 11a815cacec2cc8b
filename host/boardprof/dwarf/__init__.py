# SPDX-License-Identifier: Apache-2.0
"""The functions of object files with their types, as their debug information tells."""
