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

SCons gives `Import`.
"""

import os
import subprocess

Import("env")  # type: ignore[name-defined]  # noqa: F821
from SCons.Script import DefaultEnvironment  # noqa: E402

library = env  # type: ignore[name-defined]  # noqa: F821
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

for environment in (library, project):
    environment.Append(CPPDEFINES=[tuple(text.split("=", 1)) for text in config])
library.Append(CPPPATH=includes)
library.Replace(
    SRC_FILTER=[
        "+<src/*.c>",
        "-<src/bp_main.c>",
        "-<src/bp_mem.c>",
        *[f"+<collectors/bp_{name}.c>" for name in collectors],
        *(["+<libc/bp_heap.c>"] if "BP_CFG_TRACE_HEAP=1" in config else []),
    ]
)
if option("proof"):
    project.BuildSources(
        os.path.join("$BUILD_SRC_DIR", "boardprof_proof"), os.path.join(runtime, "proof")
    )
if "BP_CFG_TRACE_HEAP=1" in config:
    heap = ["malloc", "calloc", "realloc", "free", "strdup", "strndup"]
    heap += ["aligned_alloc", "memalign", "posix_memalign"]
    heap += ["_malloc_r", "_calloc_r", "_realloc_r", "_memalign_r", "_free_r"]  # newlib
    project.Append(LINKFLAGS=[f"-Wl,--wrap={name}" for name in heap])
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
