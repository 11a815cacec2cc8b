/* SPDX-License-Identifier: Apache-2.0 */
/* An ATmega2560 that serves the tests' firmware over USART0: register numbers are of its data sheet
 * (Microchip DS40002211), section 33, in data memory. */

#include "boardprof/bp.h"
#include "boardprof/bp_port.h"
#include "bp_arch.h"
#include "firmware.h"
#include "port_memory.h"

#define TEST_REGISTER(address) (*(volatile uint8_t *)(address))
#define TEST_UCSR0A TEST_REGISTER(0xc0)
#define TEST_UCSR0B TEST_REGISTER(0xc1)
#define TEST_UDR0 TEST_REGISTER(0xc6)
#define TEST_TCCR1B TEST_REGISTER(0x81)
#define TEST_TCNT1 (*(volatile uint16_t *)0x84)

/* The collectors run on these here too, and nobody reads the log. */
uint64_t test_cycles;
uint64_t test_cycles_step = 1;
uint64_t test_instructions;
uint64_t test_instructions_step = 1;

void test_note(char what) {
    (void)what;
}

void bp_port_init(void) {
    TEST_UCSR0B = 1u << 4 | 1u << 3; /* RXEN0, TXEN0 */
    TEST_TCCR1B = 1;                 /* the core's clock, undivided */
}

size_t bp_port_read(uint8_t *buffer, size_t capacity) {
    size_t length = 0;
    while (length < capacity && (TEST_UCSR0A & 1u << 7) != 0) { /* RXC0 */
        buffer[length++] = TEST_UDR0;
    }
    /* QEMU's AVR (7.2 to 10.0) loses its way where a test of a bit skips a RET, as GCC 14 has it
     * here. */
    __asm__ volatile("nop");
    return length;
}

void bp_port_write(const uint8_t *buffer, size_t length) {
    while (length--) {
        while ((TEST_UCSR0A & 1u << 5) == 0) { /* UDRE0 */
        }
        TEST_UDR0 = *buffer++;
    }
}

void bp_port_idle(void) {
}

static const char test_source[] BP_ROM = "TCNT1";

const bp_port_clock_t bp_port_clock BP_ROM = {
    .source = test_source, .ticks_hz = 16000000u, .ticks_bits = 16};

uint64_t bp_port_ticks(void) {
    return TEST_TCNT1;
}

uint32_t bp_port_coarse(void) {
    return 0;
}

/* What the linker has put last: the stack grows down to it. */
uint8_t *bp_port_stack_limit(void) {
    extern uint8_t _end[];
    return _end;
}

uint8_t bp_port_reset_cause(void) {
    return BP_RESET_UNKNOWN;
}

uint32_t bp_port_boot_id(void) {
    return 0;
}

int main(void) {
    bp_port_init();
    bp_serve();
}
