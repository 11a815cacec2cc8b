# SPDX-License-Identifier: Apache-2.0
"""examples/firmware_cmake, built by CMake for both boards and measured in its own image."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from boardprof.base.errors import DeviceFaultError, DeviceTimeoutError
from boardprof.measure.connect import connect
from boardprof.target.descriptions.board import BoardSpec
from tests.cli.command import boardprof, rows
from tests.firmware import build
from tests.projects.firmware import EXAMPLE, command, counts_of, executed, requires_board, shell
from tests.support import requires_tool

BOARDS = {"qemu-cortex-m3": "cortex-m3", "qemu-rv32": "rv32"}


@dataclass(frozen=True)
class Project:
    """The example in a build folder."""

    spec: BoardSpec
    folder: Path

    @property
    def image(self) -> Path:
        return self.folder / "thermostat.elf"

    def build(self) -> str:
        return shell(["cmake", "--build", "."], self.folder)


def configure(
    folder: Path, board: str, generator: str, *options: str, source: Path = EXAMPLE
) -> str:
    requires_tool("cmake", "cmake")
    toolchain = EXAMPLE / "toolchains" / f"{BOARDS[board]}.cmake"
    options += (f"-DCMAKE_TOOLCHAIN_FILE={toolchain}", f"-DBOARDPROF={command(folder)}")
    return shell(["cmake", "-S", source, "-B", folder, "-G", generator, *options], folder)


@pytest.fixture(scope="module", params=BOARDS)
def project(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Project:
    spec = requires_board(request.param)
    requires_tool("ninja", "ninja-build")
    found = Project(spec, tmp_path_factory.mktemp(request.param))
    configure(found.folder, spec.name, "Ninja")
    assert "isqrt(x: u32) -> u32" in found.build()
    return found


def test_the_functions_that_are_registered_are_those_that_the_host_sees(project: Project) -> None:
    with connect(project.spec, image=project.image) as board:
        assert {name: board.functions[name].info.signature for name in board.functions} == {
            "heater_power": "(wanted: i32, measured: i32) -> i32",
            "isqrt": "(x: u32) -> u32",
            "smooth": "(readings: const i16*, out: i16*, n: u32) -> void",
        }
        assert board.functions.isqrt(1000000) == 1000
        assert board.functions.isqrt(0xFFFFFFFF) == 65535
        # 4 * 100, and 100 summed up once, by 64.
        assert board.functions.heater_power(2100, 2000) == 401
        readings = np.array([5, 9, 7, -3, 8], np.int16)
        out = np.zeros(5, np.int16)
        board.functions.smooth(readings, out, 5)
        assert out.tolist() == [5, 7, 7, 7, 8]


def test_a_call_executes_the_instructions_that_it_does_in_firmware_of_boardprof(
    project: Project, tmp_path: Path
) -> None:
    """The same function with the same flags, as QEMU counts it in both images."""
    ours = build(project.spec, [EXAMPLE / "app" / "control.c"]).image
    in_project = executed(project.image, project.spec, tmp_path / "a", "isqrt", 1000000)
    assert in_project == executed(ours, project.spec, tmp_path / "b", "isqrt", 1000000)
    assert in_project > 64  # 16 rounds of the loop


def test_the_report_counts_the_instructions_that_were_executed(
    project: Project, tmp_path: Path
) -> None:
    count = executed(project.image, project.spec, tmp_path, "isqrt", 1000000)
    counted = counts_of(project.image, project.spec.name, "instructions", "isqrt", 1000000)
    assert counted == [count, count, count]
    ours = build(project.spec, [EXAMPLE / "app" / "control.c"]).image
    assert counts_of(ours, project.spec.name, "instructions", "isqrt", 1000000) == counted


def test_arrays_go_to_a_function_of_the_project(project: Project) -> None:
    done = boardprof(
        *("run", "-b", project.spec.name, "--image", project.image, "smooth", "--repeat", "2"),
        *("readings=int16[64]:random", "out=int16[64]:out", "n=64"),
    )
    assert done.code == 0, done.err
    assert rows(done.out) == ["smooth"]


def test_run_measures_what_an_image_has(project: Project) -> None:
    where = ("-b", project.spec.name, "--image", project.image)
    done = boardprof("run", *where, "isqrt", "x=1000000", "--repeat", "3", "--console")
    assert done.code == 0, done.err
    assert rows(done.out) == ["isqrt"]
    assert "Stack (bytes)" in done.out
    assert "| thermostat: heating" in done.err


def test_info_tells_what_an_image_has(project: Project) -> None:
    done = boardprof("info", "-b", project.spec.name, "--image", project.image)
    assert done.code == 0, done.err
    assert "isqrt(x: u32) -> u32" in done.out
    assert "arena       16,384 bytes" in done.out


def test_an_image_and_a_source_are_one_too_many(project: Project) -> None:
    source = f"{EXAMPLE}/app/control.c:isqrt"
    done = boardprof("run", "-b", project.spec.name, "--image", project.image, source, "x=1")
    assert done.code == 2
    assert "already has its functions" in done.err
    assert "measure 'isqrt' without the PATH" in done.err


def test_a_second_build_has_nothing_to_do(project: Project) -> None:
    project.build()
    assert project.build() == "ninja: no work to do.\n"


@pytest.mark.board("qemu-rv32")
def test_makefiles_of_cmake_build_it_too_and_options_of_the_agent_get_there(
    tmp_path: Path,
) -> None:
    requires_board("qemu-rv32")
    configure(tmp_path, "qemu-rv32", "Unix Makefiles", "-DBP_CFG_MTU=512")
    shell(["cmake", "--build", "."], tmp_path)
    with connect("qemu-rv32", image=tmp_path / "thermostat.elf") as board:
        assert board.welcome.mtu_rx == 512
        assert board.functions.isqrt(99) == 9


@pytest.mark.board("qemu-rv32")
def test_the_command_line_overrides_the_sizes_of_the_project(tmp_path: Path) -> None:
    requires_board("qemu-rv32")
    configure(tmp_path, "qemu-rv32", "Unix Makefiles", "-DBP_CFG_ARENA=4096")
    shell(["cmake", "--build", "."], tmp_path)
    with connect("qemu-rv32", image=tmp_path / "thermostat.elf") as board:
        assert board.dictionary.arena_bytes == 4096


@pytest.mark.parametrize("value", ["abc", "4K", "-1", "ON"])
def test_an_option_that_is_not_a_number_is_refused_by_name(value: str, tmp_path: Path) -> None:
    requires_board("qemu-rv32")
    with pytest.raises(AssertionError, match=f"BP_CFG_ARENA is '{value}'"):
        configure(tmp_path, "qemu-rv32", "Unix Makefiles", f"-DBP_CFG_ARENA={value}")


def test_without_a_toolchain_file_the_project_says_which_to_give(tmp_path: Path) -> None:
    requires_tool("cmake", "cmake")
    with pytest.raises(AssertionError, match="-DCMAKE_TOOLCHAIN_FILE=toolchains/rv32"):
        shell(["cmake", "-S", EXAMPLE, "-B", tmp_path, "-G", "Unix Makefiles"], tmp_path)


@pytest.mark.board("qemu-rv32")
def test_the_line_of_the_readme_adds_the_functions_of_known_work(tmp_path: Path) -> None:
    requires_board("qemu-rv32")
    source = tmp_path / "source"
    shutil.copytree(EXAMPLE, source)
    readme = (EXAMPLE / "README.md").read_text(encoding="utf-8")
    (line,) = re.findall(r"^\| CMake \| `(.+?)`", readme, re.MULTILINE)
    lists = source / "CMakeLists.txt"
    lists.write_text(lists.read_text(encoding="utf-8") + f"\n{line}\n", encoding="utf-8")
    configure(tmp_path, "qemu-rv32", "Unix Makefiles", source=source)
    told = shell(["cmake", "--build", "."], tmp_path)
    for name in (
        "proof_rounds(rounds: u32)",
        "proof_depth(depth: u32)",
        "proof_loads(rounds: u32)",
    ):
        assert name in told


FAULTS = """
uint32_t peek(uint32_t address);
uint32_t peek(uint32_t address) { return *(volatile uint32_t *)(uintptr_t)address; }
BP_FUNCTION(peek);
void hang(void);
void hang(void) { for (;;) { } }
BP_FUNCTION(hang);
"""


@pytest.mark.parametrize("name", BOARDS)
def test_guarded_calls_end_with_the_faults_of_firmware_with_vectors_of_its_own(
    name: str, tmp_path: Path
) -> None:
    spec = requires_board(name)
    source = tmp_path / "source"
    shutil.copytree(EXAMPLE, source)
    with (source / "app" / "measured.c").open("a", encoding="utf-8") as file:
        file.write(FAULTS)
    configure(tmp_path, name, "Unix Makefiles", "-DBP_CFG_GUARD=1", source=source)
    shell(["cmake", "--build", "."], tmp_path)
    with connect(spec, image=tmp_path / "thermostat.elf", timeout_s=0.05) as board:
        with pytest.raises(DeviceFaultError) as fault:
            board.functions.peek(0xF0000000)
        assert (fault.value.cause, fault.value.address) == ("bad-address", 0xF0000000)
        assert "measured.c:" in str(fault.value)
        with pytest.raises(DeviceTimeoutError, match="hang"):
            board.functions.hang()
        assert board.functions.isqrt(1000000) == 1000


SUBFOLDER = """\
cmake_minimum_required(VERSION 3.20)
project(subfolder C ASM)
add_subdirectory(lib)
add_executable(app main.c)
execute_process(COMMAND ${BOARDPROF} runtime path OUTPUT_VARIABLE runtime
    OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
add_subdirectory(${runtime} boardprof)
boardprof_firmware(app BOARD linux ARCH posix COLLECTORS linux_clock FUNCTIONS_FROM dsp)
"""


@pytest.mark.parametrize("kind", ["STATIC", "OBJECT"])
@pytest.mark.parametrize("generator", ["Unix Makefiles", "Ninja"])
def test_functions_of_a_library_in_a_subfolder_are_compiled_before_their_table(
    kind: str, generator: str, tmp_path: Path
) -> None:
    requires_tool("cmake", "cmake")
    requires_tool("ninja", "ninja-build")
    (tmp_path / "lib").mkdir()
    (tmp_path / "CMakeLists.txt").write_text(SUBFOLDER)
    (tmp_path / "main.c").write_text("int main(void) { return 0; }\n")
    (tmp_path / "lib" / "CMakeLists.txt").write_text(f"add_library(dsp {kind} dsp.c)\n")
    (tmp_path / "lib" / "dsp.c").write_text(
        '#include "boardprof/bp_function.h"\n'
        "int twice(int x) { return 2 * x; }\nBP_FUNCTION(twice);\n"
    )
    tool = f"-DBOARDPROF={command(tmp_path)}"
    shell(["cmake", "-S", ".", "-B", "b", "-G", generator, tool], tmp_path)
    target = ["--target", "app_boardprof"]
    assert "twice(x: i32) -> i32" in shell(["cmake", "--build", "b", *target], tmp_path)
