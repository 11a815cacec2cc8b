# SPDX-License-Identifier: Apache-2.0
"""A cache of the builder's own for each module whose tests count what is compiled."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from boardprof.target.descriptions.board import board_spec
from tests.firmware import build
from tests.support import ROOT

BOARDS = ("native", "linux", "qemu-rv32", "qemu-cortex-m3")


@pytest.fixture(scope="module")
def cache_of_agents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache with the agent of a few boards and nothing else.

    It is a copy of one below ``build/``: the agent is compiled once and not for each module.
    """
    kept = ROOT / "build" / "tests" / "agents"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(kept))
        for spec in map(board_spec, BOARDS):
            if shutil.which(spec.build.cc) is not None:  # else its own tests are skipped, or fail
                build(spec)
    cache = tmp_path_factory.mktemp("cache") / "home"
    without = shutil.ignore_patterns("tmp")  # another worker's files, which come and go
    return Path(shutil.copytree(kept, cache, ignore=without))


@pytest.fixture
def shared_cache(cache_of_agents: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What ``XDG_CACHE_HOME`` is in all tests of a module."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache_of_agents))
    return cache_of_agents
