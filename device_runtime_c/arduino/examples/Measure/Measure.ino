/* SPDX-License-Identifier: Apache-2.0 */
/* Measure functions of a sketch: docs/arduino.md of boardprof. */

#include <boardprof.h>

void setup() {
    boardprof_begin();
}

void loop() {
    boardprof_poll();
}
