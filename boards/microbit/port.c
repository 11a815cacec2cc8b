/* SPDX-License-Identifier: Apache-2.0 */
/* BBC micro:bit: its interface chip has the UART on P0.24 and P0.25 (schematic of v1.3B). */

#define BP_NRF5_TX_PIN 24
#define BP_NRF5_RX_PIN 25

#include "bp_arch_nrf5.h"
