/* SPDX-License-Identifier: Apache-2.0 */
/* Passes bytes between standard input and output and the agent, which is a child process. */

#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* prctl, SOCK_CLOEXEC */
#endif

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bp_posix.h"
#include "bp_stdio.h"

enum { BP_STDIO_BYTES = 65536, BP_STDIO_LAST_MS = 2000 };

/* Write everything. False if the other side has gone. */
static bool bp_stdio_write(int fd, const uint8_t *bytes, size_t length) {
    while (length != 0) {
        ssize_t written = write(fd, bytes, length);
        if (written > 0) {
            bytes += written;
            length -= (size_t)written;
        } else if (written == 0 || errno != EINTR) {
            return false;
        }
    }
    return true;
}

/* Pass on what there is. False at the end, or if the other side has gone. */
static bool bp_stdio_pass(int from, int to) {
    static uint8_t bytes[BP_STDIO_BYTES];
    ssize_t got;
    do {
        got = read(from, bytes, sizeof bytes);
    } while (got < 0 && errno == EINTR);
    return got > 0 && bp_stdio_write(to, bytes, (size_t)got);
}

/* Pass bytes on until one side ends. Returns the exit code of the agent. */
static int bp_stdio_relay(int agent, pid_t child) {
    struct pollfd sides[] = {{.fd = STDIN_FILENO, .events = POLLIN},
                             {.fd = agent, .events = POLLIN}};
    bool open = true;
    while (open) {
        if (poll(sides, 2, -1) < 0) {
            open = errno == EINTR;
            continue;
        }
        if (sides[1].revents != 0) {
            open = bp_stdio_pass(agent, STDOUT_FILENO);
        }
        if (open && sides[0].revents != 0) {
            open = bp_stdio_pass(STDIN_FILENO, agent);
        }
    }
    close(agent);
    /* The agent ends by itself, except in a call. */
    int status = 0;
    for (int waited_ms = 0; waitpid(child, &status, WNOHANG) == 0; waited_ms += 10) {
        if (waited_ms == BP_STDIO_LAST_MS) {
            kill(child, SIGKILL);
        }
        (void)poll(NULL, 0, 10);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int bp_stdio_open(void) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
        fprintf(stderr, "boardprof: cannot serve standard input: %s\n", strerror(errno));
        return BP_POSIX_SYSTEM;
    }
    signal(SIGPIPE, SIG_IGN);
    printf("listening on standard input\n");
    fflush(stdout);
    pid_t parent = getpid();
    pid_t child = fork();
    if (child < 0) {
        fprintf(stderr, "boardprof: cannot serve standard input: %s\n", strerror(errno));
        return BP_POSIX_SYSTEM;
    }
    if (child != 0) {
        close(ends[0]);
        _exit(bp_stdio_relay(ends[1], child));
    }
    close(ends[1]);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) { /* it ended before prctl */
        _exit(BP_POSIX_SYSTEM);
    }
    /* What a function prints must not get between the frames, and none may read the host's. */
    dup2(STDERR_FILENO, STDOUT_FILENO);
    close(STDIN_FILENO);
    bp_posix_use_socket(ends[0]);
    return BP_POSIX_OK;
}
