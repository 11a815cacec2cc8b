/* SPDX-License-Identifier: Apache-2.0 */
/* QEMU's "mps3-an547" machine, in the Secure state that it starts in. Application note AN547 (DAI
 * 0547), memory map. The watchdog is that of SSE-300 at the slow clock. The counters of FPGAIO do
 * not run at the core's 32 MHz there. */

#define BP_MPS2_HZ 20000000u
#define BP_MPS2_UART 0x59303000u
#define BP_MPS2_FPGAIO 0x59302000u
#define BP_MPS2_WATCHDOG 0x5802e000u
#define BP_MPS2_WATCHDOG_HZ 32000u
#define BP_MPS2_ROM 0u
#define BP_MPS2_ROM_BYTES 0x80000u

/* SSE-300's system counter at 32 MHz: CNTCR of its control frame, CNTCV of its status frame (Arm
 * CoreLink SSE-300 TRM, 101773, "System counter"). 8 of its ticks take as long as 5 of COUNTER. */
#define BP_MPS2_SECOND_ENABLE BP_MPS2_REG(0x58100000u, 0x00)
#define BP_MPS2_SECOND BP_MPS2_REG(0x58101000u, 0x00)
#define BP_MPS2_SECOND_TICKS 8u
#define BP_MPS2_COUNTER_TICKS 5u

#include "bp_arch_mps2.h"
