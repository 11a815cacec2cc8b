/* SPDX-License-Identifier: Apache-2.0 */
/* A process on 64-bit Arm Linux: a Raspberry Pi, any other board, or a virtual machine. */

#include "bp_posix_program.h"

bool bp_port_heap(bp_port_heap_t *out) {
    return bp_posix_heap(out);
}

int main(int argc, char **argv) {
    return bp_posix_program(argc, argv);
}
