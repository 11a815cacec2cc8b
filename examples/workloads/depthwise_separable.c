/* SPDX-License-Identifier: Apache-2.0 */
/* An int8 depthwise-separable layer on 8x8x8: depthwise 3x3 with ReLU, then pointwise 1x1. */

#include <stddef.h>
#include <stdint.h>

void depthwise_separable_setup(void);
void depthwise_separable(void);
int depthwise_separable_check(void);

enum { HEIGHT = 8, WIDTH = 8, CHANNELS = 8, KERNEL = 3, TAPS = KERNEL * KERNEL };
enum { PIXELS = HEIGHT * WIDTH, SIZE = PIXELS * CHANNELS };
enum { INPUT_ZERO = -5, MIDDLE_ZERO = -128, OUTPUT_ZERO = 7 };

/* Real scale = multiplier / 2^shift, with multiplier in [2^30, 2^31) and shift > 32. */
typedef struct {
    int32_t multiplier;
    int shift;
} scale_t;

/* Weights have zero point 0. Depthwise: [ky][kx][channel]; pointwise: [output][input]. */
typedef struct {
    int32_t input_zero, output_zero;
    const int8_t *weights;
    const int32_t *bias;
    const scale_t *scale;
} stage_t;

/* Activations are [y][x][channel]. */
static int8_t image[SIZE];
static int8_t middle[SIZE];
static int8_t output[SIZE];
static int8_t depth_weights[TAPS * CHANNELS];
static int8_t point_weights[CHANNELS * CHANNELS];
static int32_t depth_bias[CHANNELS];
static int32_t point_bias[CHANNELS];
static scale_t depth_scale[CHANNELS];
static scale_t point_scale[CHANNELS];

/*
 * Rounds to nearest, halves upwards: 2^(shift - 1) has no bits in the low word, so that the high
 * word of the product is enough. With the zero point at INT8_MIN, saturating is the ReLU.
 */
static int8_t requantize(int32_t sum, scale_t by, int32_t zero) {
    int32_t high = (int32_t)((int64_t)sum * by.multiplier >> 32);
    int shift = by.shift - 32;
    int32_t value = ((high + ((int32_t)1 << (shift - 1))) >> shift) + zero;
    value = value < INT8_MIN ? INT8_MIN : value;
    return (int8_t)(value > INT8_MAX ? INT8_MAX : value);
}

/* Only the taps inside the image: padding means 0 and adds nothing, so its taps are skipped. */
static int32_t depthwise_sum(const stage_t *stage, const int8_t *in, int y, int x, int c) {
    int ky_end = y == HEIGHT - 1 ? KERNEL - 1 : KERNEL;
    int kx_end = x == WIDTH - 1 ? KERNEL - 1 : KERNEL;
    int32_t sum = stage->bias[c];
    for (int ky = y == 0; ky < ky_end; ky++) {
        for (int kx = x == 0; kx < kx_end; kx++) {
            int32_t pixel = in[((y + ky - 1) * WIDTH + x + kx - 1) * CHANNELS + c];
            sum += (pixel - stage->input_zero) * stage->weights[(ky * KERNEL + kx) * CHANNELS + c];
        }
    }
    return sum;
}

static void depthwise(const stage_t *stage, const int8_t *in, int8_t *out) {
    for (int y = 0; y < HEIGHT; y++) {
        for (int x = 0; x < WIDTH; x++) {
            for (int c = 0; c < CHANNELS; c++) {
                int32_t sum = depthwise_sum(stage, in, y, x, c);
                *out++ = requantize(sum, stage->scale[c], stage->output_zero);
            }
        }
    }
}

static void pointwise(const stage_t *stage, const int8_t *in, int8_t *out) {
    for (int pixel = 0; pixel < PIXELS; pixel++, in += CHANNELS) {
        const int8_t *weights = stage->weights;
        for (int c = 0; c < CHANNELS; c++, weights += CHANNELS) {
            int32_t sum = stage->bias[c];
            for (int k = 0; k < CHANNELS; k++) {
                sum += (in[k] - stage->input_zero) * weights[k];
            }
            *out++ = requantize(sum, stage->scale[c], stage->output_zero);
        }
    }
}

