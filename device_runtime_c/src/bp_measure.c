/* SPDX-License-Identifier: Apache-2.0 */
/* bp.measure: warm-up rounds, then samples of `number` calls each. The collectors run around the
 * calls only. SPEC.md 5.2. */

#include "boardprof/bp.h"
#include "boardprof/bp_port.h"
#include "bp_internal.h"

/* What is measured, and how often. */
typedef struct {
    bp_target_t target;
    uint32_t warmup;
    uint32_t repeat;
    uint32_t number;
#if BP_CFG_OPEN_WINDOWS
    bool returns; /* reply with the result of the last call, too */
#endif
#if BP_CFG_INTERRUPTS
    bool masked; /* mask interrupts in the windows of samples */
#endif
} bp_plan_t;

/* Hosts that open windows count single calls of a program, and need the result of each one. */
#if BP_CFG_OPEN_WINDOWS
#define BP_RETURNS(flags) (((flags) & (uint32_t)BP_MEASURE_RESULT) != 0)
#else
#define BP_RETURNS(flags) false
#endif

/* The empty function for calibration. It is a single instruction, its return, whatever flags the
 * board uses (-O0, frame pointers, stack protector), so it is assembly. The host adds this
 * instruction to each net count. GCC for AArch64 does not know `naked`. */
#if defined(__aarch64__)
void bp_empty(void);
__asm__(".pushsection .text.bp_empty, \"ax\"\n"
        ".global bp_empty\n"
        ".hidden bp_empty\n"
        ".type bp_empty, %function\n"
        "bp_empty: ret\n"
        ".size bp_empty, . - bp_empty\n"
        ".popsection");
#else
__attribute__((noinline, naked)) static void bp_empty(void) {
#if defined(__arm__)
    __asm__ volatile("bx lr");
#else
    __asm__ volatile("ret");
#endif
}
#endif

/// Windows ///

static int bp_activate(bp_call_t *call, bp_active_t *active, uint32_t mask) {
    size_t offset = 0;
    for (uint_fast8_t i = 0; mask != 0; i++, mask >>= 1) {
        const bp_collector_t *collector = bp_collector_at(i);
        if ((mask & 1u) == 0) {
            continue;
        }
        if (collector == NULL) {
            return bp_fail(call, BP_ERR_NO_COLLECTOR, i);
        }
        size_t end = offset + BP_ROM_GET(collector->state_bytes);
        if (active->end == active->member + BP_CFG_ACTIVE_COLLECTORS || end > BP_CFG_STATE_BYTES) {
            return bp_fail(call, BP_ERR_NO_MEMORY, i);
        }
        active->end->collector = collector;
        active->end++->offset = offset;
        active->blob_length += bp_blob_length(collector);
        offset = (end + 7u) & ~(size_t)7u;
    }
    return 0;
}

#if BP_CFG_INTERRUPTS > 1
#define BP_SHARED /* with bp_isr.c */
#else
#define BP_SHARED static
#endif

BP_SHARED void bp_start_all(const bp_active_t *active, bp_state_t *state) {
    for (const bp_member_t *member = active->member; member != active->end; member++) {
        BP_ROM_GET(member->collector->start)(state->bytes + member->offset);
    }
}

/* In reverse order, so that windows nest. */
BP_SHARED void bp_stop_all(const bp_active_t *active, bp_state_t *state) {
    for (const bp_member_t *member = active->end; member != active->member;) {
        member--;
        BP_ROM_GET(member->collector->stop)(state->bytes + member->offset);
    }
}

/* Not inlined: it has two callers. */
__attribute__((noinline)) static uint8_t *bp_put_all(uint8_t *out, const bp_active_t *active,
                                                     const bp_state_t *state) {
    for (const bp_member_t *member = active->member; member != active->end; member++) {
        out = bp_blob_put(out, member->collector, state->bytes + member->offset);
    }
    return out;
}

/// The measuring loop ///

static inline uint32_t bp_ticks_mask(void) {
    uint8_t bits = BP_ROM_GET(bp_port_clock.ticks_bits);
    return bits < 32 ? ((uint32_t)1 << bits) - 1u : UINT32_MAX;
}

#if BP_CFG_MARKER
static bool bp_marks; /* samples, not warm-ups */
#endif

/* Mark the window of a sample for instruments beside the board. Before it the pin is low for 20 us,
 * so that an instrument with 100,000 samples a second sees it. */
static inline void bp_mark(bool raised) {
#if BP_CFG_MARKER
    if (!bp_marks) {
        return;
    }
    if (raised) {
        uint32_t pause = BP_ROM_GET(bp_port_clock.ticks_hz) / 50000;
        uint32_t begin = (uint32_t)bp_port_ticks();
        while ((((uint32_t)bp_port_ticks() - begin) & bp_ticks_mask()) < pause) {
        }
    }
    bp_port_marker(raised);
#else
    (void)raised;
#endif
}

