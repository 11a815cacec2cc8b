/* SPDX-License-Identifier: Apache-2.0 */
/* A process of this machine that serves TCP or a pseudo-terminal. */

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "boardprof/bp.h"
#include "boardprof/bp_port.h"
#include "bp_posix.h"

static void bp_usage(FILE *out, const char *program) {
    fprintf(out,
            "usage: %s [--listen HOST:PORT | --pty]\n"
            "  --listen HOST:PORT  serve TCP at a loopback address; PORT 0 takes any free one\n"
            "                      (default: 127.0.0.1:0)\n"
            "  --pty               serve a pseudo-terminal\n"
            "  --help              print this\n"
            "Prints `listening on ...` and serves one host at a time until it is killed.\n",
            program);
}

/* The last option wins. Returns an enum bp_posix_exit. */
static int bp_open_line(int argc, char **argv) {
    const char *address = "127.0.0.1:0"; /* NULL: a pseudo-terminal */
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--pty") == 0) {
            address = NULL;
        } else if (strcmp(argv[i], "--listen") == 0 && i + 1 < argc) {
            address = argv[++i];
        } else {
            fprintf(stderr, "boardprof: option '%s' is unknown or lacks its value\n", argv[i]);
            bp_usage(stderr, argv[0]);
            return BP_POSIX_USAGE;
        }
    }
    return address != NULL ? bp_posix_open_tcp(address) : bp_posix_open_pty();
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        bp_usage(stdout, argv[0]);
        return 0;
    }
    /* Whoever started this process may have had them ignored; both must end it. */
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    /* Whatever the functions print shall be seen even if one of them ends the process. */
    setvbuf(stdout, NULL, _IOLBF, 0);
    int err = bp_open_line(argc, argv);
    if (err != BP_POSIX_OK) {
        return err;
    }
    bp_port_init();
    bp_serve(&bp_firmware);
}
