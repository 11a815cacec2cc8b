/* SPDX-License-Identifier: Apache-2.0 */
/* USART0 with a receive ring, sleep, and the reset cause. */

#include "bp_avr.h"
#include "bp_avr_timer.h"

/* A test that provokes overruns defines BP_AVR_OVERRUNS. */
#if BP_CFG_RX_BYTES > BP_AVR_RING && !defined(BP_AVR_OVERRUNS)
#error "BP_CFG_RX_BYTES must not be more than BP_AVR_RING: the host sends as many bytes"
#endif

bp_avr_ring_t bp_avr_ring;
volatile uint16_t bp_avr_dropped;

static uint32_t bp_boots __attribute__((section(".noinit")));
static uint8_t bp_cause;

#define BP_MCUSR BP_AVR_BYTE(0x54)
#define BP_SMCR BP_AVR_BYTE(0x53)
#define BP_SMCR_SE 1u /* and mode 0: idle, in which timers and USART continue */

#define BP_UDRE0 0x20u /* the transmitter accepts another byte */

/* MCUSR (DS40002061, 11.9.1) and the cause for each bit. If several are set, the first match wins.
 */
static uint8_t bp_cause_of(uint8_t mcusr) {
    if ((mcusr & 1u) != 0) {
        return BP_RESET_POWER_ON;
    }
    if ((mcusr & 4u) != 0) {
        return BP_RESET_BROWN_OUT;
    }
    if ((mcusr & 8u) != 0) {
        return BP_RESET_WATCHDOG;
    }
    return (mcusr & 2u) != 0 ? BP_RESET_PIN : BP_RESET_UNKNOWN; /* a bootloader clears it */
}

/* A watchdog that a bootloader started, or that has just reset the board, would reset it again. WDE
 * can be cleared only after WDRF, and within four cycles of WDCE (11.9.2). Interrupts are off. */
static void bp_watchdog_off(void) {
    uint8_t change = 0x18; /* WDCE, WDE; WDTCSR is at 0x60 */
    __asm__ volatile("wdr\n\tsts 0x60, %0\n\tsts 0x60, __zero_reg__" : : "r"(change) : "memory");
}

void bp_avr_init(uint16_t baud_divisor) {
    bp_boots++;
    bp_cause = bp_cause_of(BP_MCUSR);
    BP_MCUSR = 0;
    bp_watchdog_off();
    BP_AVR_UCSR0A = 0x02;                 /* U2X0 */
    BP_AVR_WORD(0xc4) = baud_divisor;     /* UBRR0 */
    BP_AVR_UCSR0B = 0x18 | BP_AVR_RXCIE0; /* RXEN0, TXEN0; UCSR0C says 8N1 after a reset */
    bp_avr_timer_init();
    __asm__ volatile("sei" ::: "memory");
}

size_t bp_port_read(uint8_t *buffer, size_t capacity) {
    size_t length = 0;
    uint8_t tail = bp_avr_ring.tail;
    while (length < capacity && tail != bp_avr_ring.head) {
        buffer[length++] = bp_avr_ring.bytes[tail++ % BP_AVR_RING];
    }
    bp_avr_ring.tail = tail;
    return length;
}

bp_avr_flush_t *bp_avr_flush;

void bp_port_write(const uint8_t *buffer, size_t length) {
    if (bp_avr_flush != NULL) {
        bp_avr_flush();
    }
    while (length--) {
        while ((BP_AVR_UCSR0A & BP_UDRE0) == 0) {
        }
        BP_AVR_UDR0 = *buffer++;
    }
}

/* Sleep until the next byte, or wrap of TIMER1. The instruction after SEI runs before any interrupt
 * (Instruction Set Manual, SEI), so a byte that arrives now still ends the sleep. */
void bp_port_idle(void) {
    __asm__ volatile("cli" ::: "memory");
    if (bp_avr_ring.head == bp_avr_ring.tail) {
        BP_SMCR = BP_SMCR_SE;
        __asm__ volatile("sei\n\tsleep" ::: "memory");
        BP_SMCR = 0;
    }
    __asm__ volatile("sei" ::: "memory");
}

uint8_t bp_port_reset_cause(void) {
    return bp_cause;
}

#if BP_CFG_INTERRUPTS

uintptr_t bp_port_mask(void) {
    uint8_t before = BP_AVR_SREG;
    __asm__ volatile("cli" ::: "memory");
    return before;
}

void bp_port_unmask(uintptr_t before) {
    __asm__ volatile("" ::: "memory");
    BP_AVR_SREG = (uint8_t)before;
}

/* TIMER1's interrupt counts its wraps and the guard's limit. In a masked window it stays pending,
 * and bp_arch_timer16_wraps accounts for one wrap during half a lap. Weak: a port with another
 * timer or with bp_port_interrupt defines its own. */
__attribute__((weak)) const bp_port_interrupts_t bp_port_interrupts BP_ROM = {
    .longest_us = BP_AVR_LONGEST_US, .masks_guard = true};

#if defined(__AVR_ATmega640__) || defined(__AVR_ATmega1280__) || defined(__AVR_ATmega1281__) || \
    defined(__AVR_ATmega2560__) || defined(__AVR_ATmega2561__)
#define BP_IS_LARGE 1
#else
#define BP_IS_LARGE 0
#endif

/* The bits that enable an interrupt, without those of this port (DS40002061 and DS40002211,
 * "Register Summary"). A small chip's registers are a part of a large one's. */
