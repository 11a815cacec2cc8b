/* SPDX-License-Identifier: Apache-2.0 */
/* The doorman: decides which of several hosts has the board. */

#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* POLLRDHUP */
#endif

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "boardprof/bp_frame.h"
#include "bp_door.h"
#include "bp_doorman.h"
#include "bp_doorman_frame.h"
#include "bp_listen.h"
#include "bp_peer.h"
#include "bp_posix.h"
#include "bp_sealer.h"

#define BP_DOORMAN_NONE (-1)
#define BP_DOORMAN_OWNER 32u
#define BP_DOORMAN_CHUNK 4096u

/* Bytes of a HELLO that this version knows. */
#define BP_DOORMAN_HELLO (BP_HELLO_LEN + BP_CLAIM_LEN)

/* Connections whose HELLO has not come yet. One more, and the oldest is closed. */
#define BP_DOORMAN_GUESTS 16

/* How long closing a host's line may take with a key, since one more process is involved. */
#define BP_DOORMAN_GRACE_MS 20

typedef struct {
    int fd;
    unsigned since;   /* number of its arrival */
    bool answered;    /* it got BUSY: ignore whatever it sends now */
    uint16_t length;  /* of `raw`; more than its size: too long for a HELLO */
    uint8_t raw[256]; /* bytes since the last delimiter */
} bp_guest_t;

static struct {
    int door; /* to the agent */
    int listener;
    int active; /* the agent's host; a copy of the agent's own descriptor */
    unsigned arrivals;
    bp_key_t *key;
    uint8_t owner[BP_DOORMAN_OWNER]; /* name of the agent's host */
    bp_guest_t guests[BP_DOORMAN_GUESTS];
} bp_doorman = {.active = BP_DOORMAN_NONE};

/// Guests, and the host that has the board ///

static void bp_doorman_dismiss(bp_guest_t *guest) {
    close(guest->fd);
    guest->fd = BP_DOORMAN_NONE;
}

static void bp_doorman_forget_active(void) {
    close(bp_doorman.active);
    bp_doorman.active = BP_DOORMAN_NONE;
}

static bool bp_doorman_is_taken(void) {
    struct pollfd active = {.fd = bp_doorman.active, .events = POLLRDHUP};
    int grace_ms = bp_doorman.key->length != 0 ? BP_DOORMAN_GRACE_MS : 0;
    if (bp_doorman.active != BP_DOORMAN_NONE && poll(&active, 1, grace_ms) > 0) {
        bp_doorman_forget_active();
    }
    return bp_doorman.active != BP_DOORMAN_NONE;
}

/* Tell the current host who takes the board over, and close its line on both sides. */
static void bp_doorman_end_active(const uint8_t *owner) {
    bp_doorman_say(bp_doorman.active, BP_KIND_BUSY, 0, 0, owner);
    shutdown(bp_doorman.active, SHUT_RDWR);
    bp_doorman_forget_active();
}

/* A HELLO with a body of `length` bytes has come from a guest, followed by `rest` bytes. */
static void bp_doorman_hello(bp_guest_t *guest, uint16_t session, uint32_t sequence,
                             const uint8_t *body, size_t length, const uint8_t *rest,
                             size_t rest_length) {
    uint8_t frame[BP_FRAME_BUFFER(BP_DOORMAN_HELLO)];
    size_t lead = BP_FRAME_LEAD(BP_FRAME_RAW(BP_DOORMAN_HELLO));
    uint8_t hello[BP_DOORMAN_HELLO] = {0}; /* without a claim: no takeover and no name */
    size_t known = length < sizeof hello ? length : sizeof hello;
    memcpy(hello, body, known);
    const uint8_t *owner = hello + BP_HELLO_LEN + 1;
    if (bp_doorman_is_taken()) {
        if ((hello[BP_HELLO_LEN] & BP_CLAIM_TAKEOVER) == 0) {
            bp_doorman_say(guest->fd, BP_KIND_BUSY, session, sequence, bp_doorman.owner);
            /* Not closed yet: closing with unread bytes would discard the answer (RFC
             * 1122, 4.2.2.13). */
            shutdown(guest->fd, SHUT_WR);
            guest->answered = true;
            return;
        }
        bp_doorman_end_active(owner);
    }
    memcpy(frame + lead + BP_FRAME_HEADER, hello, known);
    struct iovec bytes[] = {
        {.iov_base = frame,
         .iov_len = bp_frame_seal(frame, lead, known, BP_KIND_HELLO, session, sequence)},
        {.iov_base = (void *)(uintptr_t)rest, .iov_len = rest_length},
    };
    if (!bp_door_pass(bp_doorman.door, guest->fd, bytes, 2)) {
        bp_doorman_dismiss(guest);
        return;
    }
    bp_doorman.active = guest->fd;
    memcpy(bp_doorman.owner, owner, sizeof bp_doorman.owner);
    guest->fd = BP_DOORMAN_NONE;
}

