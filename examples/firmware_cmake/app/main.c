/* SPDX-License-Identifier: Apache-2.0 */
/* A thermostat with a simulated room: it heats to 21 degrees, in steps of 10 ms. */

#include "boardprof/bp.h"
#include "boardprof/bp_port.h"
#include "control.h"
#include "hal.h"

enum { WANTED = 2100, OUTSIDE = 800 };

static void print(const char *text) {
    while (*text != '\0') {
        uart_put((uint8_t)*text++);
    }
}

static void heat(int32_t *temperature) {
    int32_t power = heater_power(WANTED, *temperature);
    *temperature += 4 * power / 1000 - (*temperature - OUTSIDE) / 512;
}

int main(void) {
    int32_t temperature = OUTSIDE;
    hal_init();
    print("thermostat: heating\r\n");
    bp_port_init();
    bp_init();
    for (uint32_t last = (uint32_t)timer_now();;) {
        if ((uint32_t)timer_now() - last >= TIMER_HZ / 100) {
            last += TIMER_HZ / 100;
            heat(&temperature);
        }
        bp_poll(); /* returns at once when the host is silent */
    }
}