/* Make `calls` calls in one window. A warm-up call has one, too: without it, the collectors would
 * leave caches and branch predictors in another state before the first sample than before others.
 * Not inlined, so that the function and the empty function are called by the same instructions. */
__attribute__((noinline)) static void bp_window(const bp_active_t *active, bp_state_t *state,
                                                const bp_target_t *target, void *slots,
                                                uint32_t calls) {
    uintptr_t before = bp_watch_begin(active, state);
    bp_mark(true);
    bp_start_all(active, state);
    bp_watch_run(before);
    do {
        target->thunk(target->fn, slots);
    } while (--calls != 0);
    bp_watch_hold();
    bp_stop_all(active, state);
    bp_mark(false);
    bp_watch_end(before);
}

#if BP_CFG_SAMPLING
#define BP_PROGRESS /* with bp_sample.c */
#else
#define BP_PROGRESS static
#endif

/* Before each round: send PROGRESS at most eight times per second of the board's clock. A board
 * without a clock sends it for each of 16 rounds, and then for each 16th one. */
BP_PROGRESS void bp_progress_at_times(uint32_t *last, uint32_t done, uint32_t total) {
    uint32_t hz = BP_ROM_GET(bp_port_clock.ticks_hz);
    uint32_t mask = bp_ticks_mask();
    /* At most half the counter's range. A counter that wraps within an eighth of a second would
     * never reach that, and the host would wait in vain. */
    uint32_t pause = hz / 8 < mask / 2 ? hz / 8 : mask / 2;
    uint32_t now = (uint32_t)bp_port_ticks();
    bp_port_alive();
    if (done == 0 ||
        (((now - *last) & mask) >= pause && (hz != 0 || done < 16 || done % 16 == 0))) {
        *last = now;
        bp_progress(done, total);
    }
}

#if BP_CFG_GUARD

/* The schema of a collector whose counters a function has stopped, set or reprogrammed, 0 if there
 * is none. Its settings are restored. `state` is of the window before, NULL if there was none. */
static uint16_t bp_changed(const bp_active_t *active, const bp_state_t *state) {
    uint16_t changed = 0;
    for (const bp_member_t *member = active->member; member != active->end; member++) {
        bool (*intact)(const void *) = BP_ROM_GET(member->collector->intact);
        const void *window = state != NULL ? state->bytes + member->offset : NULL;
        if (intact != NULL && !intact(window)) {
            changed = BP_ROM_GET(member->collector->schema_id);
        }
    }
    return changed;
}

/* Whether the counters are as before the window. If not, the call has failed. */
static bool bp_intact(bp_call_t *call, const bp_active_t *active, const bp_state_t *state) {
    uint16_t changed = bp_changed(active, state);
    if (changed != 0) {
        bp_fail(call, BP_ERR_COUNTER_CHANGED, changed);
    }
    return changed == 0;
}

#endif

/* A round: set-up, window and check, guarded as one. */
typedef struct {
    const bp_target_t *target;
    const bp_active_t *active;
    bp_state_t *state;
    void *slots;
    uint32_t number;
#if BP_CFG_INTERRUPTS
    bool masked;
#endif
    int failed; /* what the check returned */
} bp_round_t;

static void bp_round(void *context) {
    bp_round_t *r = context;
    const bp_target_t *target = r->target;
    if (target->setup != NULL) {
        target->setup();
    }
#if BP_CFG_INTERRUPTS
    bp_see_interrupts();
    uintptr_t before = r->masked ? bp_port_mask() : 0;
#endif
    bp_window(r->active, r->state, target, r->slots, r->number);
#if BP_CFG_INTERRUPTS
    if (r->masked) {
        bp_port_unmask(before);
    }
#endif
    r->failed = target->check != NULL ? target->check() : 0;
}

