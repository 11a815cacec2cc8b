# SPDX-License-Identifier: Apache-2.0
"""What pytest was asked to run: which tests of a baseline ought to have been measured again."""

from __future__ import annotations

from typing import Final

import pytest

__all__ = ["is_narrowed", "is_within"]

_NARROWING: Final = ("lf", "ignore", "ignore_glob", "setuponly", "setupplan")
"""Options that leave tests out without deselecting them."""


def is_narrowed(config: pytest.Config) -> bool:
    """Tell whether options or arguments choose among the tests of a folder or a file."""
    options = any(config.getoption(name, None) for name in _NARROWING)
    return options or any("::" in each for each in config.args)


def is_within(config: pytest.Config, label: str) -> bool:
    """Tell whether a test's label lies in the files and folders that pytest was given."""
    file = (config.rootpath / label.partition("::")[0]).resolve()
    folder = config.invocation_params.dir
    return any(file.is_relative_to((folder / each).resolve()) for each in config.args)
