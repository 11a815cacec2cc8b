/* SPDX-License-Identifier: Apache-2.0 */
/* The pre-shared key, and what is made of it: proofs, and records that nobody else can make.
 * protocol/SPEC.md 9. No input or output but for bp_key_load. */

#ifndef BP_KEY_H
#define BP_KEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* 0 leaves keys out, and with them all use of libcrypto: the agent then serves this machine only.
 * With 1 libcrypto is looked for when a key is given, not before, and not by the linker: the agent
 * builds and runs where there is none. */
#ifndef BP_POSIX_KEYS
#define BP_POSIX_KEYS 1
#endif

#define BP_KEY_MIN 16u
#define BP_KEY_MAX 1024u
#define BP_KEY_MAC 32u   /* bytes of HMAC-SHA-256 */
#define BP_KEY_NONCE 16u /* bytes that each side adds */

typedef struct {
    size_t length; /* 0: there is no key */
    uint8_t bytes[BP_KEY_MAX];
} bp_key_t;

/* Read the key from `file`; NULL: from the environment variable BOARDPROF_KEY, which may be
 * missing. Either way the variable is gone then. Returns an enum bp_posix_exit, with the reason of
 * a refusal on stderr. */
int bp_key_load(bp_key_t *key, const char *file);

/* HMAC-SHA-256 over `label` (ASCII, no zero behind it) and the nonces of agent and host. */
void bp_key_derive(const bp_key_t *key, const char *label, const uint8_t nonces[2 * BP_KEY_NONCE],
                   uint8_t mac[BP_KEY_MAC]);

/* Compare in a time that does not depend on where they differ. */
bool bp_key_equal(const uint8_t *a, const uint8_t *b, size_t length);

/// Records: length (u16) | payload | tag ///

#define BP_RECORD_COUNTER 8u /* in front of a record in memory: part of what the tag is over */
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
 * bytes, 1..65535, stands behind its head already. Uses the bytes in front of it. Returns how many
 * bytes the record has. */
size_t bp_seal_close(bp_seal_t *seal, uint8_t *buffer, size_t length);

/* Check the record at `buffer + BP_RECORD_COUNTER`, likewise. False: it was damaged, forged,
 * repeated or left out of its order. */
bool bp_seal_open(bp_seal_t *seal, uint8_t *buffer, size_t length);

#endif
