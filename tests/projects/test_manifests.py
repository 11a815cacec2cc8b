# SPDX-License-Identifier: Apache-2.0
"""The files by which Zephyr, ESP-IDF and PlatformIO know device_runtime_c.

Zephyr and ESP-IDF are not here: their CMake functions have stand-ins. Both must be tried by hand on
a release. test_platformio.py has PlatformIO itself.
"""

from __future__ import annotations

import ast
import json
from pathlib import Path

import kconfiglib
import pytest

from boardprof import __version__
from boardprof.target.descriptions.tables import agent_options
from tests.projects.firmware import command, shell
from tests.support import AGENT, ROOT, requires_compiler, requires_tool

FIXTURES = Path(__file__).parent / "fixtures"

FLAGS = ("CPU_CORTEX_M", "RISCV", "IDF_TARGET_ARCH_RISCV")

# What Kconfig gives for an application that has set these; all others have their defaults.
SET = ("BOARDPROF=y", 'BOARDPROF_BOARD="my-board"', "BOARDPROF_MTU=300", "BOARDPROF_INTERRUPTS=1")


def configured(folder: Path, *lines: str, file: str = "zephyr/Kconfig") -> dict[str, str]:
    """Return what Kconfig makes of lines of a prj.conf, as Zephyr's CMake sees it."""
    (folder / "Kconfig").write_text(
        "".join(f'config {name}\n\tstring\n\tdefault "own"\n\n' for name in ("BOARD", "IDF_TARGET"))
        + "".join(f"config {name}\n\tbool\n\n" for name in FLAGS)
        + f'source "{AGENT / file}"\n'
    )
    (folder / "prj.conf").write_text("".join(f"CONFIG_{line}\n" for line in lines))
    kconfig = kconfiglib.Kconfig(str(folder / "Kconfig"))
    kconfig.load_config(str(folder / "prj.conf"))
    names = [name for name in kconfig.syms if name.startswith("BOARDPROF")]
    values = {name: kconfig.syms[name].str_value for name in names}
    assert kconfig.warnings == []  # a value out of range, for one
    return values


def build_fixture(name: str, folder: Path, config: dict[str, str], *options: str) -> str:
    requires_tool("cmake", "cmake")
    requires_compiler("gcc")
    words = [f"-DCONFIG_{key}={value}" for key, value in config.items()]
    words += [f"-DCONFIG_BOARDPROF_COMMAND={command(folder)}", *options]
    shell(["cmake", "-S", FIXTURES / name, "-B", folder / "build", *words], folder)
    return shell(["cmake", "--build", folder / "build"], folder)


def build_module(folder: Path, config: dict[str, str]) -> str:
    return build_fixture("zephyr", folder, config, f"-DMODULE={AGENT}")


def test_zephyrs_module_builds_the_agent_and_the_table_of_the_application(tmp_path: Path) -> None:
    assert "half(x: i32) -> i32" in build_module(tmp_path, configured(tmp_path, *SET))
    shell([tmp_path / "build" / "zephyr_final"], tmp_path)  # ends with 0 if the options got there


def test_zephyrs_module_hands_several_collectors_on(tmp_path: Path) -> None:
    config = configured(tmp_path, *SET, 'BOARDPROF_COLLECTORS="ticks cycles32"')
    with pytest.raises(AssertionError, match=r"bp_arch\.h: No such file"):
        build_module(tmp_path, config)  # cycles32 is there, and wants an architecture


def test_every_option_of_the_agent_is_in_kconfig_with_its_default(tmp_path: Path) -> None:
    """Two defaults differ: firmware with an RTOS has room for arrays, and its own cycle counter."""
    config = configured(tmp_path, "BOARDPROF=y")
    options = {name: int(config[f"BOARDPROF_{name.upper()}"], 0) for name in agent_options()}
    assert options == {**agent_options(), "arena": 4096, "trace_clock": 1}
    assert {name.lower() for name in config} == {
        *(f"boardprof_{name}" for name in agent_options()),
        *("boardprof", "boardprof_arch", "boardprof_board"),
        *("boardprof_collectors", "boardprof_command"),
    }


def test_kconfig_refuses_what_the_agent_refuses(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="user value 63 on the int symbol BOARDPROF_MTU"):
        configured(tmp_path, "BOARDPROF=y", "BOARDPROF_MTU=63")
    with pytest.raises(AssertionError, match="user value 129 on the int symbol BOARDPROF_BULK"):
        configured(tmp_path, "BOARDPROF=y", "BOARDPROF_MTU=128", "BOARDPROF_BULK=129")


def test_esp_idfs_component_builds_the_agent_and_the_table_of_the_components(
    tmp_path: Path,
) -> None:
    component = AGENT / "esp_idf" / "boardprof"
    config = configured(tmp_path, *SET[1:], file="esp_idf/boardprof/Kconfig")
    told = build_fixture("esp_idf", tmp_path, config, f"-DCOMPONENT={component}", "-GNinja")
    assert "half(x: i32) -> i32" in told
    # It ends with 0 if the options got there.
    shell([tmp_path / "build" / "component_of_esp_idf.elf"], tmp_path)


def test_the_example_for_zephyr_sets_options_that_exist(tmp_path: Path) -> None:
    folder = ROOT / "examples" / "zephyr"
    lines = [
        line.removeprefix("CONFIG_")
        for name in ("prj.conf", "trace.conf")
        for line in (folder / name).read_text(encoding="utf-8").splitlines()
        if line.startswith("CONFIG_BOARDPROF")
    ]
    assert len(lines) == 8
    assert configured(tmp_path, *lines)["BOARDPROF_TRACE"] == "8192"


def test_platformios_manifest_has_the_version_and_names_files_that_exist() -> None:
    manifest = json.loads((AGENT / "library.json").read_text(encoding="utf-8"))
    assert manifest["name"] == "boardprof"
    assert manifest["version"] == __version__
    assert manifest["license"] == "Apache-2.0"
    for header in manifest["headers"]:
        assert (AGENT / manifest["build"]["includeDir"] / header).is_file()
    assert (AGENT / manifest["build"]["srcDir"] / "src").is_dir()
    ast.parse((AGENT / manifest["build"]["extraScript"]).read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("arduino/library.properties", f"version={__version__}"),
        ("esp_idf/boardprof/idf_component.yml", f'version: "{__version__}"'),
    ],
)
def test_other_manifests_have_the_version(file: str, line: str) -> None:
    assert line in (AGENT / file).read_text(encoding="utf-8").splitlines()
