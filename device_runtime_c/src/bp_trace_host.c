/* SPDX-License-Identifier: Apache-2.0 */
/* What the host does with probes: start and stop them, read their records from the stream, and the
 * statistics of ranges with calls. SPEC.md 5.12. */

#include "boardprof/bp.h"
#include "boardprof/bp_port.h"
#include "bp_internal.h"

#if BP_CFG_TRACE

#include "bp_arch.h"

static bool bp_trace_is_ready; /* bp.trace_start has initialised the rings */

/// The clock may wrap ///

/* Width of bp_port_ticks from which on it shows that the trace clock has wrapped. */
#define BP_TRACE_TICKS_BITS 40

/* An empty block tells the host the time before the clock has wrapped. */
#define BP_TOLD_AT_LEAST_EVERY 0x20000000u

/* How long the clock of statistics was not looked at: then a pass may have taken longer than the
 * clock has bits for. A clock of 64 bits has no need of it. */
static struct {
    uint64_t ticks;
    uint64_t longest; /* ticks of bp_port_ticks between two looks */
    uint32_t clock;
} bp_trace_look;

static void bp_trace_look_begin(void) {
    bp_trace_look.ticks = bp_port_ticks();
    bp_trace_look.longest = 0;
    bp_trace_look.clock = bp_trace_now();
}

static void bp_trace_look_again(void) {
    if (sizeof(bp_trace_time_t) > 4 || (bp_tracing & (uint32_t)BP_TRACE_STATISTICS) == 0) {
        return;
    }
    uint64_t ticks = bp_port_ticks();
    uint64_t passed = ticks - bp_trace_look.ticks;
    bp_trace_look.ticks = ticks;
    if (passed > bp_trace_look.longest) {
        bp_trace_look.longest = passed;
    }
    uint32_t now = bp_trace_now();
    if (now - bp_trace_look.clock >= BP_TOLD_AT_LEAST_EVERY) {
        bp_trace_look.clock = now;
        bp_slots_update(false);
    }
}

/// The stream ///

/* Send a block: what is in a ring up to its end or up to the writer, whichever comes first, as far
 * as the stream has room. */
static void bp_trace_send(uint8_t core) {
    bp_trace_ring_t *ring = &bp_trace_ring[core];
    uint32_t room = bp_stream_room();
    if (room < BP_TRACE_BLOCK_LEN + 4) { /* a word fits: an empty block means an empty ring */
        return;
    }
    uintptr_t before = bp_arch_lock_always();
#ifdef BP_ARCH_HAS_THREADS
    bp_trace_count_refused();
#endif
    if (ring->at < ring->read && ring->read == ring->lap_end) {
        ring->before += (uint32_t)(ring->lap_end - ring->begin);
        ring->read = ring->begin;
    }
    bool lapped = ring->at < ring->read; /* the writer is a lap ahead */
    uint32_t *stop = lapped ? ring->lap_end : ring->at;
    bp_trace_block_t block = {
        .core = core,
        .sequence = ring->before + (uint32_t)(ring->read - ring->begin),
        .dropped = ring->dropped,
        .last = (uint32_t)ring->last,
        .now = bp_trace_now(),
        .ticks = bp_port_ticks(),
    };
    bp_arch_unlock(before);
    uint32_t words = (uint32_t)(stop - ring->read);
    uint32_t most = (room - BP_TRACE_BLOCK_LEN) / 4;
    most = most < UINT16_MAX ? most : UINT16_MAX;
    if (words > most) {
        words = most;
    } else if (!lapped) {
        block.flags = BP_TRACE_BLOCK_WHOLE;
    }
#if BP_TRACE_OWN_CLOCKS
    if (core != bp_arch_core()) {
        block.flags |= BP_TRACE_BLOCK_OTHER_CLOCK;
    }
#endif
    bool runs = (bp_tracing & (uint32_t)BP_TRACE_EVENTS) != 0;
    bool is_due = runs && block.now - ring->told >= BP_TOLD_AT_LEAST_EVERY;
    if (words == 0 && !ring->ended && !is_due) {
        return;
    }
    if (words == 0 && ring->ended) {
        ring->ended = false;
        block.flags |= BP_TRACE_BLOCK_LAST;
    }
    block.words = (uint16_t)words;
    uint8_t header[BP_TRACE_BLOCK_LEN];
    bp_trace_block_put(header, &block);
    (void)bp_stream_write(header, sizeof header);
    (void)bp_stream_write(ring->read, (size_t)words * 4);
    before = bp_arch_lock_always();
    ring->told = block.now;
    ring->read += words;
    bp_arch_unlock(before);
}

