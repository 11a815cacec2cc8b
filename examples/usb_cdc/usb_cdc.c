/* SPDX-License-Identifier: Apache-2.0 */
/* The line to the host through USB: two functions of bp_port.h on TinyUSB's CDC interface 0. The
 * firmware has the descriptors, calls tusb_init() in bp_port_init, and defines the rest of
 * bp_port.h. */

#include "tusb.h"

#include "boardprof/bp_port.h"

size_t bp_port_read(uint8_t *buffer, size_t capacity) {
    tud_task_ext(0, false); /* tud_task() would wait for ever in an RTOS */
    return tud_cdc_read(buffer, (uint32_t)capacity);
}

/* Waits a second at most, by a tick counter of 32 bits or more. What is left then is lost, and the
 * host asks again. */
void bp_port_write(const uint8_t *buffer, size_t length) {
    uint32_t begin = (uint32_t)bp_port_ticks();
    while (tud_cdc_connected() && (uint32_t)bp_port_ticks() - begin <= bp_port_clock.ticks_hz) {
        uint32_t taken = tud_cdc_write(buffer, (uint32_t)length);
        buffer += taken;
        length -= taken;
        tud_cdc_write_flush();
        tud_task_ext(0, false);
        if (length == 0 && tud_cdc_write_available() == CFG_TUD_CDC_TX_BUFSIZE) {
            return; /* all is in the endpoint: no interrupt but its last one is pending */
        }
    }
}
