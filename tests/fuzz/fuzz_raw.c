/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever bytes come over the line. The first byte says how: bit 0, without a pause; bit 1, with a
 * pause within each frame. */

#include "fuzz_board.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) {
        return 0;
    }
    fuzz_boot();
    if ((data[0] & 1u) != 0) {
        fuzz_send_burst(data + 1, size - 1);
    } else {
        fuzz_send(data + 1, size - 1, (data[0] & 2u) != 0);
    }
    return 0;
}
