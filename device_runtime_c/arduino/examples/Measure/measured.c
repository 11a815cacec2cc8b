/* SPDX-License-Identifier: Apache-2.0 */
/* What the host can measure. */

#include <stdint.h>

#include "boardprof/bp_function.h"

uint32_t isqrt(uint32_t x);
uint32_t isqrt(uint32_t x) {
    uint32_t root = 0;
    for (uint32_t bit = 1ul << 30; bit != 0; bit >>= 2) {
        uint32_t trial = root + bit;
        root >>= 1;
        if (x >= trial) {
            x -= trial;
            root += bit;
        }
    }
    return root;
}
BP_FUNCTION(isqrt);
