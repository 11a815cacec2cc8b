/* SPDX-License-Identifier: Apache-2.0 */
/* Page faults of the thread that runs the agent: perf_event_open(2). This is a software event, so
 * it works in virtual machines. If the kernel refuses it, the reason is kept. */

#define _GNU_SOURCE
#include <errno.h>
#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "boardprof/bp.h"

static const char bp_linux_faults_name[] BP_ROM = "faults";
static const char bp_page_faults_name[] BP_ROM = "page-faults";
static const char bp_page_faults_source[] BP_ROM = "perf_event_open";
static const char bp_user_faults_source[] BP_ROM = "perf_event_open, user mode only";
static const char bp_refused_source[] BP_ROM = "perf_event_open (see kernel.perf_event_paranoid)";

static int bp_faults_fd = -1;
static bool bp_faults_user_only;
static uint32_t bp_faults_error;

static int bp_faults_open(bool with_kernel) {
    struct perf_event_attr event = {
        .type = PERF_TYPE_SOFTWARE,
        .size = sizeof event,
        .config = PERF_COUNT_SW_PAGE_FAULTS,
        .exclude_kernel = !with_kernel,
        .exclude_hv = 1,
    };
    return (int)syscall(SYS_perf_event_open, &event, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

static uint64_t bp_faults_now(void) {
    uint64_t count;
    return read(bp_faults_fd, &count, sizeof count) == sizeof count ? count : UINT64_MAX;
}

static void bp_linux_faults_init(void) {
    if (bp_faults_fd >= 0) {
        close(bp_faults_fd);
    }
    bp_faults_fd = bp_faults_open(true);
    /* With perf_event_paranoid above 1, a user may still count the faults taken in user mode. */
    bp_faults_user_only = bp_faults_fd < 0 && (errno == EACCES || errno == EPERM);
    if (bp_faults_user_only) {
        bp_faults_fd = bp_faults_open(false);
    }
    bp_faults_error = bp_faults_fd < 0 ? (uint32_t)errno : 0;
    if (bp_faults_fd >= 0 && bp_faults_now() == UINT64_MAX) {
        bp_faults_error = (uint32_t)errno;
        close(bp_faults_fd);
        bp_faults_fd = -1;
    }
}

/* An agent may be a library that is unloaded: it must not leave file descriptors open. */
__attribute__((destructor)) static void bp_linux_faults_close(void) {
    if (bp_faults_fd >= 0) {
        close(bp_faults_fd);
        bp_faults_fd = -1;
    }
}

static void bp_linux_faults_start(void *state) {
    ((bp_linux_faults_t *)state)->start = bp_faults_now();
}

static void bp_linux_faults_stop(void *state) {
    ((bp_linux_faults_t *)state)->stop = bp_faults_now();
}

static void bp_linux_faults_encode(uint8_t *out, const void *state) {
    bp_linux_faults_put(out, state);
}

static void bp_linux_faults_counter(bp_counter_t *out, uint8_t index) {
    (void)index;
    out->name = bp_page_faults_name;
    out->source = bp_faults_user_only ? bp_user_faults_source : bp_page_faults_source;
    out->bits = 64;
    out->status = bp_faults_fd < 0 ? BP_COUNTER_REFUSED : BP_COUNTER_OK;
    if (bp_faults_error == EACCES || bp_faults_error == EPERM) {
        out->source = bp_refused_source;
    }
    out->detail = bp_faults_error;
}

const bp_collector_t bp_collector_linux_faults BP_ROM = {
    .name = bp_linux_faults_name,
    .init = bp_linux_faults_init,
    .start = bp_linux_faults_start,
    .stop = bp_linux_faults_stop,
    .encode = bp_linux_faults_encode,
    .counter = bp_linux_faults_counter,
    .layout_crc = BP_LINUX_FAULTS_CRC,
    .schema_id = BP_LINUX_FAULTS_SCHEMA,
    .body_length = BP_LINUX_FAULTS_LEN,
    .version = BP_LINUX_FAULTS_VERSION,
    .state_bytes = sizeof(bp_linux_faults_t),
    .counters = 1,
};
