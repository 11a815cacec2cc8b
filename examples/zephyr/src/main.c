/* SPDX-License-Identifier: Apache-2.0 */
/* A controller that runs every 5 ms, and the agent in a thread of lower priority. */

#include <zephyr/kernel.h>
#include <zephyr/sys/printk.h>

#include "boardprof/bp.h"
#include "measured.h"

/* Of the agent itself about 1 KiB, and what the measured functions need. */
#define AGENT_STACK_BYTES 4096

/* Larger numbers are lower priorities. */
#define CONTROL_PRIORITY 3
#define AGENT_PRIORITY 5

int32_t samples[SAMPLES];

static void control(void *a, void *b, void *c) {
    uint32_t noise = 1;
    ARG_UNUSED(a), ARG_UNUSED(b), ARG_UNUSED(c);
    for (uint32_t sampled = 0;; sampled++) {
        noise = noise * 1664525u + 1013904223u;
        samples[sampled % SAMPLES] = (int32_t)(noise >> 20);
        k_sleep(K_MSEC(5));
    }
}

static void agent(void *a, void *b, void *c) {
    ARG_UNUSED(a), ARG_UNUSED(b), ARG_UNUSED(c);
    printk("boardprof: the agent is ready\n");
    bp_serve(); /* bp_init, then bp_poll for ever, and bp_port_idle if there is nothing to do */
}

K_THREAD_DEFINE(control_thread, 1024, control, NULL, NULL, NULL, CONTROL_PRIORITY, 0, 0);
K_THREAD_DEFINE(agent_thread, AGENT_STACK_BYTES, agent, NULL, NULL, NULL, AGENT_PRIORITY, 0, 0);
