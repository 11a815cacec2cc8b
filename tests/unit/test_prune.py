# SPDX-License-Identifier: Apache-2.0
"""The cache forgets what was not used for long, and only when it is large."""

from __future__ import annotations

import os
import time
from pathlib import Path

from boardprof.target.toolchain.cache import Cache, prune

DAY_S = 86400


def aged(root: Path, name: str, days: float, size: int = 100) -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(bytes(size))
    at = time.time() - days * DAY_S
    os.utime(path, (at, at))
    return path


def test_old_files_of_a_large_cache_go_and_others_stay(tmp_path: Path) -> None:
    old = aged(tmp_path, "objects/1/a.o", days=31)
    new = aged(tmp_path, "objects/2/b.o", days=29)
    foreign = aged(tmp_path, "dictionaries/c", days=400)
    assert prune(tmp_path, largest_bytes=150) == [old]
    assert not old.parent.exists()
    assert new.exists()
    assert foreign.exists()


def test_locks_stay_for_they_may_be_held(tmp_path: Path) -> None:
    old = aged(tmp_path, "simulators/1/simulator", days=31)
    lock = aged(tmp_path, "simulators/1.lock", days=31)
    assert prune(tmp_path, largest_bytes=0) == [old]
    assert lock.exists()


def test_a_small_cache_keeps_everything(tmp_path: Path) -> None:
    old = aged(tmp_path, "images/1/a.elf", days=400)
    assert prune(tmp_path, largest_bytes=100) == []
    assert old.exists()


def test_it_looks_once_a_day(tmp_path: Path) -> None:
    assert prune(tmp_path, largest_bytes=0) == []
    old = aged(tmp_path, "images/1/a.elf", days=400)
    assert prune(tmp_path, largest_bytes=0) == []
    aged(tmp_path, "pruned", days=1.1)
    assert prune(tmp_path, largest_bytes=0) == [old]


def test_what_a_killed_build_has_left_goes(tmp_path: Path) -> None:
    left = aged(tmp_path, "tmp/killed/x.o", days=2).parent
    at = time.time() - 2 * DAY_S
    os.utime(left, (at, at))
    kept = aged(tmp_path, "tmp/running/x.o", days=0).parent
    prune(tmp_path)
    assert not left.exists()
    assert kept.exists()


def test_what_is_used_is_marked(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    text = cache.write("f", "functions", "1.json")
    (tmp_path / "x.o").write_bytes(b"")
    stored = cache.store(tmp_path / "x.o", "edited", "1")
    for path in (text, stored):
        os.utime(path, (0, 0))
    assert cache.read("functions", "1.json") == "f"
    assert cache.find("x.o", "edited", "1") == stored
    assert time.time() - text.stat().st_mtime < DAY_S
    assert time.time() - stored.stat().st_mtime < DAY_S
    assert prune(tmp_path, largest_bytes=0) == []
