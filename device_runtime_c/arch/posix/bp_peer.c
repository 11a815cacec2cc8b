/* SPDX-License-Identifier: Apache-2.0 */
/* Looks the other end of a connection up in the kernel's table of sockets: proc_pid_net(5), and for
 * its columns Documentation/networking/proc_net_tcp.rst of Linux. */

#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bp_listen.h"
#include "bp_peer.h"

enum { BP_PEER_ADDRESS = 48, BP_PEER_LINE = 512 };

/* One end as the table has it: the address in words of this machine, the port as a number. */
static bool bp_peer_name(int fd, int (*of)(int, struct sockaddr *, socklen_t *), int *family,
                         char text[BP_PEER_ADDRESS]) {
    bp_listen_at_t at;
    socklen_t size = sizeof at;
    uint32_t words[4];
    if (of(fd, &at.any, &size) != 0) {
        return false;
    }
    *family = at.any.sa_family;
    if (*family == AF_INET) {
        snprintf(text, BP_PEER_ADDRESS, "%08" PRIX32 ":%04X", (uint32_t)at.v4.sin_addr.s_addr,
                 (unsigned)ntohs(at.v4.sin_port));
        return true;
    }
    memcpy(words, &at.v6.sin6_addr, sizeof words);
    snprintf(text, BP_PEER_ADDRESS, "%08" PRIX32 "%08" PRIX32 "%08" PRIX32 "%08" PRIX32 ":%04X",
             words[0], words[1], words[2], words[3], (unsigned)ntohs(at.v6.sin6_port));
    return *family == AF_INET6;
}

bool bp_peer_may_connect(int fd) {
    char ours[BP_PEER_ADDRESS], theirs[BP_PEER_ADDRESS], line[BP_PEER_LINE];
    int family;
    if (!bp_peer_name(fd, getsockname, &family, ours) ||
        !bp_peer_name(fd, getpeername, &family, theirs)) {
        return false;
    }
    FILE *table = fopen(family == AF_INET ? "/proc/net/tcp" : "/proc/net/tcp6", "re");
    if (table == NULL) {
        return false;
    }
    bool may = false;
    while (fgets(line, sizeof line, table) != NULL) {
        char local[BP_PEER_ADDRESS], remote[BP_PEER_ADDRESS];
        unsigned user;
        unsigned long inode;
        int found =
            sscanf(line, "%*s %47s %47s %*s %*s %*s %*s %u %*s %lu", local, remote, &user, &inode);
        if (found == 4 && strcmp(local, theirs) == 0 && strcmp(remote, ours) == 0) {
            /* A socket that its process has closed has no inode, and says user 0 whoever it was. */
            may = inode != 0 && (user == 0 || user == geteuid());
            break;
        }
    }
    fclose(table);
    return may;
}
