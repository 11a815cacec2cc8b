/* SPDX-License-Identifier: Apache-2.0 */
/* bp.stack: paint the memory below the stack pointer, call the function once, and see how far down
 * the paint was overwritten. SPEC.md 5.8. */

#include "boardprof/bp.h"
#include "boardprof/bp_port.h"
#include "bp_internal.h"

#if BP_CFG_STACK

#if defined(__AVR__) && BP_CFG_STACK > 65535
#error "BP_CFG_STACK is out of range (0, 64..65535): this core's addresses have 16 bits"
#endif

/* The unit of paint. On AVR the stack consists of bytes: a return address may have three. */
#if defined(__AVR__)
typedef uint8_t bp_paint_t;
#else
typedef bp_word_t bp_paint_t;
#endif

/* A word that is unlikely on a stack: not a small number, and not an address on any core. A single
 * byte, as on AVR, cannot be unlikely: one in 256 bytes that a function writes looks like paint. It
 * is missed if it is the lowest one (SPEC.md 5.8). */
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

/* The stack pointer of the function that this is inlined into. */
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

/* A call on painted stack, and what was found afterwards. */
typedef struct {
    const bp_target_t *target;
    bp_slots_t *slots;
    uintptr_t limit;  /* address below which nothing is painted */
    uintptr_t bottom; /* address of the lowest painted word */
    uintptr_t lowest; /* address of the lowest word that has changed */
    int failed;       /* what the check returned */
    bool off;         /* no interrupt of the port comes during the call */
    bool hit;         /* one has come */
} bp_painted_t;

static uintptr_t bp_entry;

/* Called instead of the function, it records where the function's stack will begin, whatever frame
 * it has itself. */
#if defined(__clang__)
__attribute__((used)) static void bp_keep_entry(uintptr_t sp) {
    bp_entry = sp;
}

__attribute__((noinline, naked)) static void bp_tell_entry(void) {
#if defined(__x86_64__)
    __asm__ volatile("movq %rsp, %rdi\n\tjmp bp_keep_entry");
#elif defined(__arm__)
    __asm__ volatile("mov r0, sp\n\tpush {r4, lr}\n\tbl bp_keep_entry\n\tpop {r4, pc}");
#elif defined(__aarch64__)
    __asm__ volatile("mov x0, sp\n\tb bp_keep_entry");
#elif defined(__riscv)
    __asm__ volatile("mv a0, sp\n\ttail bp_keep_entry");
#endif
}
#else
/* How far the call itself moves the stack pointer from the CFA. On AVR, GCC's CFA is the address of
 * the return address's highest byte. */
#if defined(__x86_64__)
#define BP_PUSHED sizeof(void *)
#elif defined(__AVR_3_BYTE_PC__)
#define BP_PUSHED 2
#elif defined(__AVR__)
#define BP_PUSHED 1
#else
#define BP_PUSHED 0
#endif

__attribute__((noinline)) static void bp_tell_entry(void) {
    bp_entry = (uintptr_t)__builtin_dwarf_cfa() - BP_PUSHED;
}
#endif

__attribute__((weak)) void bp_port_stack_quiet(void) {
}

__attribute__((weak)) void bp_port_stack_off(void) {
}

__attribute__((weak)) bool bp_port_stack_hit(void) {
    return false;
}

/* Between painting and looking, only the thunk is called. What this function keeps on the stack is
 * above its stack pointer: since it makes calls, it has no red zone (System V AMD64 ABI, 3.2.2). */
BP_PAINTS static void bp_call_painted(bp_painted_t *p) {
    enum { WORD = sizeof(bp_paint_t) };
    p->target->thunk(bp_tell_entry, p->slots);
    uintptr_t sp = bp_stack_pointer() / WORD * WORD;
    uintptr_t bottom = (p->limit + WORD - 1) / WORD * WORD;
    if (sp < bottom) {
        bottom = sp; /* this is not the stack that the port knows: paint nothing */
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
    p->hit = bp_port_stack_hit(); /* also during the search, which takes a while */
    p->bottom = bottom;
    p->lowest = lowest;
}

/* Set-up, call on painted stack and check, guarded as one. */
static void bp_painted(void *context) {
    bp_painted_t *p = context;
    if (p->target->setup != NULL) {
        p->target->setup();
    }
    bp_port_stack_quiet();
    if (p->off) {
        bp_port_stack_off();
    }
    bp_call_painted(p);
    p->failed = p->target->check != NULL ? p->target->check() : 0;
}

/// Time ///

#if BP_CFG_GUARD

/* `ticks` of the port's clock in ms, rounded up. */
static uint32_t bp_ms(uint32_t ticks) {
    uint32_t per_ms = BP_ROM_GET(bp_port_clock.ticks_hz) / 1000;
    return per_ms != 0 ? ticks / per_ms + 1 : ticks * 1000;
}

static uint32_t bp_ticks_since(uint32_t before) {
    uint8_t bits = BP_ROM_GET(bp_port_clock.ticks_bits);
    uint32_t mask = bits < 32 ? ((uint32_t)1 << bits) - 1u : UINT32_MAX;
    return ((uint32_t)bp_port_ticks() - before) & mask;
}

/* The time limit is meant for the function alone. On a slow core, painting and looking may take
 * longer than that. So measure them first with an empty function, and add their time to the limit.
 */
static bool bp_paint_guarded(bp_call_t *call, bp_painted_t *painted) {
    bp_target_t nothing = *painted->target;
    bp_painted_t trial = *painted;
    uint32_t limit = bp_agent.guard_ms;
    if (limit != 0) {
        nothing.fn = bp_tell_entry;
        nothing.setup = NULL;
        nothing.check = NULL;
        trial.target = &nothing;
        bp_agent.guard_ms = 0;
        uint32_t before = (uint32_t)bp_port_ticks();
        if (!bp_guarded(call, bp_painted, &trial)) {
            bp_agent.guard_ms = limit;
            return false;
        }
        uint32_t longer = limit + bp_ms(bp_ticks_since(before));
        bp_agent.guard_ms = longer > limit ? longer : UINT32_MAX;
    }
    bool ended = bp_guarded(call, bp_painted, painted);
    bp_agent.guard_ms = limit;
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
    if (painted.hit) { /* it ends, as was just seen, so it needs no time limit */
        painted.off = true;
        bp_spans_put_back();
        if (!bp_paint_guarded(call, &painted)) {
            return call->err;
        }
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
