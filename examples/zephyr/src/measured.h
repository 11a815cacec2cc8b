/* SPDX-License-Identifier: Apache-2.0 */
/* What the host can measure. */

#ifndef MEASURED_H
#define MEASURED_H

#include <stdint.h>

enum { SAMPLES = 64 };

extern int32_t samples[SAMPLES];

/* The variance of n values, 1 or more. */
uint32_t variance(const int32_t *values, uint32_t n);

#endif
