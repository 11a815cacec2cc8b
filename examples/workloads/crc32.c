/* SPDX-License-Identifier: Apache-2.0 */
/* CRC-32 of a 4 KiB buffer, one table look-up per byte, as in boot loaders and file formats. */

#include <stddef.h>
#include <stdint.h>

void crc32_setup(void);
void crc32(void);
int crc32_check(void);

enum { LENGTH = 4096 };

/* IEEE 802.3 (3.2.9) polynomial, bits reflected: the least significant bit goes first. */
#define POLYNOMIAL 0xedb88320u

static uint32_t table[256];
static uint8_t buffer[LENGTH];
static uint32_t result;

static uint32_t crc(const uint8_t *data, size_t n) {
    uint32_t remainder = 0xffffffffu;
    for (size_t i = 0; i < n; i++) {
        remainder = remainder >> 8 ^ table[(remainder ^ data[i]) & 0xff];
    }
    return ~remainder;
}

void crc32(void) {
    result = crc(buffer, LENGTH);
}

/* Entry i is the remainder of byte i: eight steps of the bitwise division. */
static void fill_table(void) {
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t remainder = i;
        for (int bit = 0; bit < 8; bit++) {
            remainder = remainder & 1u ? remainder >> 1 ^ POLYNOMIAL : remainder >> 1;
        }
        table[i] = remainder;
    }
}

void crc32_setup(void) {
    uint32_t state = 6;
    for (size_t i = 0; i < LENGTH; i++) {
        state = state * 1664525u + 1013904223u;
        buffer[i] = (uint8_t)(state >> 24);
    }
    fill_table();
    result = 0;
}

/* Returns 0; 1 if the buffer's CRC is wrong; 2 if the published check value is. */
int crc32_check(void) {
    static const uint8_t digits[] = {'1', '2', '3', '4', '5', '6', '7', '8', '9'};
    if (result != 0xf6e652d9u) { /* independently computed with Python's zlib.crc32 */
        return 1;
    }
    return crc(digits, sizeof digits) == 0xcbf43926u ? 0 : 2;
}
