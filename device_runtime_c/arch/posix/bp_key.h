/* SPDX-License-Identifier: Apache-2.0 */
/* The pre-shared key, the proofs of having it, and the authenticated records of a line.
 * protocol/SPEC.md 9. Only bp_key_load reads files. */

#ifndef BP_KEY_H
#define BP_KEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bp_hmac.h"
#include "bp_posix.h"

#define BP_KEY_MIN 16u
#define BP_KEY_MAX 1024u
#define BP_KEY_MAC BP_HMAC_BYTES
#define BP_KEY_NONCE 16u /* bytes that each side adds */

typedef struct {
    size_t length; /* 0: there is no key */
    uint8_t bytes[BP_KEY_MAX];
} bp_key_t;

/* Read the key from `file`; NULL: from the environment variable BOARDPROF_KEY, which may be absent.
 * The variable is removed in either case. Returns an enum bp_posix_exit; prints the reason for an
 * error to stderr. */
int bp_key_load(bp_key_t *key, const char *file);

/* HMAC-SHA-256 over `label` (ASCII, without its final zero) and the nonces of agent and host. */
void bp_key_derive(const bp_key_t *key, const char *label, const uint8_t nonces[2 * BP_KEY_NONCE],
                   uint8_t mac[BP_KEY_MAC]);

/* Compare in constant time. */
bool bp_key_equal(const uint8_t *a, const uint8_t *b, size_t length);

/// Records: length (u16) | payload | tag ///

#define BP_RECORD_COUNTER 8u /* before a record in memory: the tag covers it, too */
#define BP_RECORD_HEAD 2u
#define BP_RECORD_TAG 16u
#define BP_RECORD_PAYLOAD 65535u
#define BP_RECORD_BUFFER (BP_RECORD_COUNTER + BP_RECORD_HEAD + BP_RECORD_PAYLOAD + BP_RECORD_TAG)

/* One direction of a line. */
typedef struct {
    uint8_t key[BP_KEY_MAC];
    uint64_t counter; /* of the next record */
} bp_seal_t;

/* Write length and tag of the record at `buffer + BP_RECORD_COUNTER`, whose payload of `length`
 * bytes, 1..65535, is already there. Overwrites the bytes before it. Returns the record's length.
 */
size_t bp_seal_close(bp_seal_t *seal, uint8_t *buffer, size_t length);

/* Check the record at `buffer + BP_RECORD_COUNTER`. False: it was damaged, forged, repeated or
 * reordered. */
bool bp_seal_open(bp_seal_t *seal, uint8_t *buffer, size_t length);

#endif
