/* SPDX-License-Identifier: Apache-2.0 */
/* QEMU's "mps2-an505" machine, in the Secure state that it starts in. Application note AN505 (DAI
 * 0505), memory map. The watchdog is the Secure one of the IoT kit (SSE-200's predecessor), at the
 * system clock. */

#define BP_MPS2_HZ 20000000u
#define BP_MPS2_UART 0x50200000u
#define BP_MPS2_FPGAIO 0x50302000u
#define BP_MPS2_WATCHDOG 0x50081000u
#define BP_MPS2_WATCHDOG_HZ BP_MPS2_HZ
#define BP_MPS2_ROM 0x10000000u
#define BP_MPS2_ROM_BYTES 0x400000u

#include "bp_arch_mps2.h"
