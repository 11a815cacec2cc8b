/* SPDX-License-Identifier: Apache-2.0 */
/* Passes connections from one process to another: unix(7), SCM_RIGHTS. */

#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* MSG_CMSG_CLOEXEC */
#endif

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bp_door.h"
#include "bp_posix.h"

/* Aligned as the system requires, with room for one descriptor. */
typedef union {
    struct cmsghdr head;
    char room[CMSG_SPACE(sizeof(int))];
} bp_door_control_t;

bool bp_door_pass(int door, int fd, struct iovec *bytes, size_t pieces) {
    bp_door_control_t control;
    memset(&control, 0, sizeof control);
    struct msghdr message = {
        .msg_iov = bytes,
        .msg_iovlen = pieces,
        .msg_control = &control,
        .msg_controllen = sizeof control,
    };
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(head), &fd, sizeof fd);
    return sendmsg(door, &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
}

int bp_door_take(int door, bool wait, uint8_t *bytes, size_t capacity, size_t *length) {
    bp_door_control_t control;
    struct iovec into = {.iov_base = bytes, .iov_len = capacity};
    struct msghdr message = {
        .msg_iov = &into,
        .msg_iovlen = 1,
        .msg_control = &control,
        .msg_controllen = sizeof control,
    };
    ssize_t got = recvmsg(door, &message, MSG_CMSG_CLOEXEC | (wait ? 0 : MSG_DONTWAIT));
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
        fputs("boardprof: the process that lets hosts in has ended, and so does this one\n",
              stderr);
        _exit(BP_POSIX_SYSTEM);
    }
    struct cmsghdr *head = got > 0 ? CMSG_FIRSTHDR(&message) : NULL;
    if (head == NULL || head->cmsg_type != SCM_RIGHTS) {
        return -1; /* none now, or no descriptor was free for it */
    }
    int fd;
    memcpy(&fd, CMSG_DATA(head), sizeof fd);
    *length = (size_t)got;
    return fd;
}
