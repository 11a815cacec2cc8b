# SPDX-License-Identifier: Apache-2.0
# The agent for a firmware project built with make. Set these variables, include this file, and link
# $(BOARDPROF_LIBRARY) after the project's objects:
#
#   BOARDPROF_BOARD := my-board               # the name that the firmware gives to the host
#   BOARDPROF_OBJECTS := fir.o                # have BP_FUNCTION in their sources; compiled with -gdwarf-4
#   BOARDPROF_ALSO := main.o hal.a            # other files that change the build id
#   BOARDPROF_CFLAGS := -mcpu=cortex-m4       # flags for every file of the project
#   BOARDPROF_ARCH := cortex_m                # folder below arch/, if a collector needs it
#   BOARDPROF_COLLECTORS := cycles32 ticks    # as in collectors/bp_<name>.c
#   BOARDPROF_CONFIG := BP_CFG_ARENA=4096     # options of bp_config.h
#   BOARDPROF_PROOF := 1                      # functions for `boardprof doctor -p PORT`
#   BOARDPROF_FREESTANDING := 1               # if the project links no C library
#   BOARDPROF_AR := arm-none-eabi-ar          # if AR does not match CC
#   include $(shell boardprof runtime path)/boardprof.mk
#
#   firmware.elf: $(OBJECTS) $(BOARDPROF_LIBRARY)
#
# Whatever is compiled with BOARDPROF_CFLAGS may depend on $(BOARDPROF_SETTINGS), a file that changes
# with the variables above. The agent does: it is built again for another board or other options.
#
# With BP_CFG_TRACE_HEAP=1, link with $(BOARDPROF_LDFLAGS) as well.
#
# The project defines the functions of bp_port.h; its main calls bp_init() and then bp_poll() for
# ever. $(BOARDPROF_CPPFLAGS) is for the files that include its headers.

# Keeps the project's first rule the first one, wherever this file is included.
boardprof_goal := $(.DEFAULT_GOAL)
BOARDPROF_RUNTIME := $(patsubst %/,%,$(dir $(lastword $(MAKEFILE_LIST))))

# make exports variables of its command line, and boardprof would take them for its own settings.
unexport BOARDPROF_BOARD BOARDPROF_CONFIG

BOARDPROF ?= boardprof
BOARDPROF_AR ?= $(AR)
BOARDPROF_BUILD ?= build/boardprof
BOARDPROF_LIBRARY := $(BOARDPROF_BUILD)/libboardprof.a
BOARDPROF_SETTINGS := $(BOARDPROF_BUILD)/settings.txt
BOARDPROF_CPPFLAGS := -I$(BOARDPROF_RUNTIME)/include $(addprefix -D,$(BOARDPROF_CONFIG))

