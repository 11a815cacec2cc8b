/* SPDX-License-Identifier: Apache-2.0 */
/* A connection with a key: challenge, response, records. protocol/SPEC.md 9. */

#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* getrandom, explicit_bzero */
#endif

#include "bp_sealer.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "boardprof/bp_le.h"
#include "bp_listen.h"

#define BP_SEALER_GREETING "boardprof-key-1 "
#define BP_SEALER_DEADLINE_S 10

enum {
    BP_SEALER_GREETING_LEN = sizeof BP_SEALER_GREETING - 1,
    BP_SEALER_NONCE_AT = BP_SEALER_GREETING_LEN,
    BP_SEALER_PROOF_AT = BP_SEALER_NONCE_AT + 2 * BP_KEY_NONCE + 1,
    BP_SEALER_RESPONSE = BP_SEALER_PROOF_AT + 2 * BP_KEY_MAC + 1, /* including its line feed */
};

/* One direction: a record that is being received, or bytes to send before the next one. */
typedef struct {
    bp_seal_t seal;
    size_t got;  /* bytes of an arriving record that are there */
    size_t head; /* buffer[head..tail) must be sent */
    size_t tail;
    uint8_t buffer[BP_RECORD_BUFFER];
} bp_sealer_way_t;

static bp_sealer_way_t bp_sealer_in;  /* network to board */
static bp_sealer_way_t bp_sealer_out; /* board to network */
static int bp_sealer_network;
static int bp_sealer_board;

static void bp_sealer_tell(const char *why) {
    bp_listen_at_t at;
    socklen_t size = sizeof at;
    char host[BP_LISTEN_TEXT] = "?";
    unsigned port = 0;
    if (getpeername(bp_sealer_network, &at.any, &size) == 0) {
        port = bp_listen_text(&at, host);
    }
    fprintf(stderr, "boardprof: the host at %s port %u was cut off: %s\n", host, port, why);
}

/// Challenge and response ///

static void bp_sealer_hex(char *out, const uint8_t *bytes, size_t length) {
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < length; i++) {
        *out++ = digits[bytes[i] >> 4];
        *out++ = digits[bytes[i] & 15];
    }
}

static bool bp_sealer_unhex(uint8_t *out, const char *text, size_t length) {
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < 2 * length; i++) {
        const char *digit = text[i] != '\0' ? strchr(digits, text[i]) : NULL;
        if (digit == NULL) {
            return false;
        }
        out[i / 2] = (uint8_t)(out[i / 2] << 4 | (uint8_t)(digit - digits));
    }
    return true;
}

/* Send a short line that begins with the greeting's word. The connection is new, so there is room.
 */
static void bp_sealer_line(const uint8_t *bytes, size_t length) {
    char line[BP_SEALER_GREETING_LEN + 2 * BP_KEY_MAC + 1] = BP_SEALER_GREETING;
    bp_sealer_hex(line + BP_SEALER_GREETING_LEN, bytes, length);
    line[BP_SEALER_GREETING_LEN + 2 * length] = '\n';
    (void)send(bp_sealer_network, line, BP_SEALER_GREETING_LEN + 2 * length + 1, MSG_NOSIGNAL);
}

static _Noreturn void bp_sealer_refuse(const char *why) {
    static const char refused[] = BP_SEALER_GREETING "refused\n";
    char rest[256];
    bp_sealer_tell(why);
    alarm(1); /* for everything below */
    (void)send(bp_sealer_network, refused, sizeof refused - 1, MSG_NOSIGNAL);
    shutdown(bp_sealer_network, SHUT_WR);
    /* Read what the host still sends; otherwise the connection's reset could overtake the answer.
     */
    while (recv(bp_sealer_network, rest, sizeof rest, 0) > 0) {
    }
    _exit(0);
}

/* Wait for a byte from the host. Stop if the doorman has closed its line in favour of other hosts:
 * a host without a key must not occupy a process for long. */
static bool bp_sealer_byte(char *byte) {
    struct pollfd wait[2] = {{.fd = bp_sealer_network, .events = POLLIN}, {.fd = bp_sealer_board}};
    while (poll(wait, 2, -1) < 0) {
        if (errno != EINTR) {
            return false;
        }
    }
    return wait[1].revents == 0 && recv(bp_sealer_network, byte, 1, 0) == 1;
}

/* Read the response byte by byte, since records follow it. False: it is not a response. */
static bool bp_sealer_response(char line[BP_SEALER_RESPONSE]) {
    for (size_t i = 0; i < BP_SEALER_RESPONSE; i++) {
        if (!bp_sealer_byte(line + i)) {
            _exit(0); /* the host has gone */
        }
        if (i < BP_SEALER_GREETING_LEN && line[i] != BP_SEALER_GREETING[i]) {
            return false;
        }
    }
    return line[BP_SEALER_PROOF_AT - 1] == ' ' && line[BP_SEALER_RESPONSE - 1] == '\n';
}

