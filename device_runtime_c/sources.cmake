# SPDX-License-Identifier: Apache-2.0
# Which of the agent's files an image needs. CMakeLists.txt, Zephyr's module and the component for
# ESP-IDF include this. `prefix` begins the names of the variables that have the options' values.
# Functions include the lists themselves, since they may run in another scope than this file.
include(${CMAKE_CURRENT_LIST_DIR}/options/options.cmake)

# The agent. The project has its own main, and most projects have a C library.
file(GLOB boardprof_agent_sources ${CMAKE_CURRENT_LIST_DIR}/src/*.c)
list(REMOVE_ITEM boardprof_agent_sources
    ${CMAKE_CURRENT_LIST_DIR}/src/bp_main.c ${CMAKE_CURRENT_LIST_DIR}/src/bp_mem.c)

# Sets `result` to the sources of the collectors, and of the options that are not 0.
function(boardprof_sources_of result prefix arch collectors)
    set(runtime ${CMAKE_CURRENT_FUNCTION_LIST_DIR})
    include(${runtime}/options/options.cmake)
    set(sources "")
    foreach(name IN LISTS collectors)
        if(NOT EXISTS ${runtime}/collectors/bp_${name}.c)
            message(FATAL_ERROR "There is no collector ${name} in ${runtime}/collectors")
        endif()
        list(APPEND sources ${runtime}/collectors/bp_${name}.c)
    endforeach()
    # Files that these two need in addition.
    if(arch STREQUAL "posix" AND collectors MATCHES "linux_perf|papi")
        file(GLOB shared ${runtime}/arch/posix/bp_perf_*.c ${runtime}/arch/posix/bp_papi_*.c)
        list(APPEND sources ${shared})
    endif()
    if(arch AND NOT IS_DIRECTORY ${runtime}/arch/${arch})
        message(FATAL_ERROR "There is no architecture ${arch} in ${runtime}/arch")
    endif()
    if(arch)
        file(GLOB tables ${runtime}/arch/${arch}/bp_rom.c) # reads tables in flash; only AVR has it
        list(APPEND sources ${tables})
    endif()
    foreach(name IN LISTS boardprof_options)
        boardprof_is_on(enabled ${prefix} ${name})
        if(enabled)
            list(TRANSFORM boardprof_sources_${name} REPLACE "<arch>" "${arch}"
                OUTPUT_VARIABLE patterns)
            list(TRANSFORM patterns PREPEND ${runtime}/)
            file(GLOB found ${patterns})
            list(APPEND sources ${found})
        endif()
    endforeach()
    get_property(languages GLOBAL PROPERTY ENABLED_LANGUAGES)
    if(sources MATCHES "\\.S" AND NOT "ASM" IN_LIST languages)
        message(FATAL_ERROR "BP_CFG_GUARD has a source in assembler: project(... C ASM)")
    endif()
    set(${result} ${sources} PARENT_SCOPE)
endfunction()

# Sets `result` to the linker's options for the functions that the options replace.
function(boardprof_wrapped result prefix)
    include(${CMAKE_CURRENT_FUNCTION_LIST_DIR}/options/options.cmake)
    set(options "")
    foreach(name IN LISTS boardprof_options)
        boardprof_is_on(enabled ${prefix} ${name})
        if(enabled)
            list(TRANSFORM boardprof_wrap_${name} REPLACE "(.+)" "LINKER:--wrap=\\1"
                OUTPUT_VARIABLE wrapped)
            list(APPEND options ${wrapped})
        endif()
    endforeach()
    set(${result} ${options} PARENT_SCOPE)
endfunction()

# Sets `result` to whether an option is not 0, and brings something to this image.
function(boardprof_is_on result prefix name)
    set(on FALSE)
    if(${prefix}${name} AND NOT (BOARDPROF_FREESTANDING AND name IN_LIST boardprof_with_c_library))
        set(on TRUE)
    endif()
    set(${result} ${on} PARENT_SCOPE)
endfunction()
