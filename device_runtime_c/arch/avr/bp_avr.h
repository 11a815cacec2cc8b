/* SPDX-License-Identifier: Apache-2.0 */
/* What all boards with a megaAVR share: USART0 with a receive ring, and TIMER1, undivided, as cycle
 * counter, clock and time limit of guarded calls.
 *
 * The registers have the same addresses on ATmega48..328 (Microchip DS40002061, section 30) and
 * ATmega640..2561 (DS40002211, section 33). The vectors differ, so a port names its own:
 *
 *     BP_AVR_OVERFLOW(__vector_13)
 *     BP_AVR_RECEIVE(__vector_18)
 *     BP_AVR_COMPARE(__vector_11)
 *
 * Except while a function is sampled, the first two are the only interrupts. The receiver's is off
 * within guarded calls. So the only interrupt in a measured window is TIMER1's, every 65,536
 * cycles, and the cycles that it takes are known (bp_arch.h). */

#ifndef BP_AVR_H
#define BP_AVR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "boardprof/bp_config.h"
#include "boardprof/bp_port.h"

/* One byte of data memory, and a 16-bit register of a timer. The compiler accesses the halves of
 * such a register in the order that it needs (DS40002061, 16.3). */
#define BP_AVR_BYTE(address) (*(volatile uint8_t *)(address))
#define BP_AVR_WORD(address) (*(volatile uint16_t *)(address))

#define BP_AVR_SREG BP_AVR_BYTE(0x5f)
#define BP_AVR_TIFR1 BP_AVR_BYTE(0x36)
#define BP_AVR_TCNT1 BP_AVR_WORD(0x84)
#define BP_AVR_TIMSK1 BP_AVR_BYTE(0x6f)

/* TIFR1, TIMSK1: TIMER1 has wrapped. */
#define BP_AVR_TOV1 1u

#define BP_AVR_UCSR0A BP_AVR_BYTE(0xc0)
#define BP_AVR_UCSR0B BP_AVR_BYTE(0xc1)
#define BP_AVR_UDR0 BP_AVR_BYTE(0xc6)
#define BP_AVR_DOR0 0x08u /* in UCSR0A: a byte was lost before the one that is read next */

/* Define the vector of TIMER1's overflow or of USART0's receiver. Its name is the one in avr-libc's
 * start-up code. */
#define BP_AVR_OVERFLOW(vector)                       \
    void vector(void) __attribute__((naked, used));   \
    void vector(void) {                               \
        __asm__ volatile("%~jmp bp_avr_overflow" ::); \
    }
#define BP_AVR_RECEIVE(vector)                       \
    void vector(void) __attribute__((signal, used)); \
    void vector(void) {                              \
        bp_avr_receive();                            \
    }

/* The same for TIMER1's compare match A, which interrupts a function that is sampled. */
#if BP_CFG_SAMPLING
#define BP_AVR_COMPARE(vector)                       \
    void vector(void) __attribute__((naked, used));  \
    void vector(void) {                              \
        __asm__ volatile("%~jmp bp_avr_compare" ::); \
    }
void bp_avr_compare(void); /* not a function to call */
#else
#define BP_AVR_COMPARE(vector)
#endif

/* The handler of TIMER1's overflow; not a function to call. */
void bp_avr_overflow(void);

/* Bytes of the receive ring, a power of two up to 128, since its indices are bytes. */
#ifndef BP_AVR_RING
#define BP_AVR_RING 64
#endif

_Static_assert(BP_AVR_RING <= 128 && (BP_AVR_RING & (BP_AVR_RING - 1)) == 0,
               "BP_AVR_RING is out of range");

typedef struct {
    uint8_t bytes[BP_AVR_RING];
    volatile uint8_t head; /* of the next byte to be stored, modulo 256 */
    volatile uint8_t tail; /* of the next byte to be taken */
} bp_avr_ring_t;

extern bp_avr_ring_t bp_avr_ring;

/* Bytes that arrived while the ring, and then the USART's own two bytes, were full. */
extern volatile uint16_t bp_avr_dropped;

/* Store a received byte. Inline, so that the vector saves only the registers that this needs. */
__attribute__((always_inline)) static inline void bp_avr_receive(void) {
    uint8_t head = bp_avr_ring.head;
    uint8_t lost = BP_AVR_UCSR0A & BP_AVR_DOR0;
    uint8_t byte = BP_AVR_UDR0;
    if (lost != 0) {
        bp_avr_dropped++; /* at least one */
    }
    if ((uint8_t)(head - bp_avr_ring.tail) == BP_AVR_RING) {
        bp_avr_dropped++;
        return;
    }
    bp_avr_ring.bytes[head % BP_AVR_RING] = byte;
    bp_avr_ring.head = (uint8_t)(head + 1);
}

/* Bytes below the stack that no call may write (bp_avr_guard.c); bp_stack.ld has the same number.
 */
enum { BP_AVR_CANARY = 16 };

/* Called before anything is sent, unless NULL: sends what stdout holds back (libc/bp_avr_stdio.c).
 */
typedef void bp_avr_flush_t(void);
extern bp_avr_flush_t *bp_avr_flush;

/* bp_port_init of the board: USART0 at 8N1 with a divisor for double speed (UBRR0, "U2X0 = 1"),
 * TIMER1, and interrupts on. Saves the reset cause and clears it in MCUSR. This folder defines
 * everything else that a port must define, except bp_port_clock. */
void bp_avr_init(uint16_t baud_divisor);

/* For bp_port_interrupts.longest_us: half a lap of TIMER1 at 20 MHz, the fastest of these chips. */
#define BP_AVR_LONGEST_US (0x8000u / 20u)

/* For bp_port_clock: cycles of the core's clock. */
#define BP_AVR_TICKS_BITS 48
extern const char bp_avr_clock_source[]; /* in BP_ROM */

/* How often TIMER1's interrupt has run. */
extern volatile uint32_t bp_avr_overflows;

#endif
