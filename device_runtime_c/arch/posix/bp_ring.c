/* SPDX-License-Identifier: Apache-2.0 */
/* A receive ring of BP_POSIX_RING bytes that a thread fills. */

#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* pthread_sigmask */
#endif

#include "bp_ring.h"
#include "bp_posix.h"

#if BP_POSIX_RING

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    bool begun; /* there is a thread to be joined */
    bool ended; /* nothing more will come */
    int fd;
    size_t head; /* of the next byte to be taken */
    size_t used;
    uint32_t dropped;
    uint8_t bytes[BP_POSIX_RING];
} bp_ring = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void bp_ring_put(const uint8_t *bytes, size_t length) {
    pthread_mutex_lock(&bp_ring.lock);
    for (size_t i = 0; i < length; i++) {
        if (bp_ring.used < sizeof bp_ring.bytes) {
            bp_ring.bytes[(bp_ring.head + bp_ring.used++) % sizeof bp_ring.bytes] = bytes[i];
        } else {
            bp_ring.dropped++;
        }
    }
    pthread_cond_signal(&bp_ring.changed);
    pthread_mutex_unlock(&bp_ring.lock);
}

static void *bp_ring_run(void *unused) {
    uint8_t chunk[4096];
    struct pollfd wait = {.fd = bp_ring.fd, .events = POLLIN};
    for (;;) {
        ssize_t got = read(bp_ring.fd, chunk, sizeof chunk);
        if (got > 0) {
            bp_ring_put(chunk, (size_t)got);
        } else if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
            (void)poll(&wait, 1, -1);
        } else {
            break;
        }
    }
    pthread_mutex_lock(&bp_ring.lock);
    bp_ring.ended = true;
    pthread_cond_signal(&bp_ring.changed);
    pthread_mutex_unlock(&bp_ring.lock);
    return unused;
}

void bp_ring_begin(int fd, const uint8_t *bytes, size_t length) {
    sigset_t all, before;
    bp_ring_end();
    bp_ring.fd = fd;
    bp_ring.head = bp_ring.used = 0;
    bp_ring.ended = false;
    bp_ring_put(bytes, length);
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before); /* signals go to the agent's own thread */
    bp_ring.begun = pthread_create(&bp_ring.thread, NULL, bp_ring_run, NULL) == 0;
    if (!bp_ring.begun) { /* otherwise the thread sets it, perhaps already */
        bp_ring.ended = true;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

size_t bp_ring_take(uint8_t *buffer, size_t capacity) {
    size_t taken = 0;
    pthread_mutex_lock(&bp_ring.lock);
    for (; taken < capacity && bp_ring.used != 0; taken++, bp_ring.used--) {
        buffer[taken] = bp_ring.bytes[bp_ring.head];
        bp_ring.head = (bp_ring.head + 1) % sizeof bp_ring.bytes;
    }
    pthread_mutex_unlock(&bp_ring.lock);
    return taken;
}

bool bp_ring_wait(void) {
    pthread_mutex_lock(&bp_ring.lock);
    while (bp_ring.used == 0 && !bp_ring.ended) {
        pthread_cond_wait(&bp_ring.changed, &bp_ring.lock);
    }
    bool more = bp_ring.used != 0;
    pthread_mutex_unlock(&bp_ring.lock);
    return more;
}

void bp_ring_end(void) {
    if (bp_ring.begun) {
        (void)shutdown(bp_ring.fd, SHUT_RDWR); /* this ends the thread's read */
        pthread_join(bp_ring.thread, NULL);
        bp_ring.begun = false;
    }
}

uint32_t bp_posix_ring_dropped(void) {
    pthread_mutex_lock(&bp_ring.lock);
    uint32_t dropped = bp_ring.dropped;
    pthread_mutex_unlock(&bp_ring.lock);
    return dropped;
}

#else

uint32_t bp_posix_ring_dropped(void) {
    return 0;
}

#endif
