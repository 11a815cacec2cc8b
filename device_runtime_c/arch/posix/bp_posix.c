/* SPDX-License-Identifier: Apache-2.0 */
/* The port (bp_port.h) for programs of a POSIX system: TCP, pseudo-terminal, socket. */

#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* cfmakeraw, getrandom, CLOCK_MONOTONIC_RAW */
#endif

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "boardprof/bp.h"
#include "boardprof/bp_port.h"
#include "bp_door.h"
#include "bp_doorman.h"
#include "bp_key.h"
#include "bp_listen.h"
#include "bp_posix.h"
#include "bp_ring.h"

#define BP_POSIX_NONE (-1)

/* How long a host may take for a write: a second, and what a line of 1000 bytes a second takes. The
 * rest is dropped. Then no write waits until the host has taken a whole one: it hangs. */
#define BP_POSIX_WRITE_MS(length) (1000u + (length))

static struct {
    int door; /* where the next host comes from; BP_POSIX_NONE: no other host can come */
    int fd;   /* the host; BP_POSIX_NONE if there is no host now */
    bool is_tty;
    bool drained; /* the last read took everything */
    bool hangs;
    size_t head; /* bp_posix_in[head..tail) has arrived and is not yet taken */
    size_t tail;
} bp_posix = {.door = BP_POSIX_NONE, .fd = BP_POSIX_NONE};

/* One system call reads what the agent takes in small pieces. */
static uint8_t bp_posix_in[65536];

/// Opening the line ///

/* Begin with a new host and what it has already sent. Nothing from the previous host may reach it.
 */
static void bp_posix_begin(int fd, size_t length) {
    bp_posix.fd = fd;
    bp_posix.is_tty = false;
    bp_posix.drained = false;
    bp_posix.hangs = false;
    bp_posix.head = 0;
    bp_posix.tail = length;
#if BP_POSIX_RING
    bp_ring_begin(fd, bp_posix_in, length);
    bp_posix.tail = 0;
#endif
}

static int bp_posix_refuse(const char *what) {
    fprintf(stderr, "boardprof: cannot serve %s: %s\n", what, strerror(errno));
    return BP_POSIX_SYSTEM;
}

int bp_posix_open_tcp(const char *address, const char *key_file) {
    static bp_key_t key; /* the doorman has a copy */
    int listener;
    int err = bp_key_load(&key, key_file);
    if (err == BP_POSIX_OK) {
        err = bp_listen_open(address, key.length != 0, &listener);
    }
    if (err == BP_POSIX_OK) {
        bp_posix.door = bp_doorman_start(listener, &key);
        err = bp_posix.door >= 0 ? BP_POSIX_OK : bp_posix_refuse(address);
    }
    explicit_bzero(&key, sizeof key);
    return err;
}

int bp_posix_open_pty(void) {
    struct termios mode;
    int fd = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
    const char *name = fd >= 0 && grantpt(fd) == 0 && unlockpt(fd) == 0 ? ptsname(fd) : NULL;
    /* Kept open for good: if nobody had it open, reads would fail after the first host has gone. */
    int other = name != NULL ? open(name, O_RDWR | O_NOCTTY | O_CLOEXEC) : -1;
    if (other < 0 || tcgetattr(other, &mode) != 0) {
        return bp_posix_refuse("a pseudo-terminal");
    }
    cfmakeraw(&mode);
    if (tcsetattr(other, TCSANOW, &mode) != 0) {
        return bp_posix_refuse("a pseudo-terminal");
    }
    bp_posix_begin(fd, 0);
    bp_posix.is_tty = true;
    printf("listening on %s\n", name);
    fflush(stdout);
    return BP_POSIX_OK;
}

int bp_posix_open_tty(const char *path) {
    struct termios mode;
    int fd = open(path, O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || tcgetattr(fd, &mode) != 0) {
        return bp_posix_refuse(path);
    }
    cfmakeraw(&mode);
    if (tcsetattr(fd, TCSAFLUSH, &mode) != 0) { /* nor what came before */
        return bp_posix_refuse(path);
    }
    bp_posix_begin(fd, 0);
    bp_posix.is_tty = true;
    return BP_POSIX_OK;
}

void bp_posix_use_socket(int fd) {
    bp_posix.door = BP_POSIX_NONE;
    bp_posix_begin(fd, 0);
}

bool bp_posix_is_open(void) {
    return bp_posix.door != BP_POSIX_NONE || bp_posix.fd != BP_POSIX_NONE;
}

/// Reading and writing ///

static void bp_posix_hang_up(void) {
#if BP_POSIX_RING
    bp_ring_end();
#endif
    if (bp_posix.door != BP_POSIX_NONE) {
        shutdown(bp_posix.fd, SHUT_RDWR); /* the doorman also has the descriptor */
        close(bp_posix.fd);
    }
    bp_posix.fd = BP_POSIX_NONE;
}

/* Wait until the host's line is ready, or a signal comes; -1: for ever. False after that time. So a
 * caller with a limit looks at the clock itself: a timer may send signals for ever. */
static bool bp_posix_wait(short events, int timeout_ms) {
    struct pollfd entry = {.fd = bp_posix.fd, .events = events};
    return poll(&entry, 1, timeout_ms) != 0;
}

/* Wait for a host. If `wait` is false, only check whether one has come. */
static void bp_posix_accept(bool wait) {
    size_t length;
    int fd = bp_posix.door != BP_POSIX_NONE
                 ? bp_door_take(bp_posix.door, wait, bp_posix_in, sizeof bp_posix_in, &length)
                 : -1;
    if (fd >= 0) {
        bp_posix_begin(fd, length);
    }
}

