/* SPDX-License-Identifier: Apache-2.0 */
/* Sampling with SysTick at the core's clock, for boards that use it for nothing else. port.c
 * includes it once.
 *
 * ARMv7-M ARM (DDI 0403) and ARMv6-M ARM (DDI 0419), both B3.3; ICSR: B3.2.4. */

#ifndef BP_ARCH_SAMPLE_SYSTICK_H
#define BP_ARCH_SAMPLE_SYSTICK_H

#include <stdint.h>

#include "bp_arch_guard.h"

#if BP_CFG_SAMPLING

#define BP_SAMPLE_CSR (*(volatile uint32_t *)0xe000e010u)
#define BP_SAMPLE_RVR (*(volatile uint32_t *)0xe000e014u)
#define BP_SAMPLE_CVR (*(volatile uint32_t *)0xe000e018u)
#define BP_SAMPLE_ICSR (*(volatile uint32_t *)0xe000ed04u)

static const char bp_sampling_source[] BP_ROM = "SysTick";

const bp_port_sampling_t bp_port_sampling BP_ROM = {
    .source = bp_sampling_source,
    .least = 32, /* the handler's last instructions and the return from it */
    .most = (1u << 24) - 1u,
    .usual = 4000,
};

void bp_port_sample_start(uint32_t ticks) {
    BP_SAMPLE_RVR = ticks;
    BP_SAMPLE_CVR = 0; /* it begins with RVR */
    bp_guard_is_sampled = true;
    BP_SAMPLE_CSR = 7; /* ENABLE, TICKINT, CLKSOURCE */
}

void bp_port_sample_stop(void) {
    BP_SAMPLE_CSR = 0;
    BP_SAMPLE_ICSR = 1u << 25; /* PENDSTCLR */
    bp_guard_is_sampled = false;
}

#endif

#endif
