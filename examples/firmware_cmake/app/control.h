/* SPDX-License-Identifier: Apache-2.0 */
/* The arithmetic of the thermostat: temperatures in 1/100 degree, power in 1/1000. */

#ifndef CONTROL_H
#define CONTROL_H

#include <stdint.h>

/* Heating power for the next period, 0..1000, from the wanted and the measured temperature. */
int32_t heater_power(int32_t wanted, int32_t measured);

/* Reset the sum that heater_power keeps. */
void heater_power_setup(void);

/* The median of every three consecutive readings; the first and the last stay as they are. */
void smooth(const int16_t *readings, int16_t *out, uint32_t n);

/* The largest integer whose square is not above x. */
uint32_t isqrt(uint32_t x);

#endif
