/* SPDX-License-Identifier: Apache-2.0 */
/* Sampling with SysTick at the core's clock, for boards on which only the collector systick may use
 * it: that finds it as it was. port.c includes it once, and before that may define
 * BP_SAMPLE_DITHER: `dither` of bp_port_sampling, 0 unless an emulator executes more than one
 * instruction in a cycle.
 *
 * ARMv7-M ARM (DDI 0403) and ARMv6-M ARM (DDI 0419), both B3.3; ICSR: B3.2.4. */

#ifndef BP_ARCH_SAMPLE_SYSTICK_H
#define BP_ARCH_SAMPLE_SYSTICK_H

#include <stdint.h>

#include "bp_arch_guard.h"

#if BP_CFG_SAMPLING

#ifndef BP_SAMPLE_DITHER
#define BP_SAMPLE_DITHER 0
#endif

#define BP_SAMPLE_CSR (*(volatile uint32_t *)0xe000e010u)
#define BP_SAMPLE_RVR (*(volatile uint32_t *)0xe000e014u)
#define BP_SAMPLE_CVR (*(volatile uint32_t *)0xe000e018u)
#define BP_SAMPLE_ICSR (*(volatile uint32_t *)0xe000ed04u)

static const char bp_sampling_source[] BP_ROM = "SysTick";

const bp_port_sampling_t bp_port_sampling BP_ROM = {
    .source = bp_sampling_source,
    .least = 32, /* the handler's last instructions and the return from it */
    .most = (1u << 24) - 1u,
    .usual = 2000,
    .dither = BP_SAMPLE_DITHER,
};

static uint32_t bp_sample_csr, bp_sample_rvr; /* as they were before */

void bp_port_sample_start(uint32_t ticks) {
    bp_sample_csr = BP_SAMPLE_CSR;
    bp_sample_rvr = BP_SAMPLE_RVR;
    BP_SAMPLE_RVR = ticks;
    BP_SAMPLE_CVR = 0; /* it begins with RVR */
    bp_guard_is_sampled = true;
    BP_SAMPLE_CSR = 7; /* ENABLE, TICKINT, CLKSOURCE */
}

void bp_port_sample_stop(void) {
    if (bp_guard_is_sampled) {
        BP_SAMPLE_CSR = 0;
        BP_SAMPLE_ICSR = 1u << 25; /* PENDSTCLR */
        bp_guard_is_sampled = false;
        BP_SAMPLE_RVR = bp_sample_rvr;
        BP_SAMPLE_CVR = 0;
        BP_SAMPLE_CSR = bp_sample_csr;
    }
}

#endif

#endif