static void bp_measure_loop(bp_call_t *call, const bp_plan_t *plan, const bp_active_t *active,
                            void *slots, uint8_t *out) {
    bp_state_t sample;
    bp_state_t total;
    bp_round_t round = {
        .target = &plan->target, .active = active, .state = &sample, .slots = slots};
    uint32_t last = 0;
    uint32_t rounds = plan->warmup + plan->repeat;
#if BP_CFG_GUARD
    (void)bp_changed(active, NULL); /* by a call before this one */
#endif
    for (uint32_t i = 0; i < rounds; i++) {
        bool is_sample = i >= plan->warmup;
        round.number = is_sample ? plan->number : 1;
#if BP_CFG_MARKER
        bp_marks = is_sample;
#endif
#if BP_CFG_INTERRUPTS
        round.masked = plan->masked && is_sample;
#endif
        bp_progress_at_times(&last, i, rounds);
#if BP_CFG_BULK
        if (bp_broken_off()) {
            bp_fail(call, BP_ERR_CANCELLED, i);
            return;
        }
#endif
        if (i == plan->warmup) {
            bp_start_all(active, &total);
        }
        bp_spans_put_back();
        bp_heap_round_begin(plan->target.fn);
        if (!bp_guarded(call, bp_round, &round)) {
            bp_watch_forget();
            bp_mark(false);
            return;
        }
        if (round.failed != 0) {
            bp_fail(call, BP_ERR_CHECK_FAILED, (uint32_t)round.failed);
            return;
        }
        bp_heap_round_end(is_sample);
#if BP_CFG_GUARD
        if (!bp_intact(call, active, &sample)) {
            return;
        }
#endif
        if (is_sample) {
            out = bp_put_all(out, active, &sample);
        }
    }
    bp_stop_all(active, &total);
    bp_put_all(out, active, &total);
}

/* How many samples fit into the reply, in addition to the blobs of the whole run. */
static uint32_t bp_samples_that_fit(const bp_call_t *call, const bp_active_t *active,
                                    bool returns) {
    enum { ARRAY_COUNT_AND_BIN_HEAD = 1 + 5 + 3, LONGEST_RESULT = 9 };
    size_t room = (size_t)(call->out_end - call->out) - ARRAY_COUNT_AND_BIN_HEAD -
                  (returns ? LONGEST_RESULT : 0);
    uint32_t fit = 0;
    for (size_t used = 2 * active->blob_length; used <= room; used += active->blob_length) {
        fit++;
    }
    return fit;
}

static int bp_plan(bp_call_t *call, bp_plan_t *plan, bp_active_t *active, bp_slots_t *slots) {
    uint32_t id = bp_arg_u32(call);
    uint32_t flags = bp_arg_u32(call);
    plan->warmup = bp_arg_u32(call);
    plan->repeat = bp_arg_u32(call);
    plan->number = bp_arg_u32(call);
    uint32_t mask = bp_arg_u32(call);
    if (call->err != 0) {
        return call->err;
    }
    const bp_target_t *target = bp_target_of(call, id);
    if (target == NULL) {
        return call->err;
    }
    if (plan->repeat == 0 || plan->number == 0 || mask == 0 || plan->warmup > INT32_MAX) {
        return bp_fail(call, BP_ERR_ARG_RANGE, 0);
    }
    if (bp_target_open(call, target, &plan->target, slots) != 0 ||
        bp_activate(call, active, mask) != 0) {
        return call->err;
    }
#if BP_CFG_OPEN_WINDOWS
    plan->returns = BP_RETURNS(flags);
#endif
#if BP_CFG_INTERRUPTS
    plan->masked = (flags & BP_MEASURE_MASK) != 0;
#endif
    uint32_t fit = bp_samples_that_fit(call, active, BP_RETURNS(flags));
    if (fit == 0) {
        return bp_fail(call, BP_ERR_REPLY_TOO_BIG, (uint32_t)active->blob_length);
    }
    if (plan->repeat > fit) {
        plan->repeat = fit; /* the host asks for the rest in another call */
    }
    if ((flags & BP_MEASURE_EMPTY) != 0) {
        bp_spans_forget();
#if BP_CFG_INTERRUPTS > 1
        plan->target.fn = (flags & BP_MEASURE_INTERRUPT) != 0 ? bp_port_interrupt : bp_empty;
#else
        plan->target.fn = bp_empty;
#endif
        plan->target.setup = NULL;
        plan->target.check = NULL;
#if BP_CFG_OPEN_WINDOWS
        plan->target.pack = NULL;
#endif
    }
    return 0;
}

int bp_measure(bp_call_t *call) {
    bp_plan_t plan;
    bp_active_t active;
    bp_slots_t slots;
    active.end = active.member;
    active.blob_length = 0;
    if (bp_plan(call, &plan, &active, &slots) != 0) {
        return call->err;
    }
#if BP_CFG_OPEN_WINDOWS
    bp_ret_array(call, plan.returns ? 3 : 2);
#else
    bp_ret_array(call, 2);
#endif
    bp_ret_uint(call, plan.repeat);
    uint8_t *out = bp_ret_bin(call, ((size_t)plan.repeat + 1) * active.blob_length);
    if (out != NULL) {
        bp_measure_loop(call, &plan, &active, &slots, out);
    }
#if BP_CFG_OPEN_WINDOWS
    if (plan.returns && call->err == 0) {
        bp_pack_result(call, &plan.target, &slots);
    }
#endif
    return call->err;
}
