/* SPDX-License-Identifier: Apache-2.0 */
/* The line to the host is Arduino's Serial, so that a sketch may print to it, too. Its receive
 * buffer of 64 bytes is all that the host may send at once (BP_CFG_RX_BYTES). */

#include <Arduino.h>

#include "boardprof/bp_port.h"

extern "C" void bp_arduino_init(void);

void bp_port_init(void) {
    Serial.begin(115200);
    bp_arduino_init();
}

size_t bp_port_read(uint8_t *buffer, size_t capacity) {
    size_t length = 0;
    while (length < capacity && Serial.available() > 0) {
        buffer[length++] = (uint8_t)Serial.read();
    }
    return length;
}

/* Waits for the last byte, so that no interrupt of it comes into a window. */
void bp_port_write(const uint8_t *buffer, size_t length) {
    Serial.write(buffer, length);
    Serial.flush();
}

/* bp_poll is called from loop(), which does not wait. */
void bp_port_idle(void) {
}

static uint32_t boots __attribute__((section(".noinit")));

uint32_t bp_port_boot_id(void) {
    return (++boots << 24) ^ micros();
}

/* A bootloader has cleared it. */
uint8_t bp_port_reset_cause(void) {
    return BP_RESET_UNKNOWN;
}
