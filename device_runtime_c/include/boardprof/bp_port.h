/* SPDX-License-Identifier: Apache-2.0 */
/* What a board's port.c must define: eight functions and a constant, and a few more for some of the
 * options in bp_config.h.
 *
 * The agent calls them from main, bp_init(), bp_poll() and bp_serve(), never from an interrupt.
 * They must not use the heap. bp_port_ticks and bp_port_coarse are called inside measured windows:
 * they should be short and always take the same time. */

#ifndef BOARDPROF_BP_PORT_H
#define BOARDPROF_BP_PORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "boardprof/bp_config.h"
#include "boardprof/bp_wire.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Start ///

/* Initialise the clocks, the line to the host and the tick counter.
 * Required: always.  Context: once, from main, before anything else. */
void bp_port_init(void);

/// The line to the host ///

/* Take bytes that have arrived. Must not block.
 * Required: without BP_CFG_RTT.  Context: bp_poll.  Unit: bytes.
 * Returns how many were stored at `buffer`, 0..capacity; 0 when none are waiting.
 * Example: a UART without interrupts returns at most the bytes of its FIFO. */
size_t bp_port_read(uint8_t *buffer, size_t capacity);

/* Send bytes. May wait as long as the line takes for them. If the host can stop the line (flow
 * control, USB), wait for it at most for a second, and drop the rest: the host asks again. When it
 * returns, the caller may reuse `buffer`, and no interrupt for it may be pending: a measured window
 * may follow.
 * Required: without BP_CFG_RTT.  Context: bp_poll, and between samples of a measurement.
 * Unit: bytes.
 * Example: `while (length--) { while (UART_FULL) {} UART_DATA = *buffer++; }` */
void bp_port_write(const uint8_t *buffer, size_t length);

/* Wait for the next byte, or return at once. Called when nothing has arrived.
 * Required: always, may be empty.  Context: bp_serve.
 * Example: `__asm__ volatile("wfi")` where the UART's interrupt wakes the core. */
void bp_port_idle(void);

/* The agent is at work: kick a watchdog here. Its period must be longer than one round of a
 * measured function, which is its set-up, the calls of a sample, and its check.
 * Optional: the agent has a weak definition that does nothing.
 * Context: bp_serve, and before each round of a measurement. */
void bp_port_alive(void);

/// Clocks ///

/* The fastest free-running counter with a known rate. It counts up from any value.
 * Required: always; return 0 where `bp_port_clock.ticks_hz` is 0.  Context: measured windows.
 * Unit: 1 / bp_port_clock.ticks_hz seconds, modulo 2^bp_port_clock.ticks_bits.
 * Example: a down-counting timer returns `0xffffffffu - TIMER->VALUE`. */
uint64_t bp_port_ticks(void);

/* A slower clock of 32 bits that counts up. The host uses it to find out how often bp_port_ticks
 * has wrapped.
 * Required: always; return 0 where `bp_port_clock.coarse_hz` is 0.  Context: measured windows.
 * Unit: 1 / bp_port_clock.coarse_hz seconds. */
uint32_t bp_port_coarse(void);

/* Whether bp_port_ticks still counts at its rate. If not, because a function has changed its timer,
 * restore it.
 * Optional: the agent has a weak definition that returns true.  Context: between measured windows.
 * Example: `TIMER->CTRL == ON || (clock_init(), false)`. */
bool bp_port_clock_intact(void);

/* Describes the two clocks. */
typedef struct {
    const char *source;  /* in BP_ROM; the register or call that bp_port_ticks reads, for people */
    uint32_t ticks_hz;   /* rate of bp_port_ticks; 0: there is none */
    uint32_t coarse_hz;  /* rate of bp_port_coarse; 0: there is none; at least 2 in each wrap of
                          * bp_port_ticks */
    uint8_t ticks_bits;  /* width of bp_port_ticks, 8..64 */
    bool ticks_in_sleep; /* bp_port_ticks counts while the core sleeps */
} bp_port_clock_t;

extern const bp_port_clock_t bp_port_clock; /* declare it BP_ROM */

/// Resets ///

/* Why the board last started: one of enum bp_reset_cause.
 * Required: always; BP_RESET_UNKNOWN if it is not known.  Context: HELLO. */
