/* SPDX-License-Identifier: Apache-2.0 */
/* The floor of a null call: takes REQUEST_BYTES, gives REPLY_BYTES back, and does nothing else.
 * usage: rpc_echo tcp|pty REQUEST_BYTES REPLY_BYTES. Prints where it listens, as an agent does. */

#define _GNU_SOURCE

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <termios.h>
#include <unistd.h>

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static int accept_one(void) {
    const int on = 1;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof at;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    if (listener < 0 || bind(listener, (const struct sockaddr *)&at, size) != 0 ||
        listen(listener, 1) != 0 || getsockname(listener, (struct sockaddr *)&at, &size) != 0) {
        fail("listen");
    }
    printf("listening on 127.0.0.1:%u\n", (unsigned)ntohs(at.sin_port));
    fflush(stdout);
    int fd = accept(listener, NULL, NULL);
    if (fd < 0 || setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0) {
        fail("accept");
    }
    return fd;
}

static int open_pty(void) {
    struct termios mode;
    int fd = posix_openpt(O_RDWR | O_NOCTTY);
    const char *name = fd >= 0 && grantpt(fd) == 0 && unlockpt(fd) == 0 ? ptsname(fd) : NULL;
    /* Kept open: without any opener, reads would fail before the host has come. */
    int other = name != NULL ? open(name, O_RDWR | O_NOCTTY) : -1;
    if (other < 0 || tcgetattr(other, &mode) != 0) {
        fail("pty");
    }
    cfmakeraw(&mode);
    if (tcsetattr(other, TCSANOW, &mode) != 0) {
        fail("tcsetattr");
    }
    printf("listening on %s\n", name);
    fflush(stdout);
    return fd;
}

int main(int argc, char **argv) {
    static char buffer[65536];
    static char reply[65536];
    if (argc != 4) {
        return 2;
    }
    bool tcp = strcmp(argv[1], "tcp") == 0;
    ssize_t request_bytes = atoi(argv[2]);
    size_t reply_bytes = (size_t)atoi(argv[3]);
    int fd = tcp ? accept_one() : open_pty();
    memset(reply, 'x', sizeof reply);
    for (ssize_t have = 0;;) {
        ssize_t got = tcp ? recv(fd, buffer, sizeof buffer, 0) : read(fd, buffer, sizeof buffer);
        if (got <= 0) {
            return 0;
        }
        for (have += got; have >= request_bytes; have -= request_bytes) {
            ssize_t sent =
                tcp ? send(fd, reply, reply_bytes, MSG_NOSIGNAL) : write(fd, reply, reply_bytes);
            if (sent != (ssize_t)reply_bytes) {
                return 1;
            }
        }
    }
}
