/* SPDX-License-Identifier: Apache-2.0 */
/* Sorts 512 int32 in place: quicksort, median of three, insertion sort for short parts. */

#include <stddef.h>
#include <stdint.h>

void quicksort_setup(void);
void quicksort(void);
int quicksort_check(void);

enum { LENGTH = 512, SHORT = 8 };

static int32_t values[LENGTH];

static int32_t median(int32_t a, int32_t b, int32_t c) {
    int32_t low = a < b ? a : b;
    int32_t high = a < b ? b : a;
    if (c <= low) {
        return low;
    }
    return c < high ? c : high;
}

/*
 * Hoare's partition: returns k, 0 < k < n, such that no value in v[0..k) exceeds any in v[k..n).
 * The scans need no bounds: two of the three candidates are <= the median, two are >= it.
 */
static size_t partition(int32_t *v, size_t n) {
    int32_t pivot = median(v[0], v[n / 2], v[n - 1]);
    size_t i = 0;
    size_t j = n - 1;
    for (;; i++, j--) {
        while (v[i] < pivot) {
            i++;
        }
        while (v[j] > pivot) {
            j--;
        }
        if (i >= j) {
            return j + 1;
        }
        int32_t swapped = v[i];
        v[i] = v[j];
        v[j] = swapped;
    }
}

static void insertion_sort(int32_t *v, size_t n) {
    for (size_t i = 1; i < n; i++) {
        int32_t value = v[i];
        size_t hole = i;
        for (; hole > 0 && v[hole - 1] > value; hole--) {
            v[hole] = v[hole - 1];
        }
        v[hole] = value;
    }
}

/* Recurses into the smaller part and loops on the larger: at most log2(n) levels of stack. */
static void sort(int32_t *v, size_t n) {
    while (n > SHORT) {
        size_t k = partition(v, n);
        if (k < n - k) {
            sort(v, k);
            v += k;
            n -= k;
        } else {
            sort(v + k, n - k);
            n = k;
        }
    }
    insertion_sort(v, n);
}

void quicksort(void) {
    sort(values, LENGTH);
}

/* The whole range of int32, so that comparing by subtraction would overflow; one in 8 is a copy. */
void quicksort_setup(void) {
    uint32_t state = 8;
    for (size_t i = 0; i < LENGTH; i++) {
        state = state * 1664525u + 1013904223u;
        int32_t high = (int32_t)(state >> 16) - 32768;
        values[i] = i % 8 == 7 ? values[i / 2] : high * 65536 + (int32_t)(state & 0xffffu);
    }
}

/*
 * Returns 0; 1 if two neighbours are out of order; 2 if the sum or 3 if the sum of squares, both
 * modulo 2^32, shows that the values do not permute the input; 4 if the checksum is wrong.
 */
int quicksort_check(void) {
    uint32_t sum = 0;
    uint32_t squares = 0;
    uint32_t checksum = 0;
    for (size_t i = 0; i < LENGTH; i++) {
        uint32_t value = (uint32_t)values[i];
        if (i > 0 && values[i - 1] > values[i]) {
            return 1;
        }
        sum += value;
        squares += value * value;
        checksum = checksum * 31u + value;
    }
    /* Independently computed with numpy, the last from numpy.sort. */
    if (sum != 0x710011b8u) {
        return 2;
    }
    if (squares != 0xeecf0c00u) {
        return 3;
    }
    return checksum == 0x0f46ccdcu ? 0 : 4;
}
