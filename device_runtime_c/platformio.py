# SPDX-License-Identifier: Apache-2.0
"""Builds the agent into a PlatformIO project; library.json names this file.

In platformio.ini, with the folder that `boardprof runtime path` prints:

    lib_deps = symlink:///that/folder
    build_flags = -gdwarf-4
    custom_boardprof_board = my-board           ; the name that the firmware gives to the host
    custom_boardprof_arch = cortex_m            ; folder below arch/, for collectors that need it
    custom_boardprof_collectors = cycles32 ticks
    custom_boardprof_config = BP_CFG_ARENA=4096 ; options of bp_config.h
    custom_boardprof_proof = yes                ; functions for `boardprof doctor -p PORT`
    custom_boardprof_command = boardprof        ; the program, or its path

SCons gives `Import`. The project has two environments: `projenv` compiles its sources, and the
default one links. What is added to the latter now comes too late for the former.
"""

import glob
import json
import os
import subprocess

Import("env", "projenv")  # type: ignore[name-defined]  # noqa: F821
from SCons.Script import DefaultEnvironment  # noqa: E402

library = env  # type: ignore[name-defined]  # noqa: F821
sources_of_project = projenv  # type: ignore[name-defined]  # noqa: F821
project = DefaultEnvironment()
runtime = library.Dir(".").srcnode().get_abspath()


def option(name, default=""):
    """Return a value of platformio.ini."""
    return project.GetProjectOption(f"custom_boardprof_{name}", default)


collectors = option("collectors", "ticks").split()
config = option("config").split()
includes = [os.path.join(runtime, "include")]
if option("arch"):
    includes.append(os.path.join(runtime, "arch", option("arch")))

with open(os.path.join(runtime, "options", "options.json"), encoding="utf-8") as file:
    brought = json.load(file)
on = [name for name, _, value in (text.partition("=") for text in config) if value != "0"]
patterns = [source for name in on for source in brought.get(name, {}).get("sources", ())]
patterns += ["arch/<arch>/bp_rom.c"]  # reads tables in flash; only AVR has it
patterns = [os.path.join(runtime, text.replace("<arch>", option("arch"))) for text in patterns]
sources = [os.path.relpath(path, runtime) for text in patterns for path in sorted(glob.glob(text))]
wrapped = [name for key in on for name in brought.get(key, {}).get("wrap", ())]

for environment in (library, sources_of_project, project):
    environment.Append(CPPDEFINES=[tuple(text.split("=", 1)) for text in config])
library.Append(CPPPATH=includes)
library.Replace(
    SRC_FILTER=[
        "+<src/*.c>",
        "-<src/bp_main.c>",
        "-<src/bp_mem.c>",
        *[f"+<collectors/bp_{name}.c>" for name in collectors],
        *[f"+<{path}>" for path in sources],
    ]
)
if option("proof"):
    proof = sources_of_project.Clone()
    proof.Append(CPPPATH=includes)
    proof.BuildSources(
        os.path.join("$BUILD_SRC_DIR", "boardprof_proof"),
        os.path.join(runtime, "proof"),
        src_filter=["-<*>", "+<*.c>"],
    )
if wrapped:
    project.Append(LINKFLAGS=[f"-Wl,--wrap={name}" for name in wrapped])
    project.Append(LINKFLAGS=["-Wl,--undefined=__wrap_malloc"])  # before the C library calls it


def link_table(target, source, env):
    """Write, compile and link the table of the functions that the project's objects register."""
    folder = env.subst("$BUILD_SRC_DIR") + os.sep
    objects = [str(node) for node in source if os.path.abspath(str(node)).startswith(folder)]
    command = [option("command", "boardprof"), "glue", "--board", option("board")]
    command += [f"-D{text}" for text in config] + ["--collectors=" + ",".join(collectors)]
    subprocess.run([*command, "-o", table, *objects], check=True)
    paths = " ".join(f'-I"{path}"' for path in includes)
    return env.Execute(f'$CC $CFLAGS $CCFLAGS $_CCCOMCOM {paths} -c "{table}" -o "{table}.o"')


table = os.path.join(project.subst("$BUILD_DIR"), "bp_table.c")
project.Append(LINKFLAGS=[f"{table}.o"])  # the archive that needs it comes later
project.AddPreAction("$PROGPATH", link_table)
