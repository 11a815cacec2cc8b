/* SPDX-License-Identifier: Apache-2.0 */
/* What a board owes the agent: eight functions and one constant; another function where calls are
 * guarded, one where their stack is measured, and two and a constant where windows may be masked. A
 * board's port.c defines them all.
 *
 * They are called from main, bp_init(), bp_poll() and bp_serve(), never from an interrupt. None may
 * use the heap. The two that read a clock are called inside measured windows: keep them short and
 * of constant length. */

#ifndef BOARDPROF_BP_PORT_H
#define BOARDPROF_BP_PORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "boardprof/bp_config.h"
#include "boardprof/bp_wire.h"

/// Start ///

/* Bring up clocks, the line to the host and the tick counter.
 * Required: always.  Context: once, from main, before anything else. */
void bp_port_init(void);

/// The line to the host ///

/* Take bytes that have arrived. Must not block.
 * Required: always.  Context: bp_poll.  Unit: bytes.
 * Returns how many were stored at `buffer`, 0..capacity; 0 when none are waiting.
 * Example: a UART without interrupts returns at most the bytes of its FIFO. */
size_t bp_port_read(uint8_t *buffer, size_t capacity);

/* Send bytes. May wait for the hardware; for the host only with a deadline. When it returns,
 * `buffer` is the caller's again, and the core has nothing left to do for it, in no interrupt
 * either: a measured window may come next.
 * Required: always.  Context: bp_poll, and between samples of a measurement.  Unit: bytes.
 * Example: `while (length--) { while (UART_FULL) {} UART_DATA = *buffer++; }` */
void bp_port_write(const uint8_t *buffer, size_t length);

/* Nothing has arrived: wait for the next byte, or return at once.
 * Required: always, may be empty.  Context: bp_serve.
 * Example: `__asm__ volatile("wfi")` where the UART's interrupt wakes the core. */
void bp_port_idle(void);

/// Clocks ///

/* The fastest free-running counter with a known rate, counting up from any value.
 * Required: always; return 0 where `bp_port_clock.ticks_hz` is 0.  Context: measured windows.
 * Unit: 1 / bp_port_clock.ticks_hz seconds, modulo 2^bp_port_clock.ticks_bits.
 * Example: a down-counting timer returns `0xffffffffu - TIMER->VALUE`. */
uint64_t bp_port_ticks(void);

/* A slower clock that tells how often the fast one wrapped; 32 bits, counting up.
 * Required: always; return 0 where `bp_port_clock.coarse_hz` is 0.  Context: measured windows.
 * Unit: 1 / bp_port_clock.coarse_hz seconds. */
uint32_t bp_port_coarse(void);

/* What the two clocks are. */
typedef struct {
    const char *source;  /* in BP_ROM; the register or call behind bp_port_ticks, for people */
    uint32_t ticks_hz;   /* rate of bp_port_ticks, 0: there is none */
    uint32_t coarse_hz;  /* rate of bp_port_coarse, 0: there is none; at least 2 ticks a wrap */
    uint8_t ticks_bits;  /* width of bp_port_ticks, 8..64 */
    bool ticks_in_sleep; /* bp_port_ticks goes on while the core sleeps */
} bp_port_clock_t;

extern const bp_port_clock_t bp_port_clock; /* declare it BP_ROM */

/// Resets ///

/* Why the board last started: one of enum bp_reset_cause.
 * Required: always; BP_RESET_UNKNOWN is an honest answer.  Context: HELLO. */
uint8_t bp_port_reset_cause(void);

/* A number that differs from that of the boot before: entropy, or a counter in RAM that start-up
 * code leaves alone. Required: always.  Context: once, at the first HELLO. */
uint32_t bp_port_boot_id(void);

/// Guarded calls ///

#if BP_CFG_GUARD