void bp_trace_drain(void) {
    bp_trace_look_again();
    for (uint8_t core = 0; core < BP_CFG_TRACE_CORES; core++) {
        /* Before that, rings in kept memory may hold anything. */
        if (!bp_trace_is_ready || bp_trace_ring[core].mode == BP_TRACE_OVERWRITE) {
            continue;
        }
        if (bp_stream_is_open()) {
            bp_trace_send(core);
        } else {
            bp_trace_ring[core].ended = false; /* the next host has not stopped it */
        }
    }
}

/// The clock ///

#if BP_CFG_TRACE_CLOCK == 0
static const char bp_trace_unit[] BP_ROM = "cycles";
static const char bp_trace_source[] BP_ROM = BP_ARCH_CYCLES32_SOURCE;
#define BP_TRACE_SOURCE bp_trace_source
#define BP_TRACE_HZ 0
#elif BP_CFG_TRACE_CLOCK == 2
static const char bp_trace_unit[] BP_ROM = "instructions";
static const char bp_trace_source[] BP_ROM = BP_ARCH_INSTRUCTIONS32_SOURCE;
#define BP_TRACE_SOURCE bp_trace_source
#define BP_TRACE_HZ 0
#else
static const char bp_trace_unit[] BP_ROM = "ticks";
#define BP_TRACE_SOURCE BP_ROM_GET(bp_port_clock.source)
#define BP_TRACE_HZ BP_ROM_GET(bp_port_clock.ticks_hz)
#endif

static bool bp_trace_clock_init(void) {
#if BP_CFG_TRACE_CLOCK == 0
    return bp_arch_cycles32_init();
#elif BP_CFG_TRACE_CLOCK == 2
    return bp_arch_cycles_init();
#else
    return true;
#endif
}

/* ID bits do not say whether a counter is there: it must be seen to count. A slow one may take
 * thousands of reads to do so. */
static enum bp_trace_clock_status bp_trace_clock_status(void) {
#if BP_CFG_TRACE_CLOCK == 1
    if (BP_ROM_GET(bp_port_clock.ticks_bits) < 32) {
        return BP_TRACE_CLOCK_NARROW;
    }
#endif
    uint32_t before = bp_trace_now();
    for (uint32_t reads = 0; reads < 100000; reads++) {
        if (bp_trace_now() != before) {
            return BP_TRACE_CLOCK_OK;
        }
    }
    return BP_TRACE_CLOCK_STUCK;
}

/// Names ///

/* The linker sets these for a section of this name (bp_trace.h). */
extern const uint8_t __start_bp_trace_check[] __attribute__((visibility("hidden")));
extern const uint8_t __stop_bp_trace_check[] __attribute__((visibility("hidden")));

/* The CRC-32 of the section: it differs if any name, or their order, differs. */
static uint32_t bp_names_check(void) {
    uint32_t crc = 0;
    for (const uint8_t *at = __start_bp_trace_check; at != __stop_bp_trace_check; at++) {
        uint8_t byte = BP_ROM_GET(*at);
        crc = bp_crc32(crc, &byte, 1);
    }
    return crc;
}

/// The packed functions ///