#if BP_POSIX_RING

size_t bp_port_read(uint8_t *buffer, size_t capacity) {
    size_t taken = bp_posix.fd != BP_POSIX_NONE ? bp_ring_take(buffer, capacity) : 0;
    if (taken == 0 && bp_posix.fd == BP_POSIX_NONE) {
        bp_posix_accept(false);
    }
    return taken;
}

void bp_port_idle(void) {
    if (bp_posix.fd == BP_POSIX_NONE) {
        bp_posix_accept(true);
    } else if (!bp_ring_wait()) {
        bp_posix_hang_up();
    }
}

#else

/* Fill the empty buffer, or notice that the host has gone. */
static void bp_posix_fill(bool wait) {
    if (bp_posix.fd == BP_POSIX_NONE) {
        bp_posix_accept(wait);
        return;
    }
    if (wait && bp_posix.is_tty) { /* its descriptor is non-blocking, and probably empty */
        (void)bp_posix_wait(POLLIN, -1);
    }
    ssize_t got = bp_posix.is_tty
                      ? read(bp_posix.fd, bp_posix_in, sizeof bp_posix_in)
                      : recv(bp_posix.fd, bp_posix_in, sizeof bp_posix_in, wait ? 0 : MSG_DONTWAIT);
    if (got > 0) {
        bp_posix.head = 0;
        bp_posix.tail = (size_t)got;
        bp_posix.drained = (size_t)got < sizeof bp_posix_in;
    } else if (got < 0 && errno == EAGAIN) {
        /* A non-blocking descriptor. A blocking socket never gets here with `wait`. */
        if (wait) {
            (void)bp_posix_wait(POLLIN, -1);
        }
    } else if (got == 0 || errno != EINTR) {
        bp_posix_hang_up();
    }
}

size_t bp_port_read(uint8_t *buffer, size_t capacity) {
    if (bp_posix.head == bp_posix.tail) {
        /* The last read took everything, so the next one would probably return nothing. Skipping it
         * once saves a system call in every round trip. */
        if (bp_posix.drained) {
            bp_posix.drained = false;
            return 0;
        }
        bp_posix_fill(false);
    }
    size_t waiting = bp_posix.tail - bp_posix.head;
    size_t taken = waiting < capacity ? waiting : capacity;
    memcpy(buffer, bp_posix_in + bp_posix.head, taken);
    bp_posix.head += taken;
    return taken;
}

void bp_port_idle(void) {
    if (bp_posix.head == bp_posix.tail && bp_posix_is_open()) {
        bp_posix_fill(true);
    }
}

#endif

void bp_port_write(const uint8_t *buffer, size_t length) {
    uint64_t until_ms = 0;
    while (length != 0 && bp_posix.fd != BP_POSIX_NONE) {
        ssize_t sent = bp_posix.is_tty
                           ? write(bp_posix.fd, buffer, length)
                           : send(bp_posix.fd, buffer, length, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent >= 0) {
            buffer += sent;
            length -= (size_t)sent;
        } else if (errno == EAGAIN) {
            uint64_t now_ms = bp_port_ticks() / 1000000u;
            if (until_ms == 0) {
                until_ms = now_ms + (bp_posix.hangs ? 0 : BP_POSIX_WRITE_MS(length));
            }
            bp_posix.hangs =
                now_ms >= until_ms || !bp_posix_wait(POLLOUT, (int)(until_ms - now_ms));
            if (bp_posix.hangs) {
                return;
            }
        } else if (errno != EINTR) {
            bp_posix_hang_up();
        }
    }
    bp_posix.hangs = false;
}

/// Clocks and resets ///

/* Raw: no time server can adjust it within a measured window (clock_gettime(2)). */
static const char bp_clock_source[] BP_ROM = "CLOCK_MONOTONIC_RAW";

const bp_port_clock_t bp_port_clock BP_ROM = {
    .source = bp_clock_source,
    .ticks_hz = 1000000000u,
    .ticks_bits = 64,
    .ticks_in_sleep = true,
};

uint64_t bp_port_ticks(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_RAW, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint32_t bp_port_coarse(void) {
    return 0;
}

void bp_port_init(void) {
}

#if BP_CFG_ARENA_MARGIN

/* If this fails, only the margin remains. */
void bp_port_fence(uint8_t *begin, size_t length) {
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t first = ((uintptr_t)begin + page - 1) / page * page;
    uintptr_t end = ((uintptr_t)begin + length) / page * page;
    if (first < end) {
        (void)mprotect((void *)first, end - first, PROT_NONE);
    }
}

#endif

uint8_t bp_port_reset_cause(void) {
    return BP_RESET_POWER_ON; /* a new process, or a new agent in one */
}

#ifndef GRND_INSECURE
#define GRND_INSECURE 4 /* linux/random.h; C libraries before 2020 lack it */
#endif

/* It must differ from the last one, but need not be secret. So do not wait for entropy: a machine
 * that has just started and has no source of it would collect it for a second (random(7)). */
uint32_t bp_port_boot_id(void) {
    uint32_t id;
    if (getrandom(&id, sizeof id, GRND_INSECURE) != (ssize_t)sizeof id && /* since Linux 5.6 */
        getrandom(&id, sizeof id, 0) != (ssize_t)sizeof id) {
        id = (uint32_t)bp_port_ticks();
    }
    return id;
}
