/* SPDX-License-Identifier: Apache-2.0 */
/* bp.stack: paint what lies below the stack pointer, call once, and look how far down the paint is
 * gone. SPEC.md 5.8. */

#include "boardprof/bp.h"
#include "boardprof/bp_port.h"
#include "bp_internal.h"

#if BP_CFG_STACK

#if defined(__AVR__) && BP_CFG_STACK > 65535
#error "BP_CFG_STACK is out of range (0, 64..65535): this core's addresses have 16 bits"
#endif

/* What is painted at once. AVR's stack is one of bytes, and its return addresses may have three. */
#if defined(__AVR__)
typedef uint8_t bp_paint_t;
#else
typedef bp_word_t bp_paint_t;
#endif

/* A word that is unlikely on a stack: no small number, and on no core an address. Of AVR's single
 * bytes none is: one in 256 that a function writes looks like paint, and does not count if it is
 * the lowest (SPEC.md 5.8). */
#define BP_PAINT ((bp_paint_t)0xb5a6c793e1d2f08bu)

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define BP_PAINTS __attribute__((noinline, no_sanitize("address")))
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define BP_PAINTS __attribute__((noinline, no_sanitize_address))
#endif
#ifndef BP_PAINTS
#define BP_PAINTS __attribute__((noinline))
#endif

/* The stack pointer of the function that this stands in. */
__attribute__((always_inline)) static inline uintptr_t bp_stack_pointer(void) {
    uintptr_t sp;
#if defined(__x86_64__)
    __asm__ volatile("movq %%rsp, %0" : "=r"(sp));
#elif defined(__AVR__)
    __asm__ volatile("in %A0, __SP_L__\n\tin %B0, __SP_H__" : "=r"(sp));
    sp++; /* it points below the last byte that was pushed */
#elif defined(__arm__) || defined(__aarch64__)
    __asm__ volatile("mov %0, sp" : "=r"(sp));
#elif defined(__riscv)
    __asm__ volatile("mv %0, sp" : "=r"(sp));
#else
#error "bp.stack does not know this core's stack pointer: set BP_CFG_STACK to 0"
#endif
    return sp;
}

/* A call, and what it has left of the paint. Addresses; words are aligned. */
typedef struct {
    const bp_target_t *target;
    bp_slots_t *slots;
    uintptr_t limit;  /* nothing below is painted */
    uintptr_t bottom; /* lowest word that was painted */
    uintptr_t lowest; /* lowest word that has changed */
    int failed;       /* what the check returned */
} bp_painted_t;

static uintptr_t bp_entry;

/* Called as the function will be, tells where its stack begins; without a frame of its own,
 * whatever a board's flags are. (clang ignores `optimize`: with frame pointers forced on, its frame
 * counts as the function's share above.) */
__attribute__((noinline, optimize("O2", "omit-frame-pointer", "no-stack-protector"))) static void
bp_tell_entry(void) {
    bp_entry = bp_stack_pointer();
}

/* Nothing is called between painting and looking but the thunk, and all of this function's own
 * stands above its stack pointer: one that calls is no leaf, so it has no red zone. */
BP_PAINTS static void bp_call_painted(bp_painted_t *p) {
    enum { WORD = sizeof(bp_paint_t) };
    p->target->thunk(bp_tell_entry, p->slots);
    uintptr_t sp = bp_stack_pointer() / WORD * WORD;
    uintptr_t bottom = (p->limit + WORD - 1) / WORD * WORD;
    if (sp < bottom) {
        bottom = sp; /* it is another stack than the board's: leave it alone */
    } else if (sp - bottom > BP_CFG_STACK) {
        bottom = sp - BP_CFG_STACK / WORD * WORD;
    }
    for (uintptr_t at = sp; at != bottom;) {
        at -= WORD;
        *(volatile bp_paint_t *)at = BP_PAINT;
    }
    p->target->thunk(p->target->fn, p->slots);
    uintptr_t lowest = bottom;
    while (lowest != sp && *(const volatile bp_paint_t *)lowest == BP_PAINT) {
        lowest += WORD;
    }
    p->bottom = bottom;
    p->lowest = lowest;
}