/* A guest has sent a delimiter: answer as an agent without a session does. */
static void bp_doorman_judge(bp_guest_t *guest, const uint8_t *rest, size_t rest_length) {
    const uint8_t *frame;
    int length = guest->length > sizeof guest->raw
                     ? -1
                     : bp_doorman_decode(guest->raw, guest->length, &frame);
    guest->length = 0;
    if (length < 0) {
        bp_doorman_say(guest->fd, BP_KIND_NAK, 0, 0, NULL);
    }
    if (length <= 0) {
        return;
    }
    const uint8_t *body = frame + BP_FRAME_HEADER;
    size_t body_length = (size_t)length - BP_FRAME_HEADER - BP_FRAME_CRC;
    uint16_t session = bp_get_u16(frame + 1);
    uint32_t sequence = bp_get_u32(frame + 3);
    if ((frame[0] & 15u) == BP_KIND_HELLO) {
        if (body_length >= BP_HELLO_LEN && bp_get_u32(body) == BP_HELLO_MAGIC && session != 0) {
            bp_doorman_hello(guest, session, sequence, body, body_length, rest, rest_length);
        }
    } else if (frame[0] == (BP_PROTOCOL_VERSION << 4 | BP_KIND_CALL)) {
        bp_doorman_say(guest->fd, BP_KIND_NO_SESSION, session, sequence, NULL);
    }
}

static void bp_doorman_hear(bp_guest_t *guest) {
    uint8_t chunk[BP_DOORMAN_CHUNK];
    ssize_t got = recv(guest->fd, chunk, sizeof chunk, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (got <= 0) {
        bp_doorman_dismiss(guest);
        return;
    }
    for (size_t i = 0; i < (size_t)got && guest->fd != BP_DOORMAN_NONE && !guest->answered; i++) {
        if (chunk[i] == 0) {
            bp_doorman_judge(guest, chunk + i + 1, (size_t)got - i - 1);
        } else if (guest->length < sizeof guest->raw) {
            guest->raw[guest->length++] = chunk[i];
        } else {
            guest->length = sizeof guest->raw + 1;
        }
    }
}

/// Arrivals ///

/* In a child: close all other descriptors, or those lines would stay open. */
static void bp_doorman_leave(void) {
    close(bp_doorman.door);
    close(bp_doorman.listener);
    if (bp_doorman.active != BP_DOORMAN_NONE) {
        close(bp_doorman.active);
    }
    for (size_t i = 0; i < BP_DOORMAN_GUESTS; i++) {
        if (bp_doorman.guests[i].fd != BP_DOORMAN_NONE) {
            close(bp_doorman.guests[i].fd);
        }
    }
}

/* Start a sealer on `fd`; returns the descriptor of its other side. */
static int bp_doorman_with_key(int fd) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
        close(fd);
        return BP_DOORMAN_NONE;
    }
    pid_t child = fork();
    if (child == 0) {
        bp_doorman_leave();
        close(ends[0]);
        bp_sealer_run(fd, ends[1], bp_doorman.key);
    }
    close(fd);
    close(ends[1]);
    if (child < 0) {
        close(ends[0]);
        return BP_DOORMAN_NONE;
    }
    return ends[0];
}

