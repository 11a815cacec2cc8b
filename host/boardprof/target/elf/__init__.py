# SPDX-License-Identifier: Apache-2.0
"""Read object files, archives and images without running them."""
