/* SPDX-License-Identifier: Apache-2.0 */
/* ESP32-C3: UART0 as set up by the ROM (115200 baud), and the system timer.
 *
 * ESP32-C3 Technical Reference Manual, cited by chapter name; base addresses: "System and Memory".
 * Built but not run yet: nothing here is verified on a chip. */

#include "boardprof/bp.h"
#include "boardprof/bp_port.h"
#include "bp_arch_mask.h"

#define BP_REG(address) (*(volatile uint32_t *)(address))

/* "UART Controller (UART)". */
#define BP_UART_FIFO BP_REG(0x60000000u)
#define BP_UART_STATUS BP_REG(0x6000001cu) /* bytes: received in bits 9:0, to be sent in 25:16 */

/* "System Timer (SYSTIMER)": unit 0 counts at 16 MHz, from reset on. */
#define BP_SYSTIMER_OP BP_REG(0x60023004u)
#define BP_SYSTIMER_HIGH BP_REG(0x60023040u)
#define BP_SYSTIMER_LOW BP_REG(0x60023044u)
#define BP_SYSTIMER_UPDATE (1u << 30)
#define BP_SYSTIMER_VALID (1u << 29)

/* "Watchdog Timers (WDT)": the ones that the ROM starts. Registers: "Timer Group (TIMG)" and
 * "Low-power Management". */
#define BP_TIMG0_WDT_CONFIG BP_REG(0x6001f048u)
#define BP_TIMG0_WDT_PROTECT BP_REG(0x6001f064u)
#define BP_RTC_WDT_CONFIG BP_REG(0x60008090u)
#define BP_RTC_WDT_PROTECT BP_REG(0x600080a8u)
#define BP_SUPER_WDT_CONFIG BP_REG(0x600080acu)
#define BP_SUPER_WDT_PROTECT BP_REG(0x600080b0u)
#define BP_TIMG_WDT_TAKE_OVER (1u << 22) /* WDT_CONF_UPDATE_EN: makes the new value take effect */
#define BP_WDT_KEY 0x50d83aa1u
#define BP_SUPER_WDT_KEY 0x8f1d312au
#define BP_SUPER_WDT_FEEDS_ITSELF (1u << 31)

#define BP_RESET_STATE (BP_REG(0x60008038u) & 63u) /* "Reset and Clock" */

static uint32_t bp_boots __attribute__((section(".noinit")));

static void bp_watchdogs_off(void) {
    BP_TIMG0_WDT_PROTECT = BP_WDT_KEY;
    BP_TIMG0_WDT_CONFIG = BP_TIMG_WDT_TAKE_OVER; /* all other bits 0: off */
    BP_RTC_WDT_PROTECT = BP_WDT_KEY;
    BP_RTC_WDT_CONFIG = 0;
    BP_SUPER_WDT_PROTECT = BP_SUPER_WDT_KEY;
    BP_SUPER_WDT_CONFIG |= BP_SUPER_WDT_FEEDS_ITSELF;
}

void bp_port_init(void) {
    bp_watchdogs_off();
    bp_boots++;
}

size_t bp_port_read(uint8_t *buffer, size_t capacity) {
    size_t length = 0;
    while (length < capacity && (BP_UART_STATUS & 0x3ffu) != 0) {
        buffer[length++] = (uint8_t)BP_UART_FIFO;
    }
    return length;
}

void bp_port_write(const uint8_t *buffer, size_t length) {
    while (length--) {
        while ((BP_UART_STATUS >> 16 & 0x3ffu) >= 127) {
        }
        BP_UART_FIFO = *buffer++;
    }
}

void bp_port_idle(void) {
}

static const char bp_clock_source[] BP_ROM = "SYSTIMER unit 0";

const bp_port_clock_t bp_port_clock BP_ROM = {
    .source = bp_clock_source,
    .ticks_hz = 16000000,
    .ticks_bits = 52,
};

/* The value is updated on request, within a tick or two. The loop is bounded all the same. */
uint64_t bp_port_ticks(void) {
    BP_SYSTIMER_OP = BP_SYSTIMER_UPDATE;
    for (uint32_t i = 0; i < 100 && (BP_SYSTIMER_OP & BP_SYSTIMER_VALID) == 0; i++) {
    }
    return (uint64_t)BP_SYSTIMER_HIGH << 32 | BP_SYSTIMER_LOW;
}

uint32_t bp_port_coarse(void) {
    return 0;
}

#if BP_CFG_INTERRUPTS
const bp_port_interrupts_t bp_port_interrupts BP_ROM = {.masks_guard = false};
#endif

uint8_t bp_port_reset_cause(void) {
    switch (BP_RESET_STATE) {
    case 0x01:
        return BP_RESET_POWER_ON;
    case 0x03:
    case 0x0c:
        return BP_RESET_SOFTWARE;
    case 0x07:
    case 0x08:
    case 0x09:
    case 0x0b:
    case 0x0d:
    case 0x10:
    case 0x11:
    case 0x12:
        return BP_RESET_WATCHDOG;
    case 0x0f:
        return BP_RESET_BROWN_OUT;
    default:
        return BP_RESET_UNKNOWN;
    }
}

/* The factor (2^32 / golden ratio) spreads the count over all bits. */
uint32_t bp_port_boot_id(void) {
    return bp_boots * 0x9e3779b1u ^ (uint32_t)bp_port_ticks();
}

#if BP_CFG_STACK

extern uint8_t bp_noinit_end[];

uint8_t *bp_port_stack_limit(void) {
    return bp_noinit_end;
}

#endif
