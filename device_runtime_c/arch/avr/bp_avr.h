/* SPDX-License-Identifier: Apache-2.0 */
/* What a board with a megaAVR has in common with every other: USART0 with a receive ring, and
 * TIMER1, undivided, as cycle counter, clock and time limit of guarded calls.
 *
 * The registers stand at the same addresses on ATmega48..328 (Microchip DS40002061, section 30) and
 * ATmega640..2561 (DS40002211, section 33); vectors do not, so a port names its own:
 *
 *     BP_AVR_OVERFLOW(__vector_13)
 *     BP_AVR_RECEIVE(__vector_18)
 *
 * Interrupts: both of the above. The receiver's is off within guarded calls, so that in a measured
 * window there is none but TIMER1's, every 65,536 cycles; what it takes of the window is known
 * (bp_arch.h). */

#ifndef BP_AVR_H
#define BP_AVR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "boardprof/bp_config.h"
#include "boardprof/bp_port.h"

/* One byte of data memory, and a 16-bit register of a timer, whose halves the compiler reads and
 * writes in the order that it needs (DS40002061, 16.3). */
#define BP_AVR_BYTE(address) (*(volatile uint8_t *)(address))
#define BP_AVR_WORD(address) (*(volatile uint16_t *)(address))

#define BP_AVR_SREG BP_AVR_BYTE(0x5f)
#define BP_AVR_TIFR1 BP_AVR_BYTE(0x36)
#define BP_AVR_TCNT1 BP_AVR_WORD(0x84)

/* TIFR1, TIMSK1: TIMER1 has wrapped. */
#define BP_AVR_TOV1 1u

#define BP_AVR_UCSR0A BP_AVR_BYTE(0xc0)
#define BP_AVR_UCSR0B BP_AVR_BYTE(0xc1)
#define BP_AVR_UDR0 BP_AVR_BYTE(0xc6)
#define BP_AVR_DOR0 0x08u /* in UCSR0A: a byte was lost before the one that is read next */

/* Make a vector, which has the name that avr-libc's start-up code gives it, TIMER1's overflow or
 * USART0's receiver. */
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

/* The first one's handler: no function to call. */
void bp_avr_overflow(void);

/* Bytes of the receive ring, a power of two up to 128: its indices are bytes. */
#ifndef BP_AVR_RING
#define BP_AVR_RING 64
#endif

_Static_assert(BP_AVR_RING <= 128 && (BP_AVR_RING & (BP_AVR_RING - 1)) == 0,
               "BP_AVR_RING is out of range");

typedef struct {
    uint8_t bytes[BP_AVR_RING];
    volatile uint8_t head; /* of the next byte to come, modulo 256 */
    volatile uint8_t tail; /* of the next one to be taken */
} bp_avr_ring_t;

extern bp_avr_ring_t bp_avr_ring;

/* Bytes that came while the ring, and then the USART's own two, were full. */
extern volatile uint16_t bp_avr_dropped;

/* A byte has come. Inline, so that the vector saves no more registers than this takes. */
__attribute__((always_inline)) static inline void bp_avr_receive(void) {
    uint8_t head = bp_avr_ring.head;
    uint8_t lost = BP_AVR_UCSR0A & BP_AVR_DOR0;
    uint8_t byte = BP_AVR_UDR0;
    if (lost != 0) {
        bp_avr_dropped++; /* one at least */
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

/* bp_port_init: USART0 at 8N1 with a divisor for double speed (UBRR0, "U2X0 = 1"), TIMER1, and
 * interrupts on. Notes why the board has started, and takes it out of MCUSR. All else that a board
 * owes is in this folder, but for bp_port_clock. */
void bp_avr_init(uint16_t baud_divisor);

/* For bp_port_clock: cycles of the core's clock. */
#define BP_AVR_TICKS_BITS 48
extern const char bp_avr_clock_source[]; /* in BP_ROM */

/* How often TIMER1's interrupt has run. */
extern volatile uint32_t bp_avr_overflows;

#endif
