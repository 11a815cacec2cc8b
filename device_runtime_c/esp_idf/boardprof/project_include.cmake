# SPDX-License-Identifier: Apache-2.0
# ESP-IDF includes this file into the project.

# Links the table of the functions that these components register with BP_FUNCTION.
function(boardprof_table)
    include(${CMAKE_CURRENT_FUNCTION_LIST_DIR}/../../options/options.cmake)
    set(objects "")
    foreach(name IN LISTS ARGN)
        idf_component_get_property(library ${name} COMPONENT_LIB)
        target_compile_options(${library} PRIVATE -gdwarf-4)
        list(APPEND objects $<TARGET_OBJECTS:${library}>)
    endforeach()
    set(options "")
    foreach(name IN LISTS boardprof_options)
        list(APPEND options -DBP_CFG_${name}=${CONFIG_BOARDPROF_${name}})
    endforeach()
    string(REPLACE " " "," collectors "${CONFIG_BOARDPROF_COLLECTORS}")
    set(table ${CMAKE_BINARY_DIR}/bp_table.c)
    add_custom_command(
        OUTPUT ${table}
        COMMAND ${CONFIG_BOARDPROF_COMMAND} glue --board ${CONFIG_BOARDPROF_BOARD}
            "--collectors=${collectors}" ${options} -o ${table} ${objects}
        DEPENDS ${objects}
        COMMENT "Functions that the host can call:"
        COMMAND_EXPAND_LISTS VERBATIM)
    # Not in the component: the components that it reads come after that one.
    add_library(boardprof_table OBJECT ${table})
    idf_component_get_property(agent boardprof COMPONENT_LIB)
    target_link_libraries(boardprof_table PRIVATE ${agent})
    idf_build_get_property(executable EXECUTABLE)
    target_sources(${executable} PRIVATE $<TARGET_OBJECTS:boardprof_table>)
endfunction()
