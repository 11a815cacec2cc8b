# SPDX-License-Identifier: Apache-2.0
"""The thermostat of examples/firmware_cmake, built by PlatformIO itself and run in QEMU.

PlatformIO gets its build tool and its compilers from its own registry. Here the build tool is
SCons's package, and the platform is a small one that takes the compiler on PATH.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import platformio.dependencies
import pytest
import SCons

from boardprof.base.errors import DeviceFaultError
from boardprof.measure.connect import connect
from tests.cli.command import boardprof
from tests.projects.firmware import EXAMPLE, command, requires_board, shell
from tests.support import AGENT

PLATFORM = Path(__file__).parent / "fixtures" / "platformio" / "platform"
BOARD = "qemu-cortex-m3"

FAULT = """
uint32_t peek(uint32_t address);
uint32_t peek(uint32_t address) { return *(volatile uint32_t *)address; }
BP_FUNCTION(peek);
"""

SCONS_PY = f"""\
import sys
sys.path.insert(0, {str(Path(SCons.__file__).parents[1])!r})
from SCons.Script import main
main()
"""

pytestmark = pytest.mark.board(BOARD)


def installed(core: Path, kind: str, name: str, version: str) -> Path:
    """Put what PlatformIO needs to know of a package of its own into its folder."""
    folder = core / f"{kind}s" / name
    folder.mkdir(parents=True, exist_ok=True)
    spec = {"owner": "platformio" if kind == "package" else None, "id": None, "name": name}
    data = {
        "type": "tool" if kind == "package" else kind,
        "name": name,
        "version": version,
        "spec": {**spec, "requirements": None, "uri": None},
    }
    (folder / ".piopm").write_text(json.dumps(data))
    return folder


def set_up(core: Path) -> None:
    version = platformio.dependencies.get_core_dependencies()["tool-scons"].removeprefix("~")
    scons = installed(core, "package", "tool-scons", version)
    (scons / "scons.py").write_text(SCONS_PY)
    (scons / "package.json").write_text(json.dumps({"name": "tool-scons", "version": version}))
    shutil.copytree(PLATFORM, installed(core, "platform", "bare_arm", "1.0.0"), dirs_exist_ok=True)


def project(folder: Path, config: str) -> None:
    source = folder / "src"
    shutil.copytree(EXAMPLE / "app", source)
    shutil.copy(EXAMPLE / "hal" / "hal.h", source)
    shutil.copytree(EXAMPLE / "hal" / "mps2_an385", source, dirs_exist_ok=True)
    with (source / "measured.c").open("a", encoding="utf-8") as file:
        file.write(FAULT)
    (folder / "platformio.ini").write_text(f"""\
[env:an385]
platform = bare_arm
board = an385
lib_deps = symlink://{AGENT}
build_flags = -gdwarf-4 -O2 -ffunction-sections -Wl,-T,{source}/link.ld -Wl,--gc-sections
custom_boardprof_board = {BOARD}
custom_boardprof_arch = cortex_m
custom_boardprof_collectors = cycles32 ticks
custom_boardprof_config = {config}
custom_boardprof_proof = yes
custom_boardprof_command = {command(folder)}
""")


def test_platformio_builds_an_agent_with_guarded_calls_and_functions_of_known_work(
    tmp_path: Path,
) -> None:
    requires_board(BOARD)
    core = tmp_path / "core"
    set_up(core)
    project(tmp_path, "BP_CFG_ARENA=16384 BP_CFG_STACK=4096 BP_CFG_GUARD=1")
    settings = {
        "PLATFORMIO_CORE_DIR": core,
        "PLATFORMIO_SETTING_ENABLE_TELEMETRY": "no",
        "PLATFORMIO_SETTING_CHECK_PLATFORMIO_INTERVAL": 9999,
        "HTTPS_PROXY": "http://127.0.0.1:9",  # nobody is there: the build needs no network
    }
    words = [f"{name}={value}" for name, value in settings.items()]
    told = shell(["env", *words, sys.executable, "-m", "platformio", "run"], tmp_path)
    assert "isqrt(x: u32) -> u32" in told
    image = tmp_path / ".pio" / "build" / "an385" / "program.elf"
    with connect(BOARD, image=image) as board:
        with pytest.raises(DeviceFaultError) as fault:
            board.functions.peek(0xF0000000)
        assert (fault.value.cause, fault.value.address) == ("bad-address", 0xF0000000)
        assert board.functions.isqrt(1000000) == 1000
        assert board.functions.proof_depth(3) is not None
    done = boardprof("run", "-b", BOARD, "--image", image, "isqrt", "x=1000000", "--repeat", "2")
    assert done.code == 0, done.err
    assert "Stack (bytes)" in done.out
