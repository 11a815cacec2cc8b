/* SPDX-License-Identifier: Apache-2.0 */
/* HMAC-SHA-256: FIPS 198-1 over FIPS 180-4. Its time does not depend on what key and data are. */

#ifndef BP_HMAC_H
#define BP_HMAC_H

#include <stddef.h>
#include <stdint.h>

#define BP_HMAC_BYTES 32u

void bp_hmac(const uint8_t *key, size_t key_length, const uint8_t *data, size_t length,
             uint8_t mac[BP_HMAC_BYTES]);

#endif