/* [] -> [unit, source, hz, ring, cores, running, now, names, ticks, unseen, clock] */
int bp_trace(bp_call_t *call) {
    if (bp_arg_end(call) == 0) {
        bp_trace_look_again();
        bool has_clock = bp_trace_clock_init();
        bp_ret_array(call, 11);
        bp_ret_text(call, bp_trace_unit);
        bp_ret_text(call, BP_TRACE_SOURCE);
        bp_ret_uint(call, BP_TRACE_HZ);
        bp_ret_uint(call, BP_CFG_TRACE);
        bp_ret_uint(call, BP_CFG_TRACE_CORES);
        bp_ret_uint(call, bp_tracing & BP_TRACE_WHAT);
        bp_ret_uint(call, bp_trace_now());
        bp_ret_uint(call, bp_names_check());
        if (BP_ROM_GET(bp_port_clock.ticks_bits) < BP_TRACE_TICKS_BITS) {
            bp_ret_nil(call);
            bp_ret_nil(call);
        } else {
            bp_ret_u64(call, bp_port_ticks());
            bp_ret_u64(call, bp_trace_look.longest);
        }
        bp_ret_uint(call, has_clock ? bp_trace_clock_status() : BP_TRACE_CLOCK_STUCK);
    }
    return call->err;
}

/* What the image adds to the check of a ring: its build id, and its names. */
static uint32_t bp_build_check(const bp_trace_ring_t *ring, uint32_t names) {
    uint32_t check = names;
    for (uint_fast8_t i = 0; i < sizeof ring->build_id; i++) {
        check = check * 33u + ring->build_id[i];
    }
    return check;
}

/* Begin a ring from nothing. Probes may run meanwhile: a task may have seen that recording is on
 * before it was interrupted. They find no room until the ring is ready, and are not counted. So
 * interrupts are off only for the few words that probes change, however large the ring is.
 *
 * A reader never looks at words that were not written. Only the check of a ring that is overwritten
 * is of all words, so only such a ring is cleared. */
static void bp_ring_start(bp_trace_ring_t *ring, uint32_t *words, uint8_t mode) {
    uintptr_t before = bp_arch_lock_always();
    ring->mode = BP_TRACE_DROP;
    ring->begin = ring->at = ring->end = words;
    ring->read = words + 1; /* a lap behind, and in the way */
    bp_arch_unlock(before);
    bool overwrites = mode == BP_TRACE_OVERWRITE;
    if (overwrites) {
        __builtin_memset(words, 0, (size_t)BP_TRACE_WORDS * 4);
    }
    for (uint_fast8_t i = 0; i < sizeof ring->build_id; i++) {
        ring->build_id[i] = BP_ROM_GET(bp_firmware.build_id[i]);
    }
    uint32_t check = bp_build_check(ring, bp_names_check());
    before = bp_arch_lock_always();
    bp_trace_time_t now = bp_trace_time();
    ring->read = words;
    /* If cores have own clocks, the first record is looked after: SYNC comes before it. */
    ring->end = overwrites || BP_TRACE_OWN_CLOCKS ? words : words + BP_TRACE_WORDS - 1;
    ring->last = now;
    ring->told = (uint32_t)now;
    ring->before = ring->dropped = ring->pending = 0;
    ring->mode = mode;
    ring->ended = false;
    ring->check = check + bp_trace_place(ring);
    bp_arch_unlock(before);
}

/* [what, mode] -> clock, from which the first record counts */
int bp_trace_start(bp_call_t *call) {
    uint32_t what = bp_arg_u32(call);
    uint8_t mode = (uint8_t)bp_arg_uint(call, BP_TRACE_OVERWRITE);
    if (bp_arg_end(call) != 0) {
        return call->err;
    }
    /* One slot for all cores would be changed by several at once. */
    bool may = BP_CFG_TRACE_CORES == 1 || (what & (uint32_t)BP_TRACE_STATISTICS) == 0;
    if (!may || !bp_trace_clock_init()) {
        return bp_fail(call, BP_ERR_UNSUPPORTED, 0);
    }
    bp_trace_switch(what, 0);
    uint32_t began = bp_trace_now();
    if ((what & (uint32_t)BP_TRACE_EVENTS) != 0) {
#ifdef BP_ARCH_HAS_THREADS
        bp_trace_forget_refused();
#endif
        for (uint8_t core = 0; core < BP_CFG_TRACE_CORES; core++) {
            bp_ring_start(&bp_trace_ring[core], bp_trace_words[core], mode);
        }
        bp_trace_is_ready = true;
        began = (uint32_t)bp_trace_ring[0].last;
    }
    if ((what & (uint32_t)BP_TRACE_STATISTICS) != 0) {
        bp_slots_update(true);
        bp_trace_look_begin();
    }
    bp_ret_uint(call, began);
    bp_trace_switch(0, what);
#if BP_CFG_TASKS
    if ((what & (uint32_t)BP_TRACE_EVENTS) != 0) {
        bp_trace_task();
    }
#endif
    return call->err;
}

