/* SPDX-License-Identifier: Apache-2.0 */
/* What the host can call, by id, and how it is described (SPEC.md 5.1). */

#include "boardprof/bp.h"
#include "boardprof/bp_frame.h"
#include "bp_internal.h"

const char bp_rom_empty[1] BP_ROM = "";

static const char bp_name_describe[] BP_ROM = "bp.describe";
static const char bp_name_measure[] BP_ROM = "bp.measure";
#if BP_CFG_ARENA
static const char bp_name_alloc[] BP_ROM = "bp.alloc";
static const char bp_name_free[] BP_ROM = "bp.free";
static const char bp_name_read[] BP_ROM = "bp.read";
static const char bp_name_write[] BP_ROM = "bp.write";
#endif
#if BP_CFG_BULK
static const char bp_name_download[] BP_ROM = "bp.download";
static const char bp_name_upload[] BP_ROM = "bp.upload";
static const char bp_name_finish[] BP_ROM = "bp.finish";
#endif
#if BP_CFG_STREAM
static const char bp_name_stream[] BP_ROM = "bp.stream";
#endif
#if BP_CFG_CLOCK
static const char bp_name_clock[] BP_ROM = "bp.clock";
#endif
#if BP_CFG_GUARD
static const char bp_name_guard[] BP_ROM = "bp.guard";
#endif
#if BP_CFG_STACK
static const char bp_name_stack[] BP_ROM = "bp.stack";
#endif
#if BP_CFG_HEAP
static const char bp_name_heap[] BP_ROM = "bp.heap";
#endif
#if BP_CFG_INTERRUPTS
static const char bp_name_interrupts[] BP_ROM = "bp.interrupts";
#endif
#if BP_CFG_SAMPLING
static const char bp_name_sampling[] BP_ROM = "bp.sampling";
static const char bp_name_sample[] BP_ROM = "bp.sample";
#endif
#if BP_CFG_TRACE
static const char bp_name_trace[] BP_ROM = "bp.trace";
static const char bp_name_trace_start[] BP_ROM = "bp.trace_start";
static const char bp_name_trace_stop[] BP_ROM = "bp.trace_stop";
static const char bp_name_trace_slots[] BP_ROM = "bp.trace_slots";
static const char bp_name_trace_kept[] BP_ROM = "bp.trace_kept";
static const char bp_name_trace_read[] BP_ROM = "bp.trace_read";
static const char bp_name_trace_calibrate[] BP_ROM = "bp.trace_calibrate";
#if BP_CFG_TASKS
static const char bp_name_trace_tasks[] BP_ROM = "bp.trace_tasks";
#endif
#endif

/* The first two in the order of enum BuiltIn in protocol/. */
static const bp_function_t bp_builtins[] BP_ROM = {
    {bp_name_describe, bp_rom_empty, bp_describe, NULL},
    {bp_name_measure, bp_rom_empty, bp_measure, NULL},
#if BP_CFG_ARENA
    {bp_name_alloc, bp_rom_empty, bp_arena_alloc, NULL},
    {bp_name_free, bp_rom_empty, bp_arena_free, NULL},
    {bp_name_read, bp_rom_empty, bp_arena_read, NULL},
    {bp_name_write, bp_rom_empty, bp_arena_write, NULL},
#endif
#if BP_CFG_BULK
    {bp_name_download, bp_rom_empty, bp_channel_download, NULL},
    {bp_name_upload, bp_rom_empty, bp_channel_upload, NULL},
    {bp_name_finish, bp_rom_empty, bp_channel_finish, NULL},
#endif
#if BP_CFG_STREAM
    {bp_name_stream, bp_rom_empty, bp_channel_stream, NULL},
#endif
#if BP_CFG_CLOCK
    {bp_name_clock, bp_rom_empty, bp_clock, NULL},
#endif
#if BP_CFG_GUARD
    {bp_name_guard, bp_rom_empty, bp_guard, NULL},
#endif
#if BP_CFG_STACK
    {bp_name_stack, bp_rom_empty, bp_stack, NULL},
#endif
#if BP_CFG_HEAP
    {bp_name_heap, bp_rom_empty, bp_heap, NULL},
#endif
#if BP_CFG_INTERRUPTS
    {bp_name_interrupts, bp_rom_empty, bp_interrupts, NULL},
#endif
#if BP_CFG_SAMPLING
    {bp_name_sampling, bp_rom_empty, bp_sampling, NULL},
    {bp_name_sample, bp_rom_empty, bp_sample, NULL},
#endif
#if BP_CFG_TRACE
    {bp_name_trace, bp_rom_empty, bp_trace, NULL},
    {bp_name_trace_start, bp_rom_empty, bp_trace_start, NULL},
    {bp_name_trace_stop, bp_rom_empty, bp_trace_stop, NULL},
    {bp_name_trace_slots, bp_rom_empty, bp_trace_slots, NULL},
    {bp_name_trace_kept, bp_rom_empty, bp_trace_kept, NULL},
    {bp_name_trace_read, bp_rom_empty, bp_trace_read, NULL},
    {bp_name_trace_calibrate, bp_rom_empty, bp_trace_calibrate, NULL},
#if BP_CFG_TASKS
    {bp_name_trace_tasks, bp_rom_empty, bp_trace_tasks, NULL},
#endif
#endif
};

