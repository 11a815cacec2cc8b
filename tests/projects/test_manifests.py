# SPDX-License-Identifier: Apache-2.0
"""The files by which Zephyr and PlatformIO know device_runtime_c.

Neither is here: of Zephyr, the module's CMake is built with stand-ins for the functions that it
calls; of PlatformIO's files, the fields are looked at. Both must be tried by hand on a release.
"""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest

from boardprof import __version__
from boardprof.boards.build_and_guard import agent_options
from tests.projects.firmware import command, shell
from tests.support import AGENT, requires_compiler, requires_tool

FIXTURE = Path(__file__).parent / "fixtures" / "zephyr"

CONFIG = {
    "BOARDPROF": "y",
    "BOARDPROF_ARCH": "",
    "BOARDPROF_ARENA": "4096",
    "BOARDPROF_BOARD": "my-board",
    "BOARDPROF_BULK": "0",
    "BOARDPROF_COLLECTORS": "ticks cycles32",
    "BOARDPROF_INTERRUPTS": "1",
    "BOARDPROF_MTU": "300",
    "BOARDPROF_SLOT_BYTES": "72",
    "BOARDPROF_STACK": "0",
    "BOARDPROF_STREAM": "0",
    "BOARDPROF_TASKS": "0",
    "BOARDPROF_TRACE": "0",
    "BOARDPROF_TRACE_CLOCK": "0",
    "BOARDPROF_TRACE_HEAP": "0",
}


def build_module(folder: Path, config: dict[str, str]) -> str:
    requires_tool("cmake", "cmake")
    requires_compiler("gcc")
    options = [f"-DCONFIG_{name}={value}" for name, value in config.items()]
    options += [f"-DMODULE={AGENT}", f"-DCONFIG_BOARDPROF_COMMAND={command(folder)}"]
    shell(["cmake", "-S", FIXTURE, "-B", folder, *options], folder)
    return shell(["cmake", "--build", "."], folder)


def test_zephyrs_module_builds_the_agent_and_the_table_of_the_application(tmp_path: Path) -> None:
    config = {**CONFIG, "BOARDPROF_COLLECTORS": "ticks"}
    assert "half(x: i32) -> i32" in build_module(tmp_path, config)
    shell([tmp_path / "zephyr_final"], tmp_path)  # ends with 0 if the options got there


def test_zephyrs_module_hands_several_collectors_on(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"bp_arch\.h: No such file"):
        build_module(tmp_path, CONFIG)  # cycles32 is there, and wants an architecture


def test_every_option_of_zephyrs_module_is_used_and_described() -> None:
    kconfig = (AGENT / "zephyr" / "Kconfig").read_text(encoding="utf-8")
    cmake = (AGENT / "zephyr" / "CMakeLists.txt").read_text(encoding="utf-8")
    described = set(re.findall(r"^(?:menu)?config (\w+)$", kconfig, re.MULTILINE))
    assert described == {*CONFIG, "BOARDPROF_COMMAND"}
    assert set(re.findall(r"CONFIG_(BOARDPROF\w*)", cmake)) == described


def test_the_defaults_of_zephyrs_module_are_the_agents() -> None:
    kconfig = (AGENT / "zephyr" / "Kconfig").read_text(encoding="utf-8")
    options = ("mtu", "slot_bytes", "stack", "interrupts", "bulk", "stream", "trace", "trace_heap")
    for option in (*options, "tasks"):
        (text,) = re.findall(rf"config BOARDPROF_{option.upper()}\n.*\n\tdefault (\d+)", kconfig)
        assert int(text) == agent_options()[option]


def test_platformios_manifest_has_the_version_and_names_files_that_exist() -> None:
    manifest = json.loads((AGENT / "library.json").read_text(encoding="utf-8"))
    assert manifest["name"] == "boardprof"
    assert manifest["version"] == __version__
    assert manifest["license"] == "Apache-2.0"
    for header in manifest["headers"]:
        assert (AGENT / manifest["build"]["includeDir"] / header).is_file()
    assert (AGENT / manifest["build"]["srcDir"] / "src").is_dir()
    ast.parse((AGENT / manifest["build"]["extraScript"]).read_text(encoding="utf-8"))
