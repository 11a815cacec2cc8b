/* SPDX-License-Identifier: Apache-2.0 */
/* main of a program that has only the agent and the functions to be measured, as src/bp_main.c. */

#include "bp_posix_program.h"

int main(int argc, char **argv) {
    return bp_posix_program(argc, argv);
}