static const stage_t depth_stage = {
    INPUT_ZERO, MIDDLE_ZERO, depth_weights, depth_bias, depth_scale,
};
static const stage_t point_stage = {
    MIDDLE_ZERO, OUTPUT_ZERO, point_weights, point_bias, point_scale,
};

void depthwise_separable(void) {
    depthwise(&depth_stage, image, middle);
    pointwise(&point_stage, middle, output);
}

static uint32_t next(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static void fill(int8_t *data, size_t n, uint32_t *state) {
    for (size_t i = 0; i < n; i++) {
        data[i] = (int8_t)((int32_t)(next(state) >> 16) - 128);
    }
}

static void fill_channels(int32_t *bias, scale_t *scale, int shift, uint32_t *state) {
    for (int c = 0; c < CHANNELS; c++) {
        bias[c] = (int32_t)(next(state) >> 10) - 8192;
        scale[c].multiplier = (int32_t)(0x40000000u + (next(state) << 6));
        scale[c].shift = shift + c % 2;
    }
}

void depthwise_separable_setup(void) {
    uint32_t state = 9;
    fill(image, sizeof image, &state);
    fill(depth_weights, sizeof depth_weights, &state);
    fill_channels(depth_bias, depth_scale, 37, &state);
    fill(point_weights, sizeof point_weights, &state);
    fill_channels(point_bias, point_scale, 38, &state);
    for (size_t i = 0; i < SIZE; i++) {
        middle[i] = 0;
        output[i] = 0;
    }
}

/* The depthwise sum over the padded image: sum(x * w) - zero * sum(w), last tap first. */
static int32_t depth_reference(int y, int x, int c) {
    int32_t products = 0;
    int32_t weights = 0;
    for (int tap = TAPS - 1; tap >= 0; tap--) {
        int iy = y + tap / KERNEL - 1;
        int ix = x + tap % KERNEL - 1;
        int inside = iy >= 0 && iy < HEIGHT && ix >= 0 && ix < WIDTH;
        int32_t weight = depth_weights[tap * CHANNELS + c];
        products += weight * (inside ? image[(iy * WIDTH + ix) * CHANNELS + c] : INPUT_ZERO);
        weights += weight;
    }
    return depth_bias[c] + products - INPUT_ZERO * weights;
}

static int32_t point_reference(const int8_t *pixel, int c) {
    int32_t products = 0;
    int32_t weights = 0;
    for (int k = CHANNELS - 1; k >= 0; k--) {
        products += (int32_t)point_weights[c * CHANNELS + k] * pixel[k];
        weights += point_weights[c * CHANNELS + k];
    }
    return point_bias[c] + products - MIDDLE_ZERO * weights;
}

/* True if value is the int8 nearest to the exact sum * multiplier / 2^shift + zero. */
static int is_nearest(int8_t value, int32_t sum, scale_t by, int32_t zero) {
    int64_t half = (int64_t)1 << (by.shift - 1);
    int64_t rest = (int64_t)sum * by.multiplier - (int64_t)(value - zero) * (2 * half);
    return (rest >= -half || value == INT8_MIN) && (rest < half || value == INT8_MAX);
}

/*
 * Returns 0; 1 if a depthwise or 2 if a pointwise result is not the nearest to its exact value;
 * 3 if the checksum of both is wrong.
 */
int depthwise_separable_check(void) {
    uint32_t checksum = 0;
    for (int i = 0; i < SIZE; i++) {
        int c = i % CHANNELS;
        int pixel = i / CHANNELS;
        int32_t depth_sum = depth_reference(pixel / WIDTH, pixel % WIDTH, c);
        if (!is_nearest(middle[i], depth_sum, depth_scale[c], MIDDLE_ZERO)) {
            return 1;
        }
        int32_t point_sum = point_reference(middle + pixel * CHANNELS, c);
        if (!is_nearest(output[i], point_sum, point_scale[c], OUTPUT_ZERO)) {
            return 2;
        }
        checksum = checksum * 31u + (uint32_t)(middle[i] + 128);
        checksum = checksum * 31u + (uint32_t)(output[i] + 128);
    }
    return checksum == 0x2da81f30u ? 0 : 3; /* independently computed with numpy */
}