static const struct {
    uint16_t address;
    uint8_t bits;
} bp_enables[] BP_ROM = {
    {0x3d, 0xff}, /* EIMSK */
    {0x68, 0x07}, /* PCICR */
    {0x6e, 0x07}, /* TIMSK0 */
    {0x6f, 0x2e}, /* TIMSK1, without TOIE1 */
    {0x70, 0x07}, /* TIMSK2 */
    {0xc1, 0x60}, /* UCSR0B: TXCIE0, UDRIE0; without RXCIE0 */
    {0x3f, 0x08}, /* EECR: EERIE */
    {0x57, 0x80}, /* SPMCSR: SPMIE */
    {0x4c, 0x80}, /* SPCR: SPIE */
    {0xbc, 0x01}, /* TWCR: TWIE */
    {0x7a, 0x08}, /* ADCSRA: ADIE */
    {0x50, 0x08}, /* ACSR: ACIE */
    {0x60, 0x40}, /* WDTCSR: WDIE */
#if BP_IS_LARGE
    {0x71, 0x2f},  /* TIMSK3 */
    {0x72, 0x2f},  /* TIMSK4 */
    {0x73, 0x2f},  /* TIMSK5 */
    {0xc9, 0xe0},  /* UCSR1B: RXCIE1, TXCIE1, UDRIE1 */
    {0xd1, 0xe0},  /* UCSR2B */
    {0x131, 0xe0}, /* UCSR3B */
#endif
};

uint32_t bp_port_enabled_interrupts(void) {
    uint8_t enabled = 0;
    for (uint8_t i = 0; i < sizeof(bp_enables) / sizeof(bp_enables[0]); i++) {
        uint8_t bits = BP_AVR_BYTE(BP_ROM_GET(bp_enables[i].address));
        /* GCC 14 would call libgcc for a loop that clears the lowest bit. */
        for (bits &= BP_ROM_GET(bp_enables[i].bits); bits != 0; bits >>= 1) {
            enabled = (uint8_t)(enabled + (bits & 1u));
        }
    }
    return (BP_AVR_SREG & 0x80u) != 0 ? enabled : 0;
}

#endif

#if BP_CFG_STACK
uint8_t *bp_port_stack_limit(void) {
    return bp_stack_guard_start + BP_AVR_CANARY;
}

static uint32_t bp_quiet_since; /* bp_avr_overflows */
bool bp_avr_is_quiet;

/* The lowest byte of TIMER1's wraps. */
static uint8_t bp_wraps(void) {
    return *(const volatile uint8_t *)&bp_avr_overflows;
}

/* Sleeping is exact to the cycle: a core wakes up in a fixed time (data sheet, 7.7 "Interrupt
 * Response Time"). A loop that polls the timer would see the wrap sooner or later. */
void bp_port_stack_quiet(void) {
    uint8_t before = bp_wraps();
    BP_SMCR = BP_SMCR_SE;
    while (bp_wraps() == before) {
        __asm__ volatile("sleep" ::: "memory"); /* a wrap just before it only costs one more lap */
    }
    BP_SMCR = 0;
    bp_quiet_since = bp_avr_overflows;
}

void bp_port_stack_off(void) {
    bp_avr_is_quiet = true;
    BP_AVR_TIMSK1 = 0;
}

bool bp_port_stack_hit(void) {
    return bp_avr_overflows != bp_quiet_since;
}
#endif

#if BP_CFG_HEAP

/* avr-libc's malloc (its manual, "Memory Areas and Using malloc()"), if the image has it. */
extern char *__brkval __attribute__((weak));
extern char *__malloc_heap_start __attribute__((weak));
extern char *__malloc_heap_end __attribute__((weak));
extern size_t __malloc_margin __attribute__((weak));

/* malloc does not tell anybody that it has no memory left. */
bool bp_port_heap(bp_port_heap_t *out) {
    if (&__brkval == NULL) {
        return false;
    }
    uint16_t begin = (uint16_t)__malloc_heap_start, end = (uint16_t)__malloc_heap_end;
    uint16_t top = __brkval != NULL ? (uint16_t)__brkval : begin;
    if (end == 0) {
        end = (uint16_t)__builtin_frame_address(0) - (uint16_t)__malloc_margin;
    }
    *out = (bp_port_heap_t){.taken = top - begin, .room = end > top ? end - top : 0};
    return true;
}

#endif

/* What the agent itself needs of the stack: its deepest call takes 434 and 470 bytes (GCC 5.4), an
 * interrupt on top 10 and 11. tests/boards/test_agent_stack.py computes them. */
#if defined(__AVR_3_BYTE_PC__)
#define BP_AVR_STACK 512
#else
#define BP_AVR_STACK 464
#endif

/* The least stack that bp_stack.ld leaves. */
#define BP_TEXT(number) #number
#define BP_SYMBOL(name, number) __asm__(".global " name "\n" name " = " BP_TEXT(number))
#if BP_CFG_STACK > BP_AVR_STACK
BP_SYMBOL("bp_stack_least", BP_CFG_STACK);
#else
BP_SYMBOL("bp_stack_least", BP_AVR_STACK);
#endif

/* The count goes into the top bits, which the ticks do not reach at the start of a boot. */
uint32_t bp_port_boot_id(void) {
    return bp_boots << 24 ^ (uint32_t)bp_port_ticks();
}