static bp_guest_t *bp_doorman_place(void) {
    bp_guest_t *oldest = bp_doorman.guests;
    for (size_t i = 0; i < BP_DOORMAN_GUESTS; i++) {
        bp_guest_t *guest = &bp_doorman.guests[i];
        if (guest->fd == BP_DOORMAN_NONE) {
            return guest;
        }
        if (guest->since - bp_doorman.arrivals < oldest->since - bp_doorman.arrivals) {
            oldest = guest;
        }
    }
    bp_doorman_dismiss(oldest);
    return oldest;
}

static void bp_doorman_accept(void) {
    int fd = bp_listen_accept(bp_doorman.listener);
    if (fd < 0) {
        if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
            (void)poll(NULL, 0, BP_DOORMAN_GRACE_MS); /* out of descriptors: avoid a busy loop */
        }
        return;
    }
    if (bp_doorman.key->length == 0 && !bp_peer_may_connect(fd)) {
        static const char why[] = "boardprof: refused: another user's process. Give agent and host "
                                  "a key: --key-file or BOARDPROF_KEY\n";
        (void)send(fd, why, sizeof why - 1, MSG_DONTWAIT | MSG_NOSIGNAL);
        close(fd);
        return;
    }
    bp_guest_t *guest = bp_doorman_place();
    if (bp_doorman.key->length != 0) {
        fd = bp_doorman_with_key(fd);
    }
    *guest = (bp_guest_t){.fd = fd, .since = bp_doorman.arrivals++};
}

/// The process ///

/* poll() has failed, for example because its entries exceed RLIMIT_NOFILE. Wait a moment, so as not
 * to spin, and end if the agent has ended. */
static void bp_doorman_do_without_poll(void) {
    char none;
    ssize_t got = recv(bp_doorman.door, &none, 1, MSG_PEEK | MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
        _exit(0); /* the agent has ended */
    }
    usleep(1000 * BP_DOORMAN_GRACE_MS);
}

static _Noreturn void bp_doorman_run(void) {
    enum { DOOR, LISTENER, ACTIVE, GUESTS, ALL = GUESTS + BP_DOORMAN_GUESTS };
    for (;;) {
        bp_guest_t *heard[ALL];
        nfds_t count = GUESTS;
        /* poll() ignores negative descriptors. */
        struct pollfd wait[ALL] = {
            [DOOR] = {.fd = bp_doorman.door},
            [LISTENER] = {.fd = bp_doorman.listener, .events = POLLIN},
            [ACTIVE] = {.fd = bp_doorman.active, .events = POLLRDHUP},
        };
        for (size_t i = 0; i < BP_DOORMAN_GUESTS; i++) {
            if (bp_doorman.guests[i].fd !=
                BP_DOORMAN_NONE) { /* few entries: RLIMIT_NOFILE may be low */
                heard[count] = &bp_doorman.guests[i];
                wait[count] = (struct pollfd){.fd = heard[count]->fd, .events = POLLIN};
                count++;
            }
        }
        if (poll(wait, count, -1) < 0) {
            if (errno != EINTR) {
                bp_doorman_do_without_poll();
            }
            continue;
        }
        if (wait[DOOR].revents != 0) {
            _exit(0); /* the agent has ended */
        }
        if (wait[ACTIVE].revents != 0) {
            bp_doorman_forget_active();
        }
        for (nfds_t i = GUESTS; i < count; i++) {
            if (wait[i].revents != 0) {
                bp_doorman_hear(heard[i]);
            }
        }
        /* Last, since a new guest may take the place of one that is still in `wait`. */
        if (wait[LISTENER].revents != 0) {
            bp_doorman_accept();
        }
    }
}

int bp_doorman_start(int listener, bp_key_t *key) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
        return -1;
    }
    fflush(NULL); /* otherwise both processes would write what is buffered */
    pid_t child = fork();
    if (child == 0) {
        signal(SIGCHLD, SIG_IGN); /* nobody waits for the children */
        close(ends[0]);
        bp_doorman.door = ends[1];
        bp_doorman.listener = listener;
        bp_doorman.key = key;
        for (size_t i = 0; i < BP_DOORMAN_GUESTS; i++) {
            bp_doorman.guests[i].fd = BP_DOORMAN_NONE;
        }
        bp_doorman_run();
    }
    int err = errno;
    close(ends[1]);
    close(listener);
    if (child < 0) {
        close(ends[0]);
        errno = err;
        return -1;
    }
    return ends[0];
}
