/* SPDX-License-Identifier: Apache-2.0 */
/* A program that serves TCP, a pseudo-terminal, standard input and output, or a virtual machine's
 * console. */

#include "bp_posix_program.h"

#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "boardprof/bp.h"
#include "boardprof/bp_port.h"
#include "bp_guest.h"
#include "bp_posix.h"
#include "bp_stdio.h"

static void bp_usage(FILE *out, const char *program) {
    fprintf(
        out,
        "usage: %s [--listen HOST:PORT [--key-file PATH] | --pty | --stdio]\n"
        "  --listen HOST:PORT  serve TCP; PORT 0 takes any free one (default: 127.0.0.1:0).\n"
        "                      Without a key only this user (and root) may connect, on loopback\n"
        "  --key-file PATH     file with the key that hosts must have, readable by its owner\n"
        "                      alone; BOARDPROF_KEY in the environment may hold it instead\n"
        "  --pty               serve a pseudo-terminal\n"
        "  --stdio             serve one host at standard input and output, as through ssh\n"
        "  --help              print this\n"
        "Prints `listening on ...` and serves hosts until it is killed. One host at a time has\n"
        "the board; others are told its name, and may take the board over.\n",
        program);
}

/* The last option wins; the first process of a virtual machine has none. Returns an enum
 * bp_posix_exit. */
static int bp_open_line(int argc, char **argv, bool *stdio) {
    const char *address = "127.0.0.1:0"; /* NULL: a pseudo-terminal */
    const char *key_file = NULL;
    if (bp_guest_is_one()) {
        return bp_guest_open();
    }
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--pty") == 0) {
            address = NULL;
            *stdio = false;
        } else if (strcmp(argv[i], "--stdio") == 0) {
            address = NULL;
            *stdio = true;
        } else if (strcmp(argv[i], "--listen") == 0 && i + 1 < argc) {
            address = argv[++i];
            *stdio = false;
        } else if (strcmp(argv[i], "--key-file") == 0 && i + 1 < argc) {
            key_file = argv[++i];
        } else {
            fprintf(stderr, "boardprof: option '%s' is unknown or lacks its value\n", argv[i]);
            bp_usage(stderr, argv[0]);
            return BP_POSIX_USAGE;
        }
    }
    if (address == NULL && key_file != NULL) {
        fprintf(stderr, "boardprof: --key-file is for --listen; other lines have no key\n");
        return BP_POSIX_USAGE;
    }
    if (address != NULL) {
        return bp_posix_open_tcp(address, key_file);
    }
    return *stdio ? bp_stdio_open() : bp_posix_open_pty();
}

#if BP_CFG_HEAP

/* Of the main arena (mallinfo2(3)). The agent itself takes nothing from it. A request that was
 * refused leaves ENOMEM. */
bool bp_port_heap(bp_port_heap_t *out) {
#if defined(__GLIBC_PREREQ) && __GLIBC_PREREQ(2, 33)
    static uint32_t refused;
    if (errno == ENOMEM) {
        errno = 0;
        refused++;
    }
    *out = (bp_port_heap_t){
        .taken = (uint32_t)mallinfo2().uordblks, .refused = refused, .room = UINT32_MAX};
    return true;
#else
    (void)out;
    return false;
#endif
}

#endif

int bp_posix_program(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        bp_usage(stdout, argv[0]);
        return 0;
    }
    /* The parent process may have ignored these signals; both must end this process. */
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    /* Line-buffered, so that what a function prints appears even if it ends the process. */
    setvbuf(stdout, NULL, _IOLBF, 0);
    bool stdio = false; /* then the process ends with its host */
    int err = bp_open_line(argc, argv, &stdio);
    if (err != BP_POSIX_OK) {
        return err;
    }
    bp_port_init();
    if (!stdio) {
        bp_serve();
    }
    bp_init();
    while (bp_posix_is_open()) {
        if (bp_poll() == 0) {
            bp_port_idle();
        }
    }
    return 0;
}