/* [what] -> clock. An empty block of each ring is the last one, and tells the host so. */
int bp_trace_stop(bp_call_t *call) {
    uint32_t what = bp_arg_u32(call);
    if (bp_arg_end(call) == 0) {
        bp_trace_look_again();
        bp_trace_switch(what, 0);
        for (uint8_t core = 0; core < BP_CFG_TRACE_CORES; core++) {
            bp_trace_ring[core].ended = true;
        }
        bp_ret_uint(call, bp_trace_now());
    }
    return call->err;
}

/* [skip] -> bin: the slots of all ranges that were entered, after the first `skip`, as many as fit
 * the reply. A range that is entered meanwhile comes last. */
int bp_trace_slots(bp_call_t *call) {
    uint32_t skip = bp_arg_u32(call);
    if (bp_arg_end(call) != 0) {
        return call->err;
    }
    uint32_t count = 0;
    uint32_t room = (uint32_t)(call->out_end - call->out - 3) / BP_TRACE_SLOT_LEN;
    bp_slot_t *last;
    const bp_slot_t *slot = bp_slots_now(&last);
    const bp_slot_t *first = NULL;
    while (slot != NULL && count < room) {
        if (skip != 0) {
            skip--;
        } else {
            first = first != NULL ? first : slot;
            count++;
        }
        slot = slot != last ? slot->next : NULL;
    }
    uint8_t *out = bp_ret_bin(call, (size_t)count * BP_TRACE_SLOT_LEN);
    for (; out != NULL && count != 0; count--, first = first->next) {
        uintptr_t before = bp_arch_lock_always();
        const bp_trace_slot_t put = {
            .id = first->id,
            .count = first->count,
            .lost = first->lost,
            .flags = first->flags & 0x0fu,
            .least = first->least,
            .most = first->most,
            .sum = (uint64_t)first->sum[1] << 32 | first->sum[0],
            .squares = (uint64_t)first->squares[1] << 32 | first->squares[0],
        };
        bp_arch_unlock(before);
        out = bp_trace_slot_put(out, &put);
    }
    return call->err;
}

#if BP_CFG_INTERRUPTS > 1

/* An interrupt between two marks, and one that waits until both are over: the difference is what it
 * takes. */
static void bp_trace_interrupts(void) {
    for (uint_fast8_t i = 0; i < 8; i++) {
        BP_MARK(bp_interrupt);
        bp_port_interrupt();
        BP_MARK(bp_interrupt);
        uintptr_t before = bp_port_mask();
        BP_MARK(bp_interrupt);
        bp_port_interrupt();
        BP_MARK(bp_interrupt);
        bp_port_unmask(before);
    }
}

#else
static inline void bp_trace_interrupts(void) {
}
#endif

/* A lock that keeps other threads or cores out does not nest: probes take it themselves. */
static inline uintptr_t bp_calibration_lock(void) {
#ifdef BP_ARCH_STAYS_LOCKED
    return BP_ARCH_STAYS_LOCKED;
#else
    return bp_arch_lock();
#endif
}

/* [] -> nil: probes without anything between them. Their records and the slot of the range
 * bp_calibration show what probes cost. Interrupts wait until a pair of probes is over. The ring
 * begins again, so that events of the firmware take no room in it. */