/* What ended a guarded call. */
typedef struct {
    uint64_t pc;      /* of the instruction, in the terms of the image's ELF file; 0: not known */
    uint64_t address; /* what BP_FAULT_BAD_ADDRESS and BP_FAULT_MISALIGNED touched; 0: not known */
    uint8_t cause;    /* enum bp_fault_cause; BP_FAULT_NONE: the body returned */
} bp_fault_t;

/* Call body(context), and come back whatever happens in it: by its return, by a fault (bad address,
 * illegal instruction, ...), or after `timeout_ms` of the board's clock (0: no limit) with
 * BP_FAULT_TIME_OUT. Then the stack is as it was, interrupts are as before, and the timer is off.
 * Calls do not nest. While the body runs within its time, nothing may interrupt it: it contains
 * measured windows.
 * Required: with BP_CFG_GUARD.  Context: bp_poll.  Unit: ms. */
void bp_port_guard(void (*body)(void *context), void *context, uint32_t timeout_ms,
                   bp_fault_t *fault);

#endif

/// Fences ///

#if BP_CFG_ARENA_MARGIN

/* Make the whole pages within these bytes inaccessible, for good; may be called again.
 * Required: with BP_CFG_ARENA_MARGIN.  Context: HELLO.  Unit: bytes.
 * Example: `mprotect(first_page, pages * PAGE, PROT_NONE)`. */
void bp_port_fence(uint8_t *begin, size_t length);

#endif

/// Stack ///

#if BP_CFG_STACK

/* The lowest address that belongs to the stack the agent runs on: all from there up to the stack
 * pointer may be written. NULL: not known; then no stack is measured.
 * Required: with BP_CFG_STACK.  Context: bp_poll, outside guarded calls.
 * Example: `return (uint8_t *)bp_noinit_end;`, which link.ld sets, where nothing else grows there.
 */
uint8_t *bp_port_stack_limit(void);

/* Wait until the next interrupt is as far away as it can be: the call on painted stack comes next.
 * A port whose clock interrupts on the stack of the function needs it, so that a call is
 * interrupted at the same place each time, or not at all. Optional: the agent's own, which is weak,
 * returns at once.  Context: guarded calls.
 */
void bp_port_stack_quiet(void);

#endif

/// Interrupts ///

#if BP_CFG_INTERRUPTS

/* Let no interrupt run before bp_port_unmask; the guard's timer may be left out, and should be
 * where the core can. They wait meanwhile, and run then.
 * Required: with BP_CFG_INTERRUPTS.  Context: right before and after measured windows, in guarded
 * calls, which may end between the two.
 * Returns what bp_port_unmask needs to bring back what was before.
 * Example: arch/cortex_m/bp_arch_mask.h and its like in the other folders define both. */
uintptr_t bp_port_mask(void);
void bp_port_unmask(uintptr_t before);

/* What there is to know of the board's interrupts. */
typedef struct {
    uint32_t timer_us;   /* between two interrupts of a timer, if its handler's time is in what
                          * collectors count; 0: no such timer is known */
    uint32_t longest_us; /* longest masked window that the board's clocks survive: they may count
                          * their wraps in an interrupt; 0: any */
    uint32_t bound_ns;   /* most that one interrupt takes outside of its hooks; 0: not known */
    bool masks_guard;    /* bp_port_mask holds the guard's timer back, too */
    bool triggers;       /* there is a bp_port_interrupt */
} bp_port_interrupts_t;

extern const bp_port_interrupts_t bp_port_interrupts; /* declare it BP_ROM */

#if BP_CFG_INTERRUPTS > 1

/* Trigger an interrupt whose handler calls bp_isr_enter and bp_isr_exit and nothing else, so that
 * it has run when this returns; if interrupts are masked, it runs as soon as they are not.
 * Optional, see `triggers`; the agent's own, which is weak, does nothing.
 * Context: measured windows of the host's calibration.
 * Example: `SCB->ICSR = SCB_ICSR_PENDSVSET_Msk; __DSB(); __ISB();` where no one else uses PendSV.
 */
void bp_port_interrupt(void);

#endif

#endif

#endif