#define BP_BUILTIN_COUNT ((uint32_t)(sizeof bp_builtins / sizeof bp_builtins[0]))

/// Ids: built-ins, then each collector's operations, then the board's functions ///

#if BP_CFG_OPEN_WINDOWS

/* init, start, stop; and select and event if the collector has them. */
static uint_fast8_t bp_operation_count(const bp_collector_t *collector) {
    if (BP_ROM_GET(collector->select) == NULL) {
        return 3;
    }
    return BP_ROM_GET(collector->event) == NULL ? 4 : 5;
}

/* The collector whose operation has the number `*id`, counted over all collectors. `*id` becomes
 * the number within this collector. NULL if there is none: `*id` then counts the board's functions.
 */
__attribute__((noinline)) static const bp_collector_t *bp_operation_at(uint32_t *id) {
    const bp_collector_t *collector;
    for (uint_fast8_t i = 0; (collector = bp_collector_at(i)) != NULL; i++) {
        uint_fast8_t count = bp_operation_count(collector);
        if (*id < count) {
            break;
        }
        *id -= count;
    }
    return collector;
}

#endif

const bp_function_t *bp_function_at(uint32_t id) {
    if (id < BP_BUILTIN_COUNT) {
        return &bp_builtins[id];
    }
    id -= BP_BUILTIN_COUNT;
#if BP_CFG_OPEN_WINDOWS
    if (bp_operation_at(&id) != NULL) {
        return NULL;
    }
#endif
    if (id >= BP_ROM_GET(bp_firmware.function_count)) {
        return NULL;
    }
    const bp_function_t *functions = BP_ROM_GET(bp_firmware.functions);
    return &functions[id];
}

const bp_collector_t *bp_collector_at(uint32_t index) {
    if (index >= BP_ROM_GET(bp_firmware.collector_count)) {
        return NULL;
    }
    const bp_collector_t *const *collectors = BP_ROM_GET(bp_firmware.collectors);
    return BP_ROM_GET(collectors[index]);
}

int bp_invoke(bp_call_t *call, uint32_t id) {
    bp_spans_forget();
#if BP_CFG_OPEN_WINDOWS
    uint32_t operation = id - BP_BUILTIN_COUNT; /* wraps for a built-in function: too large */
    const bp_collector_t *collector = bp_operation_at(&operation);
    if (collector != NULL) {
        return bp_window_call(call, collector, (uint8_t)operation);
    }
#endif
    const bp_function_t *function = bp_function_at(id);
    if (function == NULL) {
        return bp_fail(call, BP_ERR_NO_FUNCTION, id);
    }
    bp_packed_t *packed = BP_ROM_GET(function->packed);
#if BP_CFG_GUARD
    if (packed != NULL && id >= BP_BUILTIN_COUNT) {
        return bp_guarded_packed(call, packed);
    }
#endif
    return packed != NULL ? packed(call) : bp_call_target(call, BP_ROM_GET(function->target));
}

/// The dictionary, entry by entry: SPEC.md 5.1 ///

