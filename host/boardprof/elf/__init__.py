# SPDX-License-Identifier: Apache-2.0
"""Object files, archives and images: what is in them, read without running them."""
