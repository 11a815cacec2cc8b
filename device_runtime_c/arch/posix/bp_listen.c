/* SPDX-License-Identifier: Apache-2.0 */
/* Where hosts connect. Any host that connects may write memory and run functions. So without a key
 * only this user of this machine may connect (bp_peer.h), and the agent refuses to listen
 * elsewhere. */

#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* accept4 */
#endif

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bp_key.h"
#include "bp_listen.h"
#include "bp_posix.h"

#define BP_LISTEN_BACKLOG 16

/* A host that vanished without closing is noticed after about IDLE + PROBES * INTERVAL. */
#define BP_LISTEN_IDLE_S 5
#define BP_LISTEN_INTERVAL_S 2
#define BP_LISTEN_PROBES 3

static int bp_listen_refuse(const char *address, const char *why, int code) {
    fprintf(stderr, "boardprof: cannot listen on '%s': %s\n", address, why);
    return code;
}

/* The host part of an address, brackets included. */
static bool bp_listen_host(const char *text, bp_listen_at_t *at) {
    char bare[INET6_ADDRSTRLEN];
    size_t length = strlen(text);
    if (strcmp(text, "localhost") == 0) {
        text = "127.0.0.1";
    }
    if (text[0] != '[') {
        at->any.sa_family = AF_INET;
        return inet_pton(AF_INET, text, &at->v4.sin_addr) == 1;
    }
    if (length < 2 || length - 2 >= sizeof bare || text[length - 1] != ']') {
        return false;
    }
    memcpy(bare, text + 1, length - 2);
    bare[length - 2] = '\0';
    at->any.sa_family = AF_INET6;
    return inet_pton(AF_INET6, bare, &at->v6.sin6_addr) == 1;
}

static int bp_listen_parse(const char *address, bp_listen_at_t *at) {
    const char *colon = strrchr(address, ':');
    char host[INET6_ADDRSTRLEN + 2];
    size_t length = colon != NULL ? (size_t)(colon - address) : 0;
    if (length == 0 || length >= sizeof host || colon[1] == '\0' ||
        colon[1 + strspn(colon + 1, "0123456789")] != '\0') {
        return bp_listen_refuse(address, "it must be HOST:PORT, as in 127.0.0.1:0", BP_POSIX_USAGE);
    }
    unsigned long port = strtoul(colon + 1, NULL, 10);
    if (port > 65535) {
        return bp_listen_refuse(address, "the port must be 0..65535", BP_POSIX_USAGE);
    }
    memcpy(host, address, length);
    host[length] = '\0';
    memset(at, 0, sizeof *at);
    if (!bp_listen_host(host, at)) {
        return bp_listen_refuse(address,
                                "the host must be localhost, an IPv4 address or an [IPv6 address]",
                                BP_POSIX_USAGE);
    }
    if (at->any.sa_family == AF_INET) {
        at->v4.sin_port = htons((uint16_t)port);
    } else {
        at->v6.sin6_port = htons((uint16_t)port);
    }
    return BP_POSIX_OK;
}

static bool bp_listen_is_loopback(const bp_listen_at_t *at) {
    return at->any.sa_family == AF_INET ? ntohl(at->v4.sin_addr.s_addr) >> 24 == 127
                                        : IN6_IS_ADDR_LOOPBACK(&at->v6.sin6_addr);
}

unsigned bp_listen_text(const bp_listen_at_t *at, char host[BP_LISTEN_TEXT]) {
    bool is_4 = at->any.sa_family == AF_INET;
    const void *address = is_4 ? (const void *)&at->v4.sin_addr : &at->v6.sin6_addr;
    (void)inet_ntop(at->any.sa_family, address, host, BP_LISTEN_TEXT);
    return ntohs(is_4 ? at->v4.sin_port : at->v6.sin6_port);
}

static void bp_listen_announce(const bp_listen_at_t *at) {
    char host[BP_LISTEN_TEXT] = "";
    unsigned port = bp_listen_text(at, host);
    printf(at->any.sa_family == AF_INET ? "listening on %s:%u\n" : "listening on [%s]:%u\n", host,
           port);
    fflush(stdout);
}

int bp_listen_open(const char *address, bool keyed, int *listener) {
    const int on = 1;
    bp_listen_at_t at;
    int err = bp_listen_parse(address, &at);
    if (err != BP_POSIX_OK) {
        return err;
    }
    if (!keyed && !bp_listen_is_loopback(&at)) {
        return bp_listen_refuse(
            address,
            "only loopback (127.x.y.z, [::1]) is allowed without a key; give a key by --key-file "
            "or BOARDPROF_KEY, or forward the port with ssh -L",
            BP_POSIX_USAGE);
    }
    socklen_t size = at.any.sa_family == AF_INET ? sizeof at.v4 : sizeof at.v6;
    /* Non-blocking, since a host may have gone again between poll() and accept(). Connections
     * block. */
    int fd = socket(at.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        bind(fd, &at.any, size) != 0 || listen(fd, BP_LISTEN_BACKLOG) != 0 ||
        getsockname(fd, &at.any, &size) != 0) {
        return bp_listen_refuse(address, strerror(errno), BP_POSIX_SYSTEM);
    }
    bp_listen_announce(&at);
    *listener = fd;
    return BP_POSIX_OK;
}

static void bp_listen_prepare(int fd) {
    const int on = 1, idle = BP_LISTEN_IDLE_S, interval = BP_LISTEN_INTERVAL_S;
    const int probes = BP_LISTEN_PROBES;
    const unsigned unheard_ms =
        1000u * (BP_LISTEN_IDLE_S + BP_LISTEN_PROBES * BP_LISTEN_INTERVAL_S);
    /* A reply is one small segment; Nagle's algorithm would delay the second one in a row. */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
    /* For bytes that are sent but not acknowledged: no keepalive is sent then. */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unheard_ms, sizeof unheard_ms);
}

int bp_listen_accept(int listener) {
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd >= 0) {
        bp_listen_prepare(fd);
    }
    return fd;
}