uint8_t bp_port_reset_cause(void);

/* A number that differs from boot to boot: entropy, or a counter in RAM that start-up code does not
 * clear. Required: always.  Context: once, at the first HELLO. */
uint32_t bp_port_boot_id(void);

/// Guarded calls ///

#if BP_CFG_GUARD

/* What ended a guarded call. */
typedef struct {
    uint64_t pc;      /* of the instruction, as in the image's ELF file; 0: not known */
    uint64_t address; /* accessed by BP_FAULT_BAD_ADDRESS or BP_FAULT_MISALIGNED; 0: not known */
    uint8_t cause;    /* enum bp_fault_cause; BP_FAULT_NONE: the body returned */
} bp_fault_t;

/* Call body(context) and report how it ended: it returned, it faulted (bad address, illegal
 * instruction, ...), or `timeout_ms` of the board's clock have passed (BP_FAULT_TIME_OUT; 0: no
 * limit). Afterwards the stack pointer and the interrupt mask are as before, and the timer is off.
 * Calls do not nest. Until the timeout nothing may interrupt the body, since it contains measured
 * windows.
 * Required: with BP_CFG_GUARD.  Context: bp_poll.  Unit: ms. */
void bp_port_guard(void (*body)(void *context), void *context, uint32_t timeout_ms,
                   bp_fault_t *fault);

#endif

/// Fences ///

#if BP_CFG_ARENA_MARGIN

/* Make all pages that lie completely in these bytes inaccessible, permanently. May be called again.
 * Required: with BP_CFG_ARENA_MARGIN.  Context: HELLO.  Unit: bytes.
 * Example: `mprotect(first_page, pages * PAGE, PROT_NONE)`. */
void bp_port_fence(uint8_t *begin, size_t length);

#endif

/// Stack ///

#if BP_CFG_STACK

/* The lowest address of the stack that the agent runs on. Everything from there up to the stack
 * pointer may be overwritten. NULL if it is not known; then no stack is measured.
 * Required: with BP_CFG_STACK.  Context: bp_poll, outside guarded calls.
 * Example: `return (uint8_t *)bp_noinit_end;`, which link.ld sets, if nothing else grows there. */
uint8_t *bp_port_stack_limit(void);

/* Wait until the next interrupt is as far away as possible, right before a call whose stack is
 * measured. A port needs these three if its clock interrupt uses the function's stack.
 * Optional: the agent has weak definitions that do nothing and return false.
 * Context: guarded calls. */
void bp_port_stack_quiet(void);
/* The same, and no interrupt of the port comes until the guarded call ends. It has no time limit.
 */
void bp_port_stack_off(void);
/* Whether the port's interrupt has come since. The call is then made once more, with it off. */
bool bp_port_stack_hit(void);

#endif

/// The heap of the C library ///

#if BP_CFG_HEAP

typedef struct {
    uint32_t taken;   /* bytes that malloc holds; they may include blocks that were given back */
    uint32_t refused; /* how often it could get no more */
    uint32_t room;    /* bytes that it can still get, if refusals are not counted; else the largest
                       * number */
} bp_port_heap_t;

/* Describe the heap as it is now. Returns whether there is one.
 * Optional: the files in libc/ define it, and the agent has a weak definition that returns false.
 * Context: between measured windows.
 * Example: FreeRTOS: `taken` is configTOTAL_HEAP_SIZE - xPortGetFreeHeapSize(), and
 * vApplicationMallocFailedHook counts `refused`. */
bool bp_port_heap(bp_port_heap_t *out);

#endif

/// Interrupts ///

#if BP_CFG_INTERRUPTS

/* Mask interrupts until bp_port_unmask. They stay pending and run then. If the core can, leave the
 * guard's timer unmasked; otherwise a masked function that hangs is never stopped.
 * Required: with BP_CFG_INTERRUPTS.  Context: right before and after measured windows, in guarded
 * calls; such a call may be ended between the two.
 * Returns the mask as it was, for bp_port_unmask.
 * Example: bp_arch_mask.h in arch/cortex_m and in the other folders defines both. */
uintptr_t bp_port_mask(void);
void bp_port_unmask(uintptr_t before);

