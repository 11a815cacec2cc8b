/* SPDX-License-Identifier: Apache-2.0 */
/* A motor whose speed is controlled. */

#ifndef CONTROL_H
#define CONTROL_H

#include <stdint.h>

enum { BATCH = 8 }; /* readings for each step of the controller */

/* Read the sensor. The timer's interrupt calls it. */
int16_t sensor_read(void);

/* One step: from the newest readings to the motor's power, in thousandths. */
int32_t control(const int16_t readings[BATCH]);

#endif
