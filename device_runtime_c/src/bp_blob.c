/* SPDX-License-Identifier: Apache-2.0 */
/* A collector's blob: header, body, CRC-32. protocol/SPEC.md 6. */

#include "boardprof/bp.h"
#include "boardprof/bp_frame.h"
#include "bp_internal.h"

size_t bp_blob_length(const bp_collector_t *collector) {
    return BP_BLOB_HEADER_LEN + BP_ROM_GET(collector->body_length) + BP_FRAME_CRC;
}

uint8_t *bp_blob_put(uint8_t *out, const bp_collector_t *collector, const void *state) {
    const bp_blob_header_t header = {
        .schema_id = BP_ROM_GET(collector->schema_id),
        .version = BP_ROM_GET(collector->version),
        .length = BP_ROM_GET(collector->body_length),
    };
    uint8_t *body = bp_blob_header_put(out, &header);
    BP_ROM_GET(collector->encode)(body, state);
    size_t length = BP_BLOB_HEADER_LEN + header.length;
    return bp_put_u32(out + length, bp_crc32(0, out, length));
}