static void bp_describe_firmware(bp_call_t *call, uint32_t index) {
    static const char version[] BP_ROM = BP_AGENT_VERSION;
    if (index != 0) {
        bp_ret_nil(call);
        return;
    }
    bp_ret_array(call, 3);
    bp_ret_text(call, BP_ROM_GET(bp_firmware.board));
    bp_ret_text(call, version);
    bp_ret_uint(call, BP_CFG_ARENA);
}

static void bp_describe_function(bp_call_t *call, uint32_t id) {
#if BP_CFG_OPEN_WINDOWS
    static const char operations[5][8] BP_ROM = {".init", ".start", ".stop", ".select", ".event"};
    uint32_t operation = id - BP_BUILTIN_COUNT;
    const bp_collector_t *collector = bp_operation_at(&operation);
    if (collector != NULL) {
        bp_ret_array(call, 3);
        bp_ret_joined(call, BP_ROM_GET(collector->name), operations[operation]);
        bp_ret_text(call, bp_rom_empty);
        bp_ret_bool(call, false);
        return;
    }
#endif
    const bp_function_t *function = bp_function_at(id);
    if (function == NULL) {
        bp_ret_nil(call);
        return;
    }
    bp_ret_array(call, 3);
    bp_ret_text(call, BP_ROM_GET(function->name));
    bp_ret_text(call, BP_ROM_GET(function->signature));
    bp_ret_bool(call, BP_ROM_GET(function->target) != NULL);
}

static void bp_describe_collector(bp_call_t *call, uint32_t index) {
    const bp_collector_t *collector = bp_collector_at(index);
    if (collector == NULL) {
        bp_ret_nil(call);
        return;
    }
    bp_ret_array(call, 5);
    bp_ret_text(call, BP_ROM_GET(collector->name));
    bp_ret_uint(call, BP_ROM_GET(collector->schema_id));
    bp_ret_uint(call, BP_ROM_GET(collector->version));
    bp_ret_uint(call, BP_ROM_GET(collector->layout_crc));
    bp_ret_uint(call, BP_ROM_GET(collector->counters));
}

/* `index` counts the counters of all collectors. */
static void bp_describe_counter(bp_call_t *call, uint32_t index) {
    const bp_collector_t *collector;
    bp_counter_t counter = {.name = bp_rom_empty, .source = bp_rom_empty};
    for (uint_fast8_t i = 0; (collector = bp_collector_at(i)) != NULL; i++) {
        uint8_t count = BP_ROM_GET(collector->counters);
        if (index < count) {
            break;
        }
        index -= count;
    }
    if (collector == NULL) {
        bp_ret_nil(call);
        return;
    }
    BP_ROM_GET(collector->counter)(&counter, (uint8_t)index);
    bp_ret_array(call, 8);
    bp_ret_text(call, counter.name);
    bp_ret_text(call, counter.source);
    bp_ret_uint(call, counter.bits);
    bp_ret_uint(call, counter.hz);
    bp_ret_uint(call, counter.coarse_hz);
    bp_ret_bool(call, counter.counts_in_sleep);
    bp_ret_uint(call, counter.status);
    bp_ret_uint(call, counter.detail);
}

static void bp_describe_entry(bp_call_t *call, uint32_t section, uint32_t index) {
    if (section > 3) { /* a later version may define more; here they are empty */
        bp_ret_nil(call);
        return;
    }
    switch (section) {
    case 0:
        bp_describe_firmware(call, index);
        break;
    case 1:
        bp_describe_function(call, index);
        break;
    case 2:
        bp_describe_collector(call, index);
        break;
    default:
        bp_describe_counter(call, index);
        break;
    }
}

int bp_describe(bp_call_t *call) {
    uint32_t section = bp_arg_u32(call);
    uint32_t index = bp_arg_u32(call);
    if (bp_arg_end(call) == 0) {
        bp_describe_entry(call, section, index);
    }
    return call->err;
}

uint32_t bp_dictionary_hash(void) {
    uint32_t crc = 0;
    uint32_t index = 0;
    for (uint32_t section = 0; section < 4;) {
        uint8_t *entry = bp_agent.tx;
        bp_call_t call = {.out = entry, .out_end = entry + sizeof bp_agent.tx};
        bp_describe_entry(&call, section, index++);
        crc = bp_crc32(crc, entry, (size_t)(call.out - entry));
        if (entry[0] == BP_TAG_NIL) {
            section++;
            index = 0;
        }
    }
    return crc;
}
