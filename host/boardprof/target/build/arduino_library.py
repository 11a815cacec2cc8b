# SPDX-License-Identifier: Apache-2.0
"""The agent as a library of the Arduino IDE.

The IDE compiles all files of a library's ``src`` and passes no options. So the library is a copy of
the agent's files, with the options written into ``bp_config.h``.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from boardprof.base.errors import UsageError
from boardprof.base.resources import runtime_dir
from boardprof.base.writing import unwritable

SIZES = {
    "mtu": 128,
    "rx_bytes": 64,
    "arena": 256,
    "handles": 4,
    "slot_bytes": 32,
    "active_collectors": 1,
    "state_bytes": 16,
}
"""Options for a board with 2 KB of RAM, an Uno; Arduino's Serial has 64 bytes."""

_SOURCES = (
    "src/bp_*.[ch]",
    *("arch/avr/bp_avr_timer.c", "arch/avr/bp_avr_guard.c", "arch/avr/bp_rom.c", "arch/avr/*.h"),
    "collectors/bp_timer16.c",
    "arduino/bp_*",
)
_LEFT_OUT = ("bp_main.c", "bp_mem.c")
_GUARD = "#define BOARDPROF_BP_CONFIG_H\n"


def write_arduino_library(folder: Path, config: Mapping[str, int]) -> dict[str, int]:
    """Write the library and return its options.

    Args:
        folder: the library's own, which must not exist.
        config: options of the agent in lower case, without BP_CFG_; `SIZES` has the others.

    Raises:
        UsageError: the folder exists or cannot be written.
    """
    if folder.exists():
        raise UsageError(f"{folder} already exists.", hint="remove it, or give another folder")
    options = {**SIZES, **config}
    runtime = runtime_dir()
    try:
        source = folder / "src"
        shutil.copytree(runtime / "include" / "boardprof", source / "boardprof")
        for pattern in _SOURCES:
            for path in sorted(runtime.glob(pattern)):
                if path.name not in _LEFT_OUT:
                    shutil.copy(path, source)
        shutil.copy(runtime / "arduino" / "boardprof.h", source)
        shutil.copy(runtime / "arduino" / "library.properties", folder)
        shutil.copytree(runtime / "arduino" / "examples", folder / "examples")
        header = source / "boardprof" / "bp_config.h"
        lines = "".join(f"#define BP_CFG_{name.upper()} {n}\n" for name, n in options.items())
        text = header.read_text(encoding="utf-8")
        header.write_text(text.replace(_GUARD, f"{_GUARD}\n{lines}", 1), encoding="utf-8")
    except OSError as error:
        raise unwritable(folder, error) from error
    return options
