/* SPDX-License-Identifier: Apache-2.0 */

#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* setresuid */
#endif

#include "bp_guest.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bp_posix.h"

enum { BP_GUEST_USER = 1000 };

bool bp_guest_is_one(void) {
    return getpid() == 1 && access("/boardprof-guest", F_OK) == 0;
}

static bool bp_guest_mount(const char *type, const char *folder) {
    bool is_there = mkdir(folder, 0755) == 0 || errno == EEXIST;
    return is_there && mount(type, folder, type, 0, NULL) == 0;
}

/* Debian's own level, 3, lets no user count anything. At 2, the kernel's default, user mode counts
 * (Documentation/admin-guide/sysctl/kernel.rst). */
static bool bp_guest_let_users_count(void) {
    int fd = open("/proc/sys/kernel/perf_event_paranoid", O_WRONLY | O_CLOEXEC);
    bool written = fd >= 0 && write(fd, "2\n", 2) == 2;
    if (fd >= 0) {
        close(fd);
    }
    return written;
}

int bp_guest_open(void) {
    if (!bp_guest_mount("proc", "/proc") || !bp_guest_mount("sysfs", "/sys") ||
        !bp_guest_mount("devtmpfs", "/dev") || !bp_guest_mount("tmpfs", "/tmp") ||
        chmod("/tmp", 01777) != 0 || !bp_guest_let_users_count()) {
        fprintf(stderr, "boardprof: the guest cannot be prepared: %s\n", strerror(errno));
        return BP_POSIX_SYSTEM;
    }
    int err = bp_posix_open_tty("/dev/console");
    if (err == BP_POSIX_OK && (setresgid(BP_GUEST_USER, BP_GUEST_USER, 0) != 0 ||
                               setresuid(BP_GUEST_USER, BP_GUEST_USER, 0) != 0)) {
        fprintf(stderr, "boardprof: the guest cannot become a user: %s\n", strerror(errno));
        err = BP_POSIX_SYSTEM;
    }
    if (err == BP_POSIX_OK) {
        printf("listening on the console\n");
        fflush(stdout);
    }
    return err;
}
