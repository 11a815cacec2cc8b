/* SPDX-License-Identifier: Apache-2.0 */

#include "measured.h"

#include "boardprof/bp_function.h"

uint32_t variance(const int32_t *values, uint32_t n) {
    int32_t sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        sum += values[i];
    }
    int32_t mean = sum / (int32_t)n;
    uint32_t squares = 0;
    for (uint32_t i = 0; i < n; i++) {
        int32_t away = values[i] - mean;
        squares += (uint32_t)(away * away);
    }
    return squares / n;
}
BP_FUNCTION(variance);
