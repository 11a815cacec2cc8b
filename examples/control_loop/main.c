/* SPDX-License-Identifier: Apache-2.0 */
/* An interrupt takes a reading in each millisecond. The main loop runs the controller on eight of
 * them, and the agent in between. */

#include "boardprof/bp.h"
#include "boardprof/bp_port.h"
#include "boardprof/bp_trace.h"
#include "control.h"
#include "hal.h"

#define SYST_CSR (*(volatile uint32_t *)0xe000e010u) /* DDI 0403E, B3.3 */
#define SYST_RVR (*(volatile uint32_t *)0xe000e014u)
#define SYST_CVR (*(volatile uint32_t *)0xe000e018u)

static volatile int16_t taken[2][BATCH]; /* one half is filled while the other one is used */
static volatile uint32_t count;

void systick(void) {
    BP_ISR_ENTER(sample);
    uint32_t at = count;
    taken[at / BATCH % 2][at % BATCH] = sensor_read();
    count = at + 1;
    BP_ISR_EXIT(sample);
}

int main(void) {
    hal_init();
    bp_port_init();
    bp_init();
    SYST_RVR = TIMER_HZ / 1000 - 1;
    SYST_CVR = 0;
    SYST_CSR = 7; /* on, with its interrupt, from the core's clock of 25 MHz */
    for (uint32_t used = 0;;) {
        if (count - used >= BATCH) {
            int16_t readings[BATCH];
            for (uint32_t i = 0; i < BATCH; i++) {
                readings[i] = taken[used / BATCH % 2][i];
            }
            used += BATCH;
            (void)control(readings);
        }
        bp_poll(); /* records go to the host, if one listens */
    }
}
