# SPDX-License-Identifier: Apache-2.0
"""BP_FUNCTION and what ``boardprof glue`` makes of the objects that have it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from boardprof.target.build.project import agent_config, project_table, registered
from tests.cli.command import Outcome, boardprof
from tests.support import AGENT, WARNINGS, requires_compiler, requires_tool, run

HEADER = '#include "boardprof/bp_function.h"\n'
TWICE = "unsigned twice(unsigned x);\nunsigned twice(unsigned x) { return 2 * x; }\n"
HALF = "short half(short x);\nshort half(short x) { return x / 2; }\n"


def compiled(folder: Path, name: str, text: str, *flags: str, cc: str = "gcc") -> Path:
    """Compile a file of C, or of C++, to an object beside it."""
    source = folder / name
    source.write_text(HEADER + text)
    made = source.with_suffix(".o")
    program = requires_tool(cc, cc) if cc == "clang" else requires_compiler(cc)
    run([program, f"-I{AGENT}/include", "-g", *flags, "-c", source, "-o", made])
    return made


def glue(folder: Path, *arguments: str | Path) -> Outcome:
    return boardprof("glue", "-b", "my-board", "-o", folder / "table.c", *arguments)


def refused(folder: Path, *arguments: str | Path) -> str:
    done = glue(folder, *arguments)
    assert done.code in (2, 7), done.err
    assert not (folder / "table.c").exists()
    return f"{done.code} {done.err}"


def test_only_what_is_registered_is_in_the_table(tmp_path: Path) -> None:
    made = compiled(tmp_path, "a.c", TWICE + HALF + "BP_FUNCTION(half);\n")
    done = glue(tmp_path, "--collectors", "ticks,cycles32", made)
    assert (done.code, done.out) == (0, "half(x: i16) -> i16\n")
    table = (tmp_path / "table.c").read_text()
    assert '"my-board"' in table
    assert "&bp_collector_ticks,\n    &bp_collector_cycles32,\n" in table
    assert "twice" not in table


def test_the_table_compiles_without_a_warning(tmp_path: Path) -> None:
    glue(tmp_path, compiled(tmp_path, "a.c", TWICE + "BP_FUNCTION(twice);\n"))
    options = [*WARNINGS, f"-I{AGENT}/include", "-DBP_CFG_ARENA=4096"]
    run([requires_compiler("gcc"), *options, "-c", tmp_path / "table.c", "-o", tmp_path / "t.o"])


def test_a_function_may_be_registered_in_another_file_than_its_own(tmp_path: Path) -> None:
    code = compiled(tmp_path, "code.c", TWICE)
    marks = compiled(tmp_path, "marks.c", "unsigned twice(unsigned);\nBP_FUNCTION(twice);\n")
    assert glue(tmp_path, marks, code).out == "twice(x: u32) -> u32\n"


def test_functions_of_a_static_library_are_found(tmp_path: Path) -> None:
    code = compiled(tmp_path, "code.c", TWICE + "BP_FUNCTION(twice);\n")
    run([requires_tool("ar", "binutils"), "rcs", tmp_path / "libcode.a", code])
    assert glue(tmp_path, tmp_path / "libcode.a").out == "twice(x: u32) -> u32\n"


def test_set_up_and_check_come_along_by_their_names(tmp_path: Path) -> None:
    hooks = "void twice_setup(void) {}\nint twice_check(void) { return 0; }\n"
    glue(tmp_path, compiled(tmp_path, "a.c", TWICE + hooks + "BP_FUNCTION(twice);\n"))
    table = (tmp_path / "table.c").read_text()
    assert ".setup = bp_user_twice_setup" in table
    assert ".check = bp_user_twice_check" in table


def build_of(folder: Path, *arguments: str | Path) -> str:
    """Return the line of the table that has the build id."""
    assert glue(folder, *arguments).code == 0
    (line,) = (t for t in (folder / "table.c").read_text().splitlines() if ".build_id" in t)
    return line


def test_another_object_beside_them_is_another_build(tmp_path: Path) -> None:
    made = compiled(tmp_path, "a.c", TWICE + "BP_FUNCTION(twice);\n")
    other = tmp_path / "other.o"
    other.write_bytes(b"1")
    first = build_of(tmp_path, made, "--also", other)
    assert build_of(tmp_path, made, "--also", other) == first
    other.write_bytes(b"2")
    assert build_of(tmp_path, made, "--also", other) != first
    assert build_of(tmp_path, made) != first
    (tmp_path / "table.c").unlink()
    assert "nowhere.o cannot be read" in refused(tmp_path, made, "--also", tmp_path / "nowhere.o")


def test_another_agent_is_another_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = compiled(tmp_path, "a.c", TWICE + "BP_FUNCTION(twice);\n")
    agent = tmp_path / "agent"
    shutil.copytree(AGENT, agent)
    tables = []
    for text in ("", "/* changed */", ""):
        (agent / "src" / "more.c").write_text(text)
        monkeypatch.setattr("boardprof.target.build.project.runtime_dir", lambda: agent)
        tables.append(project_table("my-board", [made], registered([made])))
    assert tables[0] == tables[2] != tables[1]


def test_another_object_is_another_build(tmp_path: Path) -> None:
    tables = []
    for factor in ("2", "3", "2"):
        text = TWICE.replace("2 *", f"{factor} *") + "BP_FUNCTION(twice);\n"
        glue(tmp_path, compiled(tmp_path, "a.c", text))
        tables.append((tmp_path / "table.c").read_text())
    assert tables[0] == tables[2] != tables[1]


@pytest.mark.parametrize("optimize", ["-O0", "-O3"])
@pytest.mark.parametrize(
    "cc", ["gcc", "arm-none-eabi-gcc", "riscv64-unknown-elf-gcc", "avr-gcc", "clang"]
)
def test_registering_compiles_without_a_warning(tmp_path: Path, cc: str, optimize: str) -> None:
    flags = [*WARNINGS, optimize, "-gdwarf-4", "-ffreestanding", "-fdata-sections"]
    made = compiled(tmp_path, "a.c", TWICE + "BP_FUNCTION(twice);\n", *flags, cc=cc)
    wide = "u16" if cc == "avr-gcc" else "u32"
    assert glue(tmp_path, made).out == f"twice(x: {wide}) -> {wide}\n"


def test_functions_of_c_plus_plus_are_registered(tmp_path: Path) -> None:
    requires_tool("g++", "g++")
    text = 'namespace n { extern "C" int f(int x) { return x; } BP_FUNCTION(f); }\n'
    made = compiled(tmp_path, "a.cpp", text, "-Wall", "-Wextra", "-pedantic", "-Werror")
    assert glue(tmp_path, made).out == "f(x: i32) -> i32\n"
    (tmp_path / "table.c").unlink()
    text = "namespace n { int g(int x) { return x; } BP_FUNCTION(g); }\n"
    other = compiled(tmp_path, "b.cpp", text)
    assert glue(tmp_path, made, other).out == "f(x: i32) -> i32\nn::g(x: i32) -> i32\n"
    (tmp_path / "table.c").unlink()
    text = "int h(int x);\nBP_FUNCTION(h);\n"
    text = refused(tmp_path, made, compiled(tmp_path, "c.cpp", text))
    assert "7 error: BP_FUNCTION(h): no function h is defined in a.o, c.o." in text


def test_the_mark_leaves_nothing_in_an_image_that_is_cleaned_up(tmp_path: Path) -> None:
    text = TWICE + "BP_FUNCTION(twice);\nint main(void) { return 0; }\n"
    made = compiled(tmp_path, "a.c", text, "-ffunction-sections", "-fdata-sections")
    image = tmp_path / "image"
    run([requires_compiler("gcc"), made, "-Wl,--gc-sections", "-o", image])
    names = run([requires_tool("nm", "binutils"), image])
    assert "main" in names
    assert "twice" not in names


def test_a_static_function_is_refused(tmp_path: Path) -> None:
    made = compiled(tmp_path, "a.c", "static int f(int x) { return x; }\nBP_FUNCTION(f);\n")
    text = refused(tmp_path, made)
    assert "a.c: the linker cannot see f, because it is static or inline." in text


def test_objects_without_a_registration_are_refused(tmp_path: Path) -> None:
    text = refused(tmp_path, compiled(tmp_path, "a.c", TWICE))
    assert "7 error: No function is registered in a.o." in text
    assert "BP_FUNCTION(name);" in text


def test_a_function_that_cannot_be_called_says_why(tmp_path: Path) -> None:
    text = "int f(const char *format, ...) { return *format; }\nBP_FUNCTION(f);\n"
    made = compiled(tmp_path, "a.c", text)
    told = refused(tmp_path, made)
    assert "a.c: it cannot be called over the wire: " in told
    assert "variable number of arguments" in told


def test_a_file_that_is_no_object_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.o").write_text("nothing")
    assert "a.o" in refused(tmp_path, tmp_path / "a.o")
    assert "b.o" in refused(tmp_path, tmp_path / "b.o")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["-DBP_CFG_MTV=300"], "'BP_CFG_MTV' is not an option of the agent."),
        (["-DBP_CFG_MTU=many"], "'BP_CFG_MTU=many' has no number."),
        (["--collectors=a-b"], "'a-b' is not a valid collector name."),
        (["--collectors=a,b,c,d,e,f,g,h,i"], "9 collectors are too many: at most 8 are allowed."),
        (["-b", "my board"], "'my board' is not a valid board name."),
    ],
)
def test_a_wrong_option_is_told(tmp_path: Path, options: list[str], told: str) -> None:
    made = compiled(tmp_path, "a.c", TWICE + "BP_FUNCTION(twice);\n")
    assert refused(tmp_path, *options, made).startswith(f"2 error: {told}")


def test_an_option_may_be_hexadecimal_as_addresses_are(tmp_path: Path) -> None:
    made = compiled(tmp_path, "a.c", TWICE + "BP_FUNCTION(twice);\n")
    assert glue(tmp_path, "-DBP_CFG_TRACE_CLOCK=0x40028018", made).code == 0
    assert agent_config(["BP_CFG_TRACE_CLOCK=0x40028018"]) == {"trace_clock": 1073905688}


def test_the_printed_folder_has_the_sources_for_every_build_system() -> None:
    done = boardprof("runtime", "path")
    folder = Path(done.out.strip())
    assert done.out == f"{folder}\n"
    assert folder.is_absolute()
    for name in ("include/boardprof/bp.h", "CMakeLists.txt", "boardprof.mk", "library.json"):
        assert (folder / name).is_file()
    assert (folder / "zephyr/module.yml").is_file()


def test_a_call_that_is_too_large_names_the_option_that_the_project_sets(tmp_path: Path) -> None:
    parameters = ", ".join(f"double a{i}" for i in range(8))
    text = f"double f({parameters}) {{ return {' + '.join(f'a{i}' for i in range(8))}; }}\n"
    made = compiled(tmp_path, "a.c", text + "BP_FUNCTION(f);\n")
    told = refused(tmp_path, "-DBP_CFG_SLOT_BYTES=64", made)
    assert (
        "its arguments and result take 72 bytes; the board's agent has 64, its BP_CFG_SLOT_BYTES.\n"
        "Try: set a larger BP_CFG_SLOT_BYTES\n"
    ) in told
    assert "board.toml" not in told
