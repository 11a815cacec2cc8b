/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of sections are those of FIPS 180-4, where nothing else is said. */

#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* explicit_bzero */
#endif

#include "bp_hmac.h"

#include <string.h>

enum { BP_BLOCK = 64, BP_LENGTH_AT = 56, BP_ROUNDS = 64 };

typedef struct {
    uint32_t state[8];
    uint64_t length; /* bytes so far; those after the last whole block are in `block` */
    uint8_t block[BP_BLOCK];
} bp_sha256_t;

/* 4.2.2: the first 32 bits of the fractional parts of the cube roots of the first 64 primes. */
static const uint32_t bp_sha256_k[BP_ROUNDS] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t bp_rotate(uint32_t x, unsigned by) {
    return x >> by | x << (32u - by);
}

static uint32_t bp_get_be(const uint8_t *bytes) {
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static void bp_put_be(uint8_t *bytes, uint32_t word) {
    for (unsigned i = 0; i < 4; i++) {
        bytes[i] = (uint8_t)(word >> (24 - 8 * i));
    }
}

/* 6.2.2. The functions of 4.1.2 are written out. */
static void bp_sha256_block(uint32_t state[8], const uint8_t block[BP_BLOCK]) {
    uint32_t w[BP_ROUNDS], v[8]; /* v: the working variables a to h */
    for (unsigned t = 0; t < 16; t++) {
        w[t] = bp_get_be(block + 4 * t);
    }
    for (unsigned t = 16; t < BP_ROUNDS; t++) {
        uint32_t s0 = bp_rotate(w[t - 15], 7) ^ bp_rotate(w[t - 15], 18) ^ w[t - 15] >> 3;
        uint32_t s1 = bp_rotate(w[t - 2], 17) ^ bp_rotate(w[t - 2], 19) ^ w[t - 2] >> 10;
        w[t] = s1 + w[t - 7] + s0 + w[t - 16];
    }
    memcpy(v, state, sizeof v);
    for (unsigned t = 0; t < BP_ROUNDS; t++) {
        /* Instead of moving all by one place in each round, begin one place lower. */
        uint32_t a = v[-t & 7], b = v[(1 - t) & 7], c = v[(2 - t) & 7];
        uint32_t e = v[(4 - t) & 7], f = v[(5 - t) & 7], g = v[(6 - t) & 7];
        uint32_t sum0 = bp_rotate(a, 2) ^ bp_rotate(a, 13) ^ bp_rotate(a, 22);
        uint32_t sum1 = bp_rotate(e, 6) ^ bp_rotate(e, 11) ^ bp_rotate(e, 25);
        uint32_t choice = (e & f) ^ (~e & g), majority = (a & b) ^ (a & c) ^ (b & c);
        uint32_t t1 = v[(7 - t) & 7] + sum1 + choice + bp_sha256_k[t] + w[t];
        v[(3 - t) & 7] += t1;
        v[(7 - t) & 7] = t1 + sum0 + majority;
    }
    for (unsigned i = 0; i < 8; i++) {
        state[i] += v[i];
    }
}

/* 5.3.3: likewise of the square roots of the first eight primes. */
static void bp_sha256_begin(bp_sha256_t *hash) {
    *hash = (bp_sha256_t){.state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f,
                                    0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
}

static void bp_sha256_add(bp_sha256_t *hash, const uint8_t *data, size_t length) {
    size_t at = (size_t)(hash->length % BP_BLOCK);
    hash->length += length;
    while (at + length >= BP_BLOCK) {
        size_t part = BP_BLOCK - at;
        memcpy(hash->block + at, data, part);
        bp_sha256_block(hash->state, hash->block);
        data += part;
        length -= part;
        at = 0;
    }
    memcpy(hash->block + at, data, length);
}

/* 5.1.1: a bit 1, zeros, and the length in bits as the last 64 bits of a block. */
static void bp_sha256_end(bp_sha256_t *hash, uint8_t digest[BP_HMAC_BYTES]) {
    static const uint8_t padding[BP_BLOCK] = {0x80};
    uint8_t bits[8];
    bp_put_be(bits, (uint32_t)(hash->length >> 29));
    bp_put_be(bits + 4, (uint32_t)(hash->length << 3));
    bp_sha256_add(hash, padding, 1 + (size_t)((BP_LENGTH_AT - 1 - hash->length) % BP_BLOCK));
    bp_sha256_add(hash, bits, sizeof bits);
    for (unsigned i = 0; i < 8; i++) {
        bp_put_be(digest + 4 * i, hash->state[i]);
    }
}

/* The hash of a block with the key, each byte exclusive-or'ed with `pad`, and of `data`. */
static void bp_hmac_pass(const uint8_t key[BP_BLOCK], uint8_t pad, const uint8_t *data,
                         size_t length, uint8_t digest[BP_HMAC_BYTES]) {
    bp_sha256_t hash;
    uint8_t block[BP_BLOCK];
    for (unsigned i = 0; i < BP_BLOCK; i++) {
        block[i] = (uint8_t)(key[i] ^ pad);
    }
    bp_sha256_begin(&hash);
    bp_sha256_add(&hash, block, sizeof block);
    bp_sha256_add(&hash, data, length);
    bp_sha256_end(&hash, digest);
    explicit_bzero(block, sizeof block);
}

/* FIPS 198-1, 4. */
void bp_hmac(const uint8_t *key, size_t key_length, const uint8_t *data, size_t length,
             uint8_t mac[BP_HMAC_BYTES]) {
    uint8_t block[BP_BLOCK] = {0};
    if (key_length > BP_BLOCK) {
        bp_sha256_t hash;
        bp_sha256_begin(&hash);
        bp_sha256_add(&hash, key, key_length);
        bp_sha256_end(&hash, block);
    } else {
        memcpy(block, key, key_length);
    }
    bp_hmac_pass(block, 0x36, data, length, mac);
    bp_hmac_pass(block, 0x5c, mac, BP_HMAC_BYTES, mac);
    explicit_bzero(block, sizeof block); /* the user's functions will run on this stack */
}
