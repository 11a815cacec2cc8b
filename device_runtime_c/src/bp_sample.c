/* SPDX-License-Identifier: Apache-2.0 */
/* bp.sample: call a function while a timer interrupts it at random times, and keep the program
 * counter and the stack pointer of each interrupt. SPEC.md 5.11.
 *
 * The time between two interrupts is the sum of two random stages, each exponentially distributed.
 * Such samples see each part of a function in proportion to its time, whatever the periods of its
 * loops are. They spread more evenly than independent ones: at no frequency does their spectrum,
 * (w^2 + 2 a^2) / (w^2 + 4 a^2) with 1 / a the mean stage, exceed that of those (Cox, "Renewal
 * Theory", 1962). So an interval for independent samples holds. */

#include "boardprof/bp.h"
#include "boardprof/bp_port.h"
#include "bp_internal.h"

#if BP_CFG_SAMPLING

#if UINTPTR_MAX > 0xffffffffu
#define BP_SAMPLE BP_SAMPLE64_LEN
#define bp_sample_put bp_sample64_put
typedef bp_sample64_t bp_sample_t;
#else
#define BP_SAMPLE BP_SAMPLE32_LEN
#define bp_sample_put bp_sample32_put
typedef bp_sample32_t bp_sample_t;
#endif

/* Written by the interrupt while a round runs, by the agent otherwise. */
static struct {
    uint8_t *samples; /* in a block of the arena */
    uint32_t capacity;
    uint32_t count;
    uint32_t half;   /* half of all stages are shorter, in ticks of the port's timer */
    uint32_t random; /* never 0 */
    uint32_t least;  /* the port's */
    uint32_t most;
    uint16_t dither;
    volatile bool in_call;
} bp_sampler;

/// Random delays ///

/* xorshift32 (Marsaglia, "Xorshift RNGs", 2003), multiplied: without that, its words are linear in
 * the ones before. */
static uint32_t bp_random(void) {
    uint32_t x = bp_sampler.random;
    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
    bp_sampler.random = x;
    return x * 0x9e3779b1u;
}

/* A time in ticks, exponentially distributed: a half for each time that a coin shows heads in a
 * row, and a part of one, u - 0.3 u (1 - u) of a uniform u. The density is off by less than 5 %,
 * and its error has no period. */
static uint32_t bp_stage(void) {
    uint32_t coins = bp_random() >> 8, half = bp_sampler.half;
    uint32_t u = bp_random() >> 16, u8 = u >> 8;
    uint32_t part = u - (u8 * (256u - u8) * 77u >> 8);
    uint32_t delay = (half >> 16) * part + ((half & 0xffffu) * part >> 16);
    for (uint_fast8_t i = 0; i < 16 && (coins & 1u) != 0; i++, coins >>= 1) {
        delay += half;
    }
    return delay;
}

/* From the beginning of a call to its first sample, as if samples had been taken for ever: the
 * beginning is then within a first stage or a second one, with the same chance. */
static uint32_t bp_first_delay(void) {
    uint32_t delay = bp_stage();
    return (bp_random() >> 31) != 0 ? delay + bp_stage() : delay;
}

/* The nearest delay that the port can make. */
static uint32_t bp_possible(uint32_t delay) {
    if (delay < bp_sampler.least) {
        return bp_sampler.least;
    }
    return delay < bp_sampler.most ? delay : bp_sampler.most;
}

/* Two loops that differ by one instruction, so that the sum takes every value. */
void bp_sample_dither(void) {
    uint32_t random = bp_random() >> 8;
    for (uint32_t n = (random & 0xffu) * bp_sampler.dither >> 10; n != 0; n--) {
        __asm__ volatile("");
    }
    for (uint32_t n = (random >> 8 & 0xffu) * bp_sampler.dither >> 10; n != 0; n--) {
        __asm__ volatile("nop");
    }
}

/* Spend at least the shortest delay: an iteration takes two instructions or more. */
static void bp_lead(void) {
    uint32_t in_tick = bp_sampler.dither != 0 ? bp_sampler.dither : 1;
    for (uint32_t n = bp_sampler.least * in_tick / 2; n != 0; n--) {
        __asm__ volatile("nop");
    }
}

/// Samples ///

/* Keep each sample with the chance of one half, and take half as many from now on. */
static void bp_thin(void) {
    const uint8_t *from = bp_sampler.samples;
    uint8_t *to = bp_sampler.samples;
    uint32_t coins = 1;
    for (uint32_t left = bp_sampler.count; left != 0; left--) {
        if (coins == 1) {
            coins = bp_random() >> 16 | 0x10000u;
        }
        if ((coins & 1u) != 0) {
            for (uint_fast8_t i = 0; i < BP_SAMPLE; i++) {
                to[i] = from[i];
            }
            to += BP_SAMPLE;
        }
        coins >>= 1;
        from += BP_SAMPLE;
    }
    bp_sampler.count = (uint32_t)(to - bp_sampler.samples) / BP_SAMPLE;
    if (bp_sampler.half <= UINT32_MAX / 128) {
        bp_sampler.half *= 2;
    }
}

