/* SPDX-License-Identifier: Apache-2.0 */
/* In place of ESP32-C3's counter registers: included in front of its collector. */

#ifndef ESP32C3_MODEL_H
#define ESP32C3_MODEL_H

#include <stdint.h>

enum { BP_ESP32C3_MPCER = 0x7e0, BP_ESP32C3_MPCMR = 0x7e1, BP_ESP32C3_MPCCR = 0x7e2 };

uint32_t model_read(uint32_t csr);
void model_write(uint32_t csr, uint32_t value);

#define BP_ESP32C3_READ(csr) model_read(csr)
#define BP_ESP32C3_WRITE(csr, value) model_write(csr, value)

#endif
