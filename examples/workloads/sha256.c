/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256 of a 1 KiB message (FIPS 180-4), as a boot loader checks an image. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void sha256_setup(void);
void sha256(void);
int sha256_check(void);

enum { LENGTH = 1024, BLOCK = 64, ROUNDS = 64, DIGEST = 32 };

static uint8_t message[LENGTH];
static uint8_t digest[DIGEST];

/* FIPS 180-4, 4.2.2: fractions of the cube roots of the first 64 primes. */
static const uint32_t round_constants[ROUNDS] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotr(uint32_t x, unsigned n) {
    return x >> n | x << (32 - n);
}

/* FIPS 180-4, 6.2.2 step 1: expand the block, big-endian, to 64 words. */
static void schedule(uint32_t w[ROUNDS], const uint8_t *block) {
    for (size_t t = 0; t < 16; t++, block += 4) {
        w[t] = (uint32_t)block[0] << 24 | (uint32_t)block[1] << 16 | (uint32_t)block[2] << 8 |
               block[3];
    }
    for (size_t t = 16; t < ROUNDS; t++) {
        uint32_t s0 = rotr(w[t - 15], 7) ^ rotr(w[t - 15], 18) ^ w[t - 15] >> 3;
        uint32_t s1 = rotr(w[t - 2], 17) ^ rotr(w[t - 2], 19) ^ w[t - 2] >> 10;
        w[t] = s1 + w[t - 7] + s0 + w[t - 16];
    }
}

/* FIPS 180-4, 6.2.2 steps 2 to 4. The names are the standard's. */
static void compress(uint32_t hash[8], const uint8_t *block) {
    uint32_t w[ROUNDS];
    uint32_t a = hash[0], b = hash[1], c = hash[2], d = hash[3];
    uint32_t e = hash[4], f = hash[5], g = hash[6], h = hash[7];
    schedule(w, block);
    for (size_t t = 0; t < ROUNDS; t++) {
        uint32_t sum1 = rotr(e, 6) ^ rotr(e, 11) ^ rotr(e, 25);
        uint32_t t1 = h + sum1 + ((e & f) ^ (~e & g)) + round_constants[t] + w[t];
        uint32_t sum0 = rotr(a, 2) ^ rotr(a, 13) ^ rotr(a, 22);
        uint32_t t2 = sum0 + ((a & b) ^ (a & c) ^ (b & c));
        h = g, g = f, f = e, e = d + t1;
        d = c, c = b, b = a, a = t1 + t2;
    }
    hash[0] += a, hash[1] += b, hash[2] += c, hash[3] += d;
    hash[4] += e, hash[5] += f, hash[6] += g, hash[7] += h;
}

/* FIPS 180-4, 5.1.1: the last bytes, a 1 bit, zeros and the length in bits. Returns the size. */
static size_t pad(uint8_t tail[2 * BLOCK], const uint8_t *rest, size_t n, size_t total) {
    size_t size = n < BLOCK - 8 ? BLOCK : 2 * BLOCK;
    for (size_t i = 0; i < size; i++) {
        tail[i] = i < n ? rest[i] : 0;
    }
    tail[n] = 0x80;
    uint32_t bits = (uint32_t)total * 8; /* messages here are shorter than 2^29 bytes */
    for (size_t i = 1; i <= 4; i++, bits >>= 8) {
        tail[size - i] = (uint8_t)bits;
    }
    return size;
}

static void hash_message(const uint8_t *data, size_t n, uint8_t out[DIGEST]) {
    /* FIPS 180-4, 5.3.3: fractions of the square roots of the first 8 primes. */
    uint32_t hash[8] = {
        0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
        0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
    };
    uint8_t tail[2 * BLOCK];
    size_t whole = n - n % BLOCK;
    size_t tail_size = pad(tail, data + whole, n % BLOCK, n);
    for (size_t i = 0; i < whole; i += BLOCK) {
        compress(hash, data + i);
    }
    for (size_t i = 0; i < tail_size; i += BLOCK) {
        compress(hash, tail + i);
    }
    for (size_t i = 0; i < DIGEST; i++) {
        out[i] = (uint8_t)(hash[i / 4] >> (24 - 8 * (i % 4)));
    }
}

void sha256(void) {
    hash_message(message, LENGTH, digest);
}

void sha256_setup(void) {
    uint32_t state = 7;
    for (size_t i = 0; i < LENGTH; i++) {
        state = state * 1664525u + 1013904223u;
        message[i] = (uint8_t)(state >> 24);
    }
    for (size_t i = 0; i < DIGEST; i++) {
        digest[i] = 0;
    }
}

static bool is_digest(const uint8_t actual[DIGEST], const uint32_t expected[8]) {
    for (size_t i = 0; i < DIGEST; i++) {
        if (actual[i] != (uint8_t)(expected[i / 4] >> (24 - 8 * (i % 4)))) {
            return false;
        }
    }
    return true;
}

/* True if text, a C string, hashes to expected. */
static bool hashes_to(const char *text, const uint32_t expected[8]) {
    uint8_t bytes[BLOCK];
    uint8_t actual[DIGEST];
    size_t n = 0;
    for (; text[n] != '\0'; n++) {
        bytes[n] = (uint8_t)text[n];
    }
    hash_message(bytes, n, actual);
    return is_digest(actual, expected);
}

/* Returns 0; 1 if the message's digest is wrong; 2 or 3 if that of a published example is. */
int sha256_check(void) {
    /* Independently computed with Python's hashlib. */
    static const uint32_t expected[8] = {
        0x562db0ad, 0x3560e666, 0xdc4f8aad, 0x1f0c578c,
        0xe74f9ea8, 0xe84b1a79, 0x06a8c81e, 0x23f8e633,
    };
    /* The one-block and two-block examples published with FIPS 180. */
    static const uint32_t one_block[8] = {
        0xba7816bf, 0x8f01cfea, 0x414140de, 0x5dae2223,
        0xb00361a3, 0x96177a9c, 0xb410ff61, 0xf20015ad,
    };
    static const uint32_t two_blocks[8] = {
        0x248d6a61, 0xd20638b8, 0xe5c02693, 0x0c3e6039,
        0xa33ce459, 0x64ff2167, 0xf6ecedd4, 0x19db06c1,
    };
    if (!is_digest(digest, expected)) {
        return 1;
    }
    if (!hashes_to("abc", one_block)) {
        return 2;
    }
    if (!hashes_to("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", two_blocks)) {
        return 3;
    }
    return 0;
}
