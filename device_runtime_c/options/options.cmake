# SPDX-License-Identifier: Apache-2.0
# Generated from options.toml. Do not edit: change that and run `make gen`.
set(boardprof_options
    MTU ACTIVE_COLLECTORS STATE_BYTES SLOT_BYTES ARENA ARENA_MARGIN HANDLES OPEN_WINDOWS GUARD
    BULK RX_BYTES RTT STREAM CLOCK STACK INTERRUPTS MARKER BASEPRI SAMPLING TRACE TRACE_AT
    TRACE_CORES TRACE_CLOCK HEAP TRACE_HEAP TASKS CRC_TABLE)
set(boardprof_sources_GUARD
    arch/<arch>/bp_arch_guard*.c arch/<arch>/bp_arch_guard*.S)
set(boardprof_sources_TRACE_HEAP
    libc/bp_heap.c)
set(boardprof_wrap_TRACE_HEAP
    malloc calloc realloc free strdup strndup aligned_alloc memalign posix_memalign _malloc_r
    _calloc_r _realloc_r _memalign_r _free_r)
set(boardprof_with_c_library
    TRACE_HEAP)