static void bp_sealer_shake_hands(bp_key_t *key) {
    uint8_t nonces[2 * BP_KEY_NONCE], shown[BP_KEY_MAC], proof[BP_KEY_MAC];
    char line[BP_SEALER_RESPONSE];
    signal(SIGALRM, SIG_DFL);
    alarm(BP_SEALER_DEADLINE_S); /* disconnect a host that takes longer */
    if (getrandom(nonces, BP_KEY_NONCE, 0) != (ssize_t)BP_KEY_NONCE) {
        bp_sealer_tell("there is no entropy");
        _exit(0);
    }
    bp_sealer_line(nonces, BP_KEY_NONCE);
    if (!bp_sealer_response(line) ||
        !bp_sealer_unhex(nonces + BP_KEY_NONCE, line + BP_SEALER_NONCE_AT, BP_KEY_NONCE) ||
        !bp_sealer_unhex(shown, line + BP_SEALER_PROOF_AT, BP_KEY_MAC)) {
        bp_sealer_refuse("it showed no key");
    }
    bp_key_derive(key, BP_SEALER_GREETING "host", nonces, proof);
    if (!bp_key_equal(proof, shown, sizeof proof)) {
        bp_sealer_refuse("its key is another one");
    }
    bp_key_derive(key, BP_SEALER_GREETING "agent", nonces, proof);
    bp_sealer_line(proof, sizeof proof);
    bp_key_derive(key, BP_SEALER_GREETING "to agent", nonces, bp_sealer_in.seal.key);
    bp_key_derive(key, BP_SEALER_GREETING "to host", nonces, bp_sealer_out.seal.key);
    explicit_bzero(key, sizeof *key); /* so that this line cannot endanger any other line */
    alarm(0);
}

/// Records ///

/* Returns true if recv() or send() must be tried again later. If the line has ended, it does not
 * return. */
static bool bp_sealer_later(ssize_t done) {
    if (done > 0) {
        return false;
    }
    if (done < 0 && (errno == EAGAIN || errno == EINTR)) {
        return true;
    }
    _exit(0);
}

static void bp_sealer_flush(bp_sealer_way_t *way, int to) {
    ssize_t sent =
        send(to, way->buffer + way->head, way->tail - way->head, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (!bp_sealer_later(sent)) {
        way->head += (size_t)sent;
    }
}

static void bp_sealer_read_network(void) {
    bp_sealer_way_t *way = &bp_sealer_in;
    uint8_t *record = way->buffer + BP_RECORD_COUNTER;
    size_t length = way->got >= BP_RECORD_HEAD ? bp_get_u16(record) : 0;
    size_t whole =
        way->got >= BP_RECORD_HEAD ? BP_RECORD_HEAD + length + BP_RECORD_TAG : BP_RECORD_HEAD;
    ssize_t got = recv(bp_sealer_network, record + way->got, whole - way->got, MSG_DONTWAIT);
    if (bp_sealer_later(got)) {
        return;
    }
    way->got += (size_t)got;
    if (way->got < BP_RECORD_HEAD + BP_RECORD_TAG || way->got < whole) {
        return;
    }
    if (length == 0 || !bp_seal_open(&way->seal, way->buffer, length)) {
        bp_sealer_tell("a record is not authentic (damaged, forged, repeated or out of order)");
        _exit(0);
    }
    way->got = 0;
    way->head = BP_RECORD_COUNTER + BP_RECORD_HEAD;
    way->tail = way->head + length;
}

static void bp_sealer_read_board(void) {
    bp_sealer_way_t *way = &bp_sealer_out;
    uint8_t *payload = way->buffer + BP_RECORD_COUNTER + BP_RECORD_HEAD;
    ssize_t got = recv(bp_sealer_board, payload, BP_RECORD_PAYLOAD, MSG_DONTWAIT);
    if (!bp_sealer_later(got)) {
        way->head = BP_RECORD_COUNTER;
        way->tail = way->head + bp_seal_close(&way->seal, way->buffer, (size_t)got);
    }
}

static bool bp_sealer_pending(const bp_sealer_way_t *way) {
    return way->head != way->tail;
}

_Noreturn void bp_sealer_run(int network, int board, bp_key_t *key) {
    bp_sealer_network = network;
    bp_sealer_board = board;
    bp_sealer_shake_hands(key);
    for (;;) {
        bool in = bp_sealer_pending(&bp_sealer_in), out = bp_sealer_pending(&bp_sealer_out);
        struct pollfd wait[2] = {
            {.fd = network, .events = (short)((in ? 0 : POLLIN) | (out ? POLLOUT : 0))},
            {.fd = board, .events = (short)((out ? 0 : POLLIN) | (in ? POLLOUT : 0))},
        };
        if (poll(wait, 2, -1) < 0 && errno != EINTR) {
            _exit(0); /* otherwise this process would spin, whichever side has gone */
        }
        if (in && (wait[0].revents & (POLLHUP | POLLERR)) != 0) {
            _exit(0); /* nobody is left to receive an answer */
        }
        if (out && (wait[1].revents & (POLLHUP | POLLERR)) != 0 && poll(wait, 1, 1000) <= 0) {
            _exit(0); /* the board has gone, and its last bytes cannot be sent */
        }
        if (wait[0].revents != 0 || wait[1].revents != 0) {
            in ? bp_sealer_flush(&bp_sealer_in, board) : bp_sealer_read_network();
            out ? bp_sealer_flush(&bp_sealer_out, network) : bp_sealer_read_board();
        }
    }
}
