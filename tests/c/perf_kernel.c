/* SPDX-License-Identifier: Apache-2.0 */
/* A model of perf_event_open(2) for machines that have fewer counters than events, or none: linked
 * in place of the system calls that arch/posix/bp_perf_groups.c makes. Time goes on by 1000 ns at
 * each read; of several groups that need hardware counters one runs at a time, by turns. */

#include <errno.h>
#include <linux/perf_event.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

#include "boardprof/bp.h"

enum { FIRST_FD = 1000, EVENTS = 64, STEP_NS = 1000 };

typedef struct {
    bool open;
    bool enabled;
    bool hardware;
    int leader; /* its index */
    uint64_t config;
    uint64_t enabled_ns;
    uint64_t running_ns;
} event_t;

extern int kernel_counters;   /* hardware counters that the kernel believes in */
extern int kernel_free;       /* those that nobody else has taken */
extern int kernel_reads;      /* system calls to read */
extern uint64_t kernel_lacks; /* bit i: there is no PERF_TYPE_HARDWARE event i */
int kernel_counters;
int kernel_free;
int kernel_reads;
uint64_t kernel_lacks;

static event_t events[EVENTS];
static uint64_t turn;

void kernel_reset(int counters, int free_counters);
void kernel_reset(int counters, int free_counters) {
    memset(events, 0, sizeof events);
    kernel_counters = counters;
    kernel_free = free_counters;
    kernel_reads = 0;
    kernel_lacks = 0;
}

static int hardware_of(int leader) {
    int count = 0;
    for (int i = 0; i < EVENTS; i++) {
        count += events[i].open && events[i].hardware && events[i].leader == leader;
    }
    return count;
}

static int groups_with_hardware(void) {
    int count = 0;
    for (int i = 0; i < EVENTS; i++) {
        int needs = events[i].open && events[i].leader == i ? hardware_of(i) : 0;
        count += needs != 0 && needs <= kernel_free;
    }
    return count;
}

/* Its number among the groups that take turns. */
static int place_of(int leader) {
    int place = 0;
    for (int i = 0; i < leader; i++) {
        int needs = events[i].open && events[i].leader == i ? hardware_of(i) : 0;
        place += needs != 0 && needs <= kernel_free;
    }
    return place;
}

static bool runs_now(int leader) {
    int needs = hardware_of(leader);
    if (needs == 0) {
        return true;
    }
    return needs <= kernel_free &&
           turn % (uint64_t)groups_with_hardware() == (uint64_t)place_of(leader);
}

static void pass_time(void) {
    turn++;
    for (int i = 0; i < EVENTS; i++) {
        if (events[i].open && events[events[i].leader].enabled) {
            events[i].enabled_ns += STEP_NS;
            events[i].running_ns += runs_now(events[i].leader) ? STEP_NS : 0;
        }
    }
}

long __wrap_syscall(long number, ...);
long __wrap_syscall(long number, ...) {
    va_list list;
    va_start(list, number);
    const struct perf_event_attr *attr = va_arg(list, const struct perf_event_attr *);
    (void)va_arg(list, int);
    (void)va_arg(list, int);
    int group = va_arg(list, int);
    va_end(list);
    bool hardware = attr->type != PERF_TYPE_SOFTWARE;
    if (hardware && (kernel_counters == 0 || (kernel_lacks >> attr->config & 1) != 0)) {
        errno = ENOENT;
        return -1;
    }
    int index = 0;
    while (events[index].open) {
        index++;
    }
    int leader = group < 0 ? index : group - FIRST_FD;
    if (hardware_of(leader) + hardware > kernel_counters) {
        errno = EINVAL;
        return -1;
    }
    events[index] =
        (event_t){.open = true, .hardware = hardware, .leader = leader, .config = attr->config};
    return FIRST_FD + index;
}

int __wrap_ioctl(int fd, unsigned long request, ...);
int __wrap_ioctl(int fd, unsigned long request, ...) {
    events[fd - FIRST_FD].enabled = request == PERF_EVENT_IOC_ENABLE;
    return 0;
}

int __wrap_close(int fd);
int __wrap_close(int fd) {
    events[fd - FIRST_FD].open = false;
    return 0;
}

/* Each event happens once a microsecond, times its number in the kernel's table. */
ssize_t __wrap_read(int fd, void *out, size_t size);
ssize_t __wrap_read(int fd, void *out, size_t size) {
    uint64_t *words = out;
    size_t count = 0;
    int leader = fd - FIRST_FD;
    kernel_reads++;
    pass_time();
    for (int i = 0; i < EVENTS; i++) {
        if (events[i].open && events[i].leader == leader) {
            words[3 + count++] = events[i].running_ns / STEP_NS * (events[i].config + 1);
        }
    }
    words[0] = count;
    words[1] = events[leader].enabled_ns;
    words[2] = events[leader].running_ns;
    return size == (3 + count) * sizeof(uint64_t) ? (ssize_t)size : -1;
}

/// What the tests call ///

extern const bp_collector_t bp_collector_linux_perf;

void perf_init(void);
void perf_init(void) {
    bp_collector_linux_perf.init();
}

uint8_t perf_status(uint8_t slot, uint32_t *detail);
uint8_t perf_status(uint8_t slot, uint32_t *detail) {
    bp_counter_t counter = {0};
    bp_collector_linux_perf.counter(&counter, slot);
    *detail = counter.detail;
    return counter.status;
}

/* A window with nothing in it; `out` has BP_LINUX_PERF_LEN bytes. Returns the reads of its start.
 */
int perf_window(uint8_t *out);
int perf_window(uint8_t *out) {
    uint64_t state[BP_LINUX_PERF_LEN / 8];
    kernel_reads = 0;
    bp_collector_linux_perf.start(state);
    int reads = kernel_reads;
    bp_collector_linux_perf.stop(state);
    bp_collector_linux_perf.encode(out, state);
    return reads;
}
