# SPDX-License-Identifier: Apache-2.0
"""boardprof in pytest: boards and gates on what functions cost, as fixtures and options."""