int bp_trace_calibrate(bp_call_t *call) {
    if (bp_arg_end(call) != 0) {
        return call->err;
    }
    if ((bp_tracing & (uint32_t)BP_TRACE_EVENTS) != 0) {
        bp_ring_start(&bp_trace_ring[0], bp_trace_words[0], bp_trace_ring[0].mode);
    }
    for (uint_fast8_t i = 0; i < 8; i++) {
        uintptr_t before = bp_calibration_lock();
        BP_MARK(bp_calibration);
        BP_RANGE_BEGIN(bp_calibration);
        BP_RANGE_END(bp_calibration);
        BP_MARK(bp_calibration);
        bp_arch_unlock(before);
    }
    for (uint_fast8_t i = 0; i < 8; i++) {
        uintptr_t before = bp_calibration_lock();
        BP_MARK(bp_calibration);
        BP_MARK(bp_calibration);
        bp_arch_unlock(before);
    }
    for (uint_fast8_t i = 0; i < 8; i++) {
        uintptr_t before = bp_calibration_lock();
        BP_VALUE(bp_calibration, (uint32_t)0);
        BP_VALUE(bp_calibration, (uint32_t)0);
        bp_arch_unlock(before);
    }
    for (uint_fast8_t i = 0; i < 8; i++) {
        uintptr_t before = bp_calibration_lock();
        if ((bp_tracing & (uint32_t)BP_TRACE_EVENTS) != 0) { /* as if the last was long ago */
            bp_trace_ring_t *ring = &bp_trace_ring[0];
            ring->check -= bp_trace_place(ring);
            ring->last -= 0x1000000u;
            ring->check += bp_trace_place(ring);
        }
        BP_MARK(bp_calibration);
        BP_MARK(bp_calibration);
        bp_arch_unlock(before);
    }
    bp_trace_interrupts();
    bp_ret_nil(call);
    return call->err;
}

/// What a reset has left ///

/* Whether a ring is one that was overwritten, and as its last record has left it. */
static bool bp_is_kept(const bp_trace_ring_t *ring, const uint32_t *words) {
    uintptr_t at = (uintptr_t)ring->at - (uintptr_t)words;
    if (ring->begin != words || ring->mode != BP_TRACE_OVERWRITE || at >= BP_TRACE_WORDS * 4 ||
        at % 8 != 0) {
        return false;
    }
    uint32_t check = bp_build_check(ring, bp_names_check());
    for (uint32_t i = 0; i < BP_TRACE_WORDS; i += 2) {
        check += bp_trace_mix(words[i], words[i + 1]);
    }
    return ring->check == check + bp_trace_place(ring);
}

/* [core] -> bin: how a ring stands; nil if there is none to be read. Events stop. */
int bp_trace_kept(bp_call_t *call) {
    uint32_t core = (uint32_t)bp_arg_uint(call, BP_CFG_TRACE_CORES - 1);
    if (bp_arg_end(call) != 0) {
        return call->err;
    }
    bp_trace_switch(BP_TRACE_EVENTS, 0);
    const bp_trace_ring_t *ring = &bp_trace_ring[core];
    if (!bp_is_kept(ring, bp_trace_words[core])) {
        bp_ret_nil(call);
        return call->err;
    }
    bp_trace_kept_t kept = {
        .size = BP_TRACE_WORDS,
        .at = (uint32_t)(ring->at - ring->begin),
        .written = ring->before + (uint32_t)(ring->at - ring->begin),
        .last = (uint32_t)ring->last,
    };
    for (uint_fast8_t i = 0; i < sizeof kept.build_id; i++) {
        kept.build_id[i] = ring->build_id[i];
    }
    uint8_t *out = bp_ret_bin(call, BP_TRACE_KEPT_LEN);
    if (out != NULL) {
        bp_trace_kept_put(out, &kept);
    }
    return call->err;
}

/* [core, first, count] -> bin: words of a ring */
int bp_trace_read(bp_call_t *call) {
    uint32_t core = (uint32_t)bp_arg_uint(call, BP_CFG_TRACE_CORES - 1);
    uint32_t first = (uint32_t)bp_arg_uint(call, BP_TRACE_WORDS);
    uint32_t count = (uint32_t)bp_arg_uint(call, BP_TRACE_WORDS - first);
    if (bp_arg_end(call) == 0) {
        bp_ret_bytes(call, bp_trace_words[core] + first, (size_t)count * 4);
    }
    return call->err;
}

#endif
