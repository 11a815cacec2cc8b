/* SPDX-License-Identifier: Apache-2.0 */
/* stdout and stderr of avr-libc: the board's console. avr-libc itself has no stream until the
 * program sets one up, and printf through that calls a NULL pointer. Code that sets stdout to a
 * stream of its own overrides this. Linked only into images that use stdio. */

#include <stdio.h>

#include "boardprof/bp_port.h"
#include "bp_avr.h"

/* Held back until the window has ended, so that a short text does not wait for the USART while a
 * function is measured. */
static uint8_t bp_stdio_held[64];
static uint8_t bp_stdio_length;

/* To the console: the host shows everything that is not a frame. */
static void bp_stdio_flush(void) {
    uint8_t length = bp_stdio_length;
    bp_stdio_length = 0; /* bp_port_write comes back here */
    if (length != 0) {
        bp_port_write(bp_stdio_held, length);
    }
}

static int bp_stdio_put(char byte, FILE *file) {
    (void)file;
    bp_avr_flush = bp_stdio_flush;
    if (bp_stdio_length == sizeof bp_stdio_held) {
        bp_stdio_flush();
    }
    bp_stdio_held[bp_stdio_length++] = (uint8_t)byte;
    return 0;
}

static FILE bp_stdio = FDEV_SETUP_STREAM(bp_stdio_put, NULL, _FDEV_SETUP_WRITE);

/* stdin, stdout and stderr. With this definition of <stdio.h>'s table the linker leaves out the
 * library's. */
FILE *__iob[] = {&bp_stdio, &bp_stdio, &bp_stdio};
