/* SPDX-License-Identifier: Apache-2.0 */
/* One int8 3x3 convolution layer, 8x8x3 to 8x8x4, same padding, requantised per channel. */

#include <stddef.h>
#include <stdint.h>

void conv2d_i8_setup(void);
void conv2d_i8(void);
int conv2d_i8_check(void);

enum { HEIGHT = 8, WIDTH = 8, INPUTS = 3, OUTPUTS = 4, KERNEL = 3 };
enum { INPUT_ZERO = 11, OUTPUT_ZERO = -20 };
enum { OUTPUT_SIZE = HEIGHT * WIDTH * OUTPUTS };

/* Real scale = multiplier / 2^shift, with multiplier in [2^30, 2^31) and shift > 32. */
typedef struct {
    int32_t multiplier;
    int shift;
} scale_t;

/* Activations are [y][x][channel]; filters [output][ky][kx][input], with zero point 0. */
typedef struct {
    int height, width, inputs, outputs;
    int32_t input_zero, output_zero;
    const int8_t *filter;
    const int32_t *bias;
    const scale_t *scale;
} conv_t;

static int8_t image[HEIGHT * WIDTH * INPUTS];
static int8_t filter[OUTPUTS * KERNEL * KERNEL * INPUTS];
static int32_t bias[OUTPUTS];
static scale_t scale[OUTPUTS];
static int8_t output[OUTPUT_SIZE];

/*
 * Rounds to nearest, halves upwards. The half that is added, 2^(shift - 1), has no bits in the
 * low word, so that the high word of the product alone gives the exact result. A right shift of
 * a negative value is arithmetic on every compiler that builds firmware.
 */
static int8_t requantize(int32_t sum, scale_t by, int32_t zero) {
    int32_t high = (int32_t)((int64_t)sum * by.multiplier >> 32);
    int shift = by.shift - 32;
    int32_t value = ((high + ((int32_t)1 << (shift - 1))) >> shift) + zero;
    value = value < INT8_MIN ? INT8_MIN : value;
    return (int8_t)(value > INT8_MAX ? INT8_MAX : value);
}

/* Padding holds the input's zero point, which means 0: it adds nothing and is skipped. */
static int32_t window(const conv_t *conv, const int8_t *in, int y, int x, int out_channel) {
    const int8_t *weight = conv->filter + out_channel * KERNEL * KERNEL * conv->inputs;
    int32_t sum = conv->bias[out_channel];
    for (int ky = 0; ky < KERNEL; ky++) {
        for (int kx = 0; kx < KERNEL; kx++, weight += conv->inputs) {
            int iy = y + ky - KERNEL / 2;
            int ix = x + kx - KERNEL / 2;
            if (iy < 0 || iy >= conv->height || ix < 0 || ix >= conv->width) {
                continue;
            }
            const int8_t *pixel = in + (iy * conv->width + ix) * conv->inputs;
            for (int c = 0; c < conv->inputs; c++) {
                sum += (pixel[c] - conv->input_zero) * weight[c];
            }
        }
    }
    return sum;
}

static void convolve(const conv_t *conv, const int8_t *in, int8_t *out) {
    for (int y = 0; y < conv->height; y++) {
        for (int x = 0; x < conv->width; x++) {
            for (int c = 0; c < conv->outputs; c++) {
                int32_t sum = window(conv, in, y, x, c);
                *out++ = requantize(sum, conv->scale[c], conv->output_zero);
            }
        }
    }
}

void conv2d_i8(void) {
    static const conv_t layer = {
        .height = HEIGHT,
        .width = WIDTH,
        .inputs = INPUTS,
        .outputs = OUTPUTS,
        .input_zero = INPUT_ZERO,
        .output_zero = OUTPUT_ZERO,
        .filter = filter,
        .bias = bias,
        .scale = scale,
    };
    convolve(&layer, image, output);
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

void conv2d_i8_setup(void) {
    uint32_t state = 2;
    fill(image, sizeof image, &state);
    fill(filter, sizeof filter, &state);
    for (int c = 0; c < OUTPUTS; c++) {
        bias[c] = (int32_t)(next(&state) >> 10) - 8192;
        scale[c].multiplier = (int32_t)(0x40000000u + (next(&state) << 6));
        scale[c].shift = 39 + c % 2;
    }
    for (size_t i = 0; i < OUTPUT_SIZE; i++) {
        output[i] = 0;
    }
}

/* The image with its border written out. */
static int32_t padded(int y, int x, int c) {
    int inside = y >= 0 && y < HEIGHT && x >= 0 && x < WIDTH;
    return inside ? image[(y * WIDTH + x) * INPUTS + c] : INPUT_ZERO;
}

/* The same sum with the zero point factored out: sum(x * w) - zero * sum(w), channels outermost. */
static int32_t reference(int y, int x, int out_channel) {
    int32_t products = 0;
    int32_t weights = 0;
    for (int c = INPUTS - 1; c >= 0; c--) {
        for (int tap = 0; tap < KERNEL * KERNEL; tap++) {
            int32_t w = filter[(out_channel * KERNEL * KERNEL + tap) * INPUTS + c];
            products += w * padded(y + tap / KERNEL - 1, x + tap % KERNEL - 1, c);
            weights += w;
        }
    }
    return bias[out_channel] + products - INPUT_ZERO * weights;
}

/* True if value is the int8 nearest to the exact sum * multiplier / 2^shift + zero. */
static int is_nearest(int8_t value, int32_t sum, scale_t by) {
    int64_t half = (int64_t)1 << (by.shift - 1);
    int64_t rest = (int64_t)sum * by.multiplier - (int64_t)(value - OUTPUT_ZERO) * (2 * half);
    return (rest >= -half || value == INT8_MIN) && (rest < half || value == INT8_MAX);
}

/* Returns 0; 1 if an output is not the nearest to its exact value; 2 if the checksum is wrong. */
int conv2d_i8_check(void) {
    uint32_t checksum = 0;
    for (int i = 0; i < OUTPUT_SIZE; i++) {
        int c = i % OUTPUTS;
        int32_t sum = reference(i / OUTPUTS / WIDTH, i / OUTPUTS % WIDTH, c);
        if (!is_nearest(output[i], sum, scale[c])) {
            return 1;
        }
        checksum = checksum * 31u + (uint32_t)(output[i] + 128);
    }
    return checksum == 0x011d0bfdu ? 0 : 2; /* independently computed with numpy */
}