/* How many sources of interrupts are enabled now, besides those of the port itself.
 * Optional: bp_arch_mask.h of Cortex-M and RISC-V, and bp_avr.c, define it; the agent has a weak
 * definition that returns 0.  Context: bp_poll, and guarded calls right before measured windows. */
uint32_t bp_port_enabled_interrupts(void);

/* Describes the board's interrupts to the host. */
typedef struct {
    uint32_t timer_us;   /* period of a timer interrupt that windows count; 0 if not known */
    uint32_t longest_us; /* longest masked window before a clock loses a wrap that an interrupt
                          * counts; 0: no limit */
    uint32_t bound_ns;   /* most that one interrupt takes outside of its hooks; 0: not known */
    bool masks_guard;    /* bp_port_mask masks the guard's timer, too */
    bool triggers;       /* bp_port_interrupt is defined */
} bp_port_interrupts_t;

extern const bp_port_interrupts_t bp_port_interrupts; /* declare it BP_ROM */

#if BP_CFG_INTERRUPTS > 1

/* Trigger an interrupt whose handler only calls bp_isr_enter and bp_isr_exit. The interrupt has run
 * when this returns. If interrupts are masked, it runs as soon as they are not.
 * Optional, see `triggers`: the agent has a weak definition that does nothing.
 * Context: measured windows of the host's calibration.
 * Example: `SCB->ICSR = SCB_ICSR_PENDSVSET_Msk; __DSB(); __ISB();` if nothing else uses PendSV. */
void bp_port_interrupt(void);

#endif

#endif

/// The marker ///

#if BP_CFG_MARKER

/* Set a pin high, or low again. Make it an output in bp_port_init, low.
 * Required: with BP_CFG_MARKER.  Context: right before the counters of a measured window are read
 * first, and right after they are read last; low again after a guarded call that was ended.
 * Example: `GPIOA->BSRR = raised ? 1u << 5 : 1u << 21`. */
void bp_port_marker(bool raised);

#endif

/// Sampling ///

#if BP_CFG_SAMPLING

/* Describes the timer that interrupts a function whose time is sampled. */
typedef struct {
    const char *source; /* in BP_ROM; its name, for people */
    uint32_t least;     /* shortest delay, ticks, 1 or more: then the function runs again */
    uint32_t most;      /* longest one */
    uint32_t usual;     /* a third of the usual delay, ticks: much longer than the handler */
    uint16_t dither;    /* instructions in a tick, at least; 0 if a tick is not longer than one */
} bp_port_sampling_t;

extern const bp_port_sampling_t bp_port_sampling; /* declare it BP_ROM */

/* Raise an interrupt in `ticks` of the timer. Its handler calls bp_sample_take, and does the same
 * again with what that returns, until bp_port_sample_stop. The guard's limit still ends the call.
 * Required: with BP_CFG_SAMPLING.  Context: guarded calls, right before the function.
 * Example: `SYST_RVR = ticks; SYST_CVR = 0; SYST_CSR = 7;` and a handler that does this again. */
void bp_port_sample_start(uint32_t ticks);

/* Stop the timer. Does nothing if it is off.
 * Required: with BP_CFG_SAMPLING.  Context: right after the function, or after its guarded call. */
void bp_port_sample_stop(void);

/* An address of code: on AVR it may have more bits than a pointer. */
#if UINTPTR_MAX > 0xffffffffu
typedef uint64_t bp_code_t;
#else
typedef uint32_t bp_code_t;
#endif

/* Keep a sample: the program counter and the stack pointer that the interrupt found. Returns in how
 * many ticks the next one is due, counted from the end of the handler. Uses about 64 bytes of stack
 * (128 with 64-bit pointers), and no floating-point register.
 * Context: the timer's interrupt. */
uint32_t bp_sample_take(bp_code_t pc, uintptr_t sp);

/* Spend a random time of up to about a tick. Where a tick has many instructions, samples would
 * otherwise always hit the same places of a loop whose length divides a tick's.
 * Context: the timer's interrupt, once the next one is armed, if `dither` is not 0. */
void bp_sample_dither(void);

#endif

#ifdef __cplusplus
}
#endif

#endif