uint32_t bp_sample_take(bp_code_t pc, uintptr_t sp) {
    const bp_sample_t sample = {.pc = pc, .sp = sp};
    if (bp_sampler.in_call) {
        while (bp_sampler.count == bp_sampler.capacity) {
            bp_thin();
        }
        (void)bp_sample_put(bp_sampler.samples + bp_sampler.count * BP_SAMPLE, &sample);
        bp_sampler.count++;
    }
    uint32_t delay = bp_stage();
    return bp_possible(delay + bp_stage());
}

/// Rounds ///

typedef struct {
    const bp_target_t *target;
    bp_slots_t *slots;
    uintptr_t top; /* the stack of the call is below it */
    int failed;    /* what the check returned */
} bp_sampled_t;

/* Set-up, call and check, guarded as one. Samples are taken around the call alone; those of the
 * thunk the host leaves out. The timer starts the shortest delay before the call: after a sample,
 * the next one is never sooner, but the call begins where there was none. */
static void bp_sampled(void *context) {
    bp_sampled_t *s = context;
    if (s->target->setup != NULL) {
        s->target->setup();
    }
    s->top = (uintptr_t)__builtin_frame_address(0);
    bp_port_sample_start(bp_possible(bp_sampler.least + bp_first_delay()));
    bp_sample_dither();
    bp_lead();
    bp_sampler.in_call = true;
    s->target->thunk(s->target->fn, s->slots);
    bp_sampler.in_call = false;
    bp_port_sample_stop();
    s->failed = s->target->check != NULL ? s->target->check() : 0;
}

/* Run rounds until there are `wanted` samples; returns how many. A round is never broken off for
 * that: its end would be seen less often than its beginning. */
static uint32_t bp_sample_rounds(bp_call_t *call, bp_sampled_t *sampled, uint32_t rounds,
                                 uint32_t wanted) {
    uint32_t last = 0;
    uint32_t done = 0;
    while (done < rounds && bp_sampler.count < wanted) {
        bp_progress_at_times(&last, done, rounds);
#if BP_CFG_BULK
        if (bp_broken_off()) {
            bp_fail(call, BP_ERR_CANCELLED, done);
            break;
        }
#endif
        bp_spans_put_back();
        bp_sampler.in_call = false;
        if (!bp_guarded(call, bp_sampled, sampled)) {
            bp_port_sample_stop();
            break;
        }
        done++;
        if (sampled->failed != 0) {
            bp_fail(call, BP_ERR_CHECK_FAILED, (uint32_t)sampled->failed);
            break;
        }
    }
    return done;
}

/// The packed functions ///

/* [] -> [source, least, usual] */
int bp_sampling(bp_call_t *call) {
    bp_port_sampling_t port = BP_ROM_GET(bp_port_sampling);
    if (bp_arg_end(call) == 0) {
        bp_ret_array(call, 3);
        bp_ret_text(call, port.source);
        bp_ret_uint(call, port.least);
        bp_ret_uint(call, port.usual);
    }
    return call->err;
}

/* [function, block, half, seed, rounds, wanted, argument, ...] -> [rounds, samples, half, top] */
int bp_sample(bp_call_t *call) {
    bp_target_t target;
    bp_slots_t slots;
    bp_port_sampling_t port = BP_ROM_GET(bp_port_sampling);
    const bp_target_t *rom = bp_target_of(call, bp_arg_u32(call));
    uint32_t handle = bp_arg_u32(call);
    uint32_t half = bp_arg_u32(call);
    uint32_t seed = bp_arg_u32(call);
    uint32_t rounds = bp_arg_u32(call);
    uint32_t wanted = bp_arg_u32(call);
    if (call->err != 0 || bp_target_open(call, rom, &target, &slots) != 0) {
        return call->err;
    }
    uint32_t bytes = bp_arena_size(call, handle);
    uint8_t *samples = bp_arena_span(call, handle, 0, bytes);
    if (samples == NULL) {
        return call->err;
    }
    bp_sampler.capacity = bytes / BP_SAMPLE;
    uint32_t longest = port.most < UINT32_MAX / 64 ? port.most : UINT32_MAX / 64;
    if (half == 0 || half > longest || wanted == 0 || wanted > bp_sampler.capacity) {
        return bp_fail(call, BP_ERR_ARG_RANGE, bp_sampler.capacity);
    }
    bp_sampler.samples = samples;
    bp_sampler.count = 0;
    bp_sampler.half = half;
    bp_sampler.random = seed != 0 ? seed : 1;
    bp_sampler.least = port.least;
    bp_sampler.most = port.most;
    bp_sampler.dither = port.dither;
    bp_sampled_t sampled = {.target = &target, .slots = &slots};
    uint32_t done = bp_sample_rounds(call, &sampled, rounds, wanted);
    bp_ret_array(call, 4); /* after an error, none of these does anything */
    bp_ret_uint(call, done);
    bp_ret_uint(call, bp_sampler.count);
    bp_ret_uint(call, bp_sampler.half);
    bp_ret_u64(call, sampled.top);
    return call->err;
}

#endif
