/* SPDX-License-Identifier: Apache-2.0 */
/* nRF52840 DK (PCA10056): its interface chip has the UART on P0.06 and P0.08. */

#define BP_NRF5_TX_PIN 6
#define BP_NRF5_RX_PIN 8
#define BP_NRF5_ROM_BYTES (1u << 20)

#include "bp_arch_nrf5.h"