__attribute__((weak)) void bp_port_stack_quiet(void) {
}

/* What is guarded as one. */
static void bp_painted(void *context) {
    bp_painted_t *p = context;
    if (p->target->setup != NULL) {
        p->target->setup();
    }
    bp_port_stack_quiet();
    bp_call_painted(p);
    p->failed = p->target->check != NULL ? p->target->check() : 0;
}

/// Time ///

#if BP_CFG_GUARD

/* What `ticks` of the port's clock are at most, in ms. */
static uint32_t bp_ms(uint32_t ticks) {
    uint32_t per_ms = BP_ROM_GET(bp_port_clock.ticks_hz) / 1000;
    return per_ms != 0 ? ticks / per_ms + 1 : ticks * 1000;
}

static uint32_t bp_ticks_since(uint32_t before) {
    uint8_t bits = BP_ROM_GET(bp_port_clock.ticks_bits);
    uint32_t mask = bits < 32 ? ((uint32_t)1 << bits) - 1u : UINT32_MAX;
    return ((uint32_t)bp_port_ticks() - before) & mask;
}

/* The limit of a call is the function's: painting and looking, which take a slow core longer than
 * most functions, come on top. How long they take is tried without the function. */
static bool bp_paint_guarded(bp_call_t *call, bp_painted_t *painted) {
    bp_target_t nothing = *painted->target;
    bp_painted_t trial = *painted;
    uint32_t limit = call->agent->guard_ms;
    if (limit != 0) {
        nothing.fn = bp_tell_entry;
        nothing.setup = NULL;
        nothing.check = NULL;
        trial.target = &nothing;
        call->agent->guard_ms = 0;
        uint32_t before = (uint32_t)bp_port_ticks();
        if (!bp_guarded(call, bp_painted, &trial)) {
            call->agent->guard_ms = limit;
            return false;
        }
        uint32_t longer = limit + bp_ms(bp_ticks_since(before));
        call->agent->guard_ms = longer > limit ? longer : UINT32_MAX;
    }
    bool ended = bp_guarded(call, bp_painted, painted);
    call->agent->guard_ms = limit;
    if (call->err == BP_ERR_TIMEOUT) {
        call->detail = limit;
    }
    return ended;
}

#else

static bool bp_paint_guarded(bp_call_t *call, bp_painted_t *painted) {
    return bp_guarded(call, bp_painted, painted);
}

#endif

/// The packed function ///

static uint32_t bp_below(uintptr_t entry, uintptr_t address) {
    return address < entry ? (uint32_t)(entry - address) : 0;
}

/* [function, argument, ...] -> [used, painted] */
int bp_stack(bp_call_t *call) {
    bp_target_t target;
    bp_slots_t slots;
    const bp_target_t *rom = bp_target_of(call, bp_arg_u32(call));
    if (call->err != 0 || bp_target_open(call, rom, &target, &slots) != 0) {
        return call->err;
    }
    bp_painted_t painted = {
        .target = &target, .slots = &slots, .limit = (uintptr_t)bp_port_stack_limit()};
    if (painted.limit == 0) {
        return bp_fail(call, BP_ERR_UNSUPPORTED, 0);
    }
    bp_spans_put_back();
    if (!bp_paint_guarded(call, &painted)) {
        return call->err;
    }
    if (painted.failed != 0) {
        return bp_fail(call, BP_ERR_CHECK_FAILED, (uint32_t)painted.failed);
    }
    bp_ret_array(call, 2);
    bp_ret_uint(call, bp_below(bp_entry, painted.lowest));
    bp_ret_uint(call, bp_below(bp_entry, painted.bottom));
    return call->err;
}

#endif