boardprof_comma := ,
boardprof_space := $(subst ,, )
boardprof_sources := $(notdir $(wildcard $(BOARDPROF_RUNTIME)/src/*.c))
boardprof_left_out := bp_main.c $(if $(BOARDPROF_FREESTANDING),,bp_mem.c)
boardprof_files := $(addprefix src/,$(filter-out $(boardprof_left_out),$(boardprof_sources)))
boardprof_files += $(BOARDPROF_COLLECTORS:%=collectors/bp_%.c)
# Files that these two need in addition.
ifneq ($(and $(filter posix,$(BOARDPROF_ARCH)),$(filter linux_perf papi,$(BOARDPROF_COLLECTORS))),)
boardprof_files += $(patsubst $(BOARDPROF_RUNTIME)/%,%,\
    $(wildcard $(BOARDPROF_RUNTIME)/arch/posix/bp_perf_*.c $(BOARDPROF_RUNTIME)/arch/posix/bp_papi_*.c))
endif
# What the options bring that are not 0.
include $(BOARDPROF_RUNTIME)/options/options.mk
boardprof_on := $(foreach text,$(filter BP_CFG_%,$(BOARDPROF_CONFIG)),\
    $(if $(filter %=0,$(text)),,$(patsubst BP_CFG_%,%,$(firstword $(subst =, ,$(text))))))
ifneq ($(BOARDPROF_FREESTANDING),)
boardprof_on := $(filter-out $(boardprof_with_c_library),$(boardprof_on))
endif
# The last one reads tables in flash; only AVR has it.
boardprof_patterns := $(foreach name,$(boardprof_on),$(boardprof_sources_$(name))) arch/<arch>/bp_rom.c
boardprof_files += $(patsubst $(BOARDPROF_RUNTIME)/%,%,\
    $(wildcard $(addprefix $(BOARDPROF_RUNTIME)/,$(subst <arch>,$(BOARDPROF_ARCH),$(boardprof_patterns)))))
boardprof_wrapped := $(foreach name,$(boardprof_on),$(boardprof_wrap_$(name)))
BOARDPROF_LDFLAGS := $(addprefix -Wl$(boardprof_comma)--wrap=,$(boardprof_wrapped))
# The C library may be the first to call the replacement.
BOARDPROF_LDFLAGS += $(if $(boardprof_wrapped),-Wl$(boardprof_comma)--undefined=__wrap_malloc)
# Functions of known work, which register themselves.
ifneq ($(BOARDPROF_PROOF),)
boardprof_proof := $(addprefix $(BOARDPROF_BUILD)/proof/,proof.c.o work.c.o)
$(boardprof_proof): boardprof_debug := -gdwarf-4
endif
boardprof_objects := $(addprefix $(BOARDPROF_BUILD)/,$(addsuffix .o,$(boardprof_files)) bp_table.c.o) $(boardprof_proof)
boardprof_compile = $(CC) $(BOARDPROF_CFLAGS) $(BOARDPROF_CPPFLAGS) -Os -g $(boardprof_debug) \
    -ffunction-sections -fdata-sections $(if $(BOARDPROF_FREESTANDING),-ffreestanding) \
    $(if $(BOARDPROF_ARCH),-I$(BOARDPROF_RUNTIME)/arch/$(BOARDPROF_ARCH)) -MMD -MP -c $< -o $@

boardprof_settings = $(CC) $(BOARDPROF_BOARD) $(BOARDPROF_CFLAGS) $(BOARDPROF_CPPFLAGS) $(BOARDPROF_ARCH) \
    $(BOARDPROF_COLLECTORS) $(BOARDPROF_FREESTANDING)
.PHONY: boardprof_always
# Written only if they differ, so that make can tell when there is nothing to be done.
ifneq ($(strip $(file <$(BOARDPROF_SETTINGS))),$(strip $(boardprof_settings)))
$(BOARDPROF_SETTINGS): boardprof_always
endif
$(BOARDPROF_SETTINGS):
	@mkdir -p $(@D)
	@printf '%s\n' '$(subst ','\'',$(boardprof_settings))' >$@.new
	@if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi

$(boardprof_objects) $(BOARDPROF_BUILD)/bp_table.c $(BOARDPROF_LIBRARY): $(BOARDPROF_SETTINGS)

$(BOARDPROF_BUILD)/%.c.o: $(BOARDPROF_RUNTIME)/%.c
	@mkdir -p $(@D)
	$(boardprof_compile) -std=c11

$(BOARDPROF_BUILD)/%.S.o: $(BOARDPROF_RUNTIME)/%.S
	@mkdir -p $(@D)
	$(boardprof_compile)

$(BOARDPROF_BUILD)/bp_table.c.o: $(BOARDPROF_BUILD)/bp_table.c
	$(boardprof_compile) -std=c11

$(BOARDPROF_BUILD)/bp_table.c: $(BOARDPROF_OBJECTS) $(boardprof_proof) $(BOARDPROF_ALSO)
	@mkdir -p $(@D)
	$(BOARDPROF) glue --board $(BOARDPROF_BOARD) $(addprefix -D,$(BOARDPROF_CONFIG)) \
	    --collectors=$(subst $(boardprof_space),$(boardprof_comma),$(strip $(BOARDPROF_COLLECTORS))) \
	    $(BOARDPROF_ALSO:%=--also=%) -o $@ $(BOARDPROF_OBJECTS) $(boardprof_proof)

$(BOARDPROF_LIBRARY): $(boardprof_objects)
	@rm -f $@
	$(BOARDPROF_AR) rcs $@ $(boardprof_objects)

-include $(boardprof_objects:.o=.d)
.DEFAULT_GOAL := $(boardprof_goal)
