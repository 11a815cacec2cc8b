/* SPDX-License-Identifier: Apache-2.0 */

#define _GNU_SOURCE /* syscall */

#include "bp_perf_event.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "boardprof/bp_wire.h"
#include "bp_perf_sysfs.h"

/// Text to event ///

static bool bp_perf_modifiers(bp_perf_event_t *out, const char *letters) {
    bool user = strchr(letters, 'u') != NULL;
    bool kernel = strchr(letters, 'k') != NULL;
    out->user = user || !kernel;
    out->kernel = kernel || !user;
    return letters[strspn(letters, "uk")] == 0;
}

/* `r1a8`: the code of an event in the CPU's manual, in hexadecimal. */
static bool bp_perf_raw(bp_perf_code_t *out, const char *name) {
    char *end;
    size_t digits = strspn(name + 1, "0123456789abcdefABCDEF");
    if (name[0] != 'r' || digits == 0 || digits > 16 || name[1 + digits] != 0) {
        return false;
    }
    *out = (bp_perf_code_t){.type = PERF_TYPE_RAW, .config = strtoull(name + 1, &end, 16)};
    return true;
}

/* Parse `text`, which is cut into its parts. Returns NULL, or what is wrong. */
static const char *bp_perf_understand(bp_perf_event_t *out, char *text) {
    char *slash = strchr(text, '/');
    char *last = strrchr(text, '/');
    if (slash != NULL) {
        const char *letters = last + 1 + (last[1] == ':');
        if (slash == last) {
            return "a PMU's event has two slashes: PMU/EVENT/";
        }
        *slash = *last = 0;
        const char *wrong = bp_perf_sysfs_find(&out->code, text, slash + 1);
        return wrong != NULL || bp_perf_modifiers(out, letters)
                   ? wrong
                   : "of perf's modifiers this agent knows u and k";
    }
    char *colon = strchr(text, ':');
    if (colon != NULL) {
        *colon = 0;
    }
    if (!bp_perf_modifiers(out, colon == NULL ? "" : colon + 1)) {
        return "of perf's modifiers this agent knows u and k";
    }
    return bp_perf_name_find(&out->code, text) || bp_perf_raw(&out->code, text) ||
                   bp_perf_sysfs_alias(&out->code, text)
               ? NULL
               : "the kernel's interface has no event of that name";
}

bool bp_perf_event_parse(bp_perf_event_t *out, const char *text) {
    char copy[BP_PERF_TEXT];
    *out = (bp_perf_event_t){.told.status = BP_COUNTER_OK};
    snprintf(copy, sizeof copy, "%s", text);
    strcpy(out->told.text, copy);
    (void)bp_perf_name_of_papi(copy, sizeof copy);
    const char *wrong = strlen(text) >= sizeof copy ? "the event's text is too long"
                                                    : bp_perf_understand(out, copy);
    if (wrong == NULL && out->code.in_kernel && !out->kernel) {
        wrong = "it happens in the kernel alone: in user mode it would always read 0";
    }
    if (wrong != NULL) {
        bp_event_refuse(&out->told, BP_COUNTER_ABSENT, 0, wrong);
    }
    out->told.is_time = out->code.is_time;
    return wrong == NULL;
}

/// Event to file descriptor ///

static int bp_perf_open(const bp_perf_event_t *event, int leader) {
    struct perf_event_attr attr = {
        .type = event->code.type,
        .size = sizeof attr,
        .config = event->code.config,
        .config1 = event->code.config1,
        .config2 = event->code.config2,
        .read_format =
            PERF_FORMAT_GROUP | PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
        .disabled = leader < 0,
        .exclude_user = !event->user,
        .exclude_kernel = !event->kernel,
        .exclude_hv = !event->kernel,
    };
    return (int)syscall(SYS_perf_event_open, &attr, 0, -1, leader, PERF_FLAG_FD_CLOEXEC);
}

int bp_perf_paranoid(void) {
    int level = INT32_MIN;
    FILE *stream = fopen("/proc/sys/kernel/perf_event_paranoid", "re");
    if (stream != NULL) {
        if (fscanf(stream, "%d", &level) != 1) {
            level = INT32_MIN;
        }
        fclose(stream);
    }
    return level;
}

static void bp_perf_forbidden(bp_perf_event_t *event, int error) {
    int level = bp_perf_paranoid();
    char reason[BP_EVENT_REASON];
    if (level > 1 || (level == 1 && event->kernel)) {
        snprintf(reason, sizeof reason,
                 "kernel.perf_event_paranoid is %d: sudo sysctl kernel.perf_event_paranoid=1, or "
                 "run the agent with CAP_PERFMON",
                 level);
    } else {
        snprintf(reason, sizeof reason,
                 "perf_event_open is not permitted (perf_event_paranoid is %d): a container needs "
                 "CAP_PERFMON and a seccomp profile that allows it",
                 level);
    }
    bp_event_refuse(&event->told, BP_COUNTER_REFUSED, error, reason);
}

static void bp_perf_explain(bp_perf_event_t *event, int error) {
    bool of_pmu = event->code.type >= PERF_TYPE_MAX;
    switch (error) {
    case EACCES:
    case EPERM:
        bp_perf_forbidden(event, error);
        break;
    case ENOENT:
    case ENODEV:
    case EOPNOTSUPP:
    case ENXIO:
        bp_event_refuse(&event->told, BP_COUNTER_ABSENT, 0,
                        "this CPU (or virtual machine) has no such counter");
        break;
    case ENOSYS:
        bp_event_refuse(&event->told, BP_COUNTER_REFUSED, error,
                        "this kernel has no perf_event_open");
        break;
    case EBUSY:
        bp_event_refuse(&event->told, BP_COUNTER_REFUSED, error,
                        "someone else has the counters for himself");
        break;
    case EINVAL:
        bp_event_refuse(&event->told, BP_COUNTER_REFUSED, error,
                        of_pmu ? "this PMU counts the whole machine, not one thread, or lacks "
                                 "that event"
                               : "the kernel calls the event invalid");
        break;
    default:
        bp_event_refuse(&event->told, BP_COUNTER_REFUSED, error, strerror(error));
        break;
    }
}

/* With perf_event_paranoid above 1, a user may still count user mode. perf marks this the same way.
 */
static int bp_perf_open_user(bp_perf_event_t *event, int leader, int error) {
    if (event->code.in_kernel || !event->user) {
        errno = error;
        return -1;
    }
    event->kernel = false;
    int fd = bp_perf_open(event, leader);
    if (fd < 0) {
        event->kernel = true;
        return fd;
    }
    char *text = event->told.text;
    size_t length = strlen(text);
    snprintf(text + length, sizeof event->told.text - length, "%s",
             length != 0 && text[length - 1] == '/' ? "u" : ":u");
    return fd;
}

int bp_perf_event_open(bp_perf_event_t *event, int leader) {
    int fd = bp_perf_open(event, leader);
    if (fd < 0 && (errno == EACCES || errno == EPERM) && event->kernel) {
        fd = bp_perf_open_user(event, leader, errno);
    }
    if (fd < 0) {
        bp_perf_explain(event, errno);
    } else {
        bp_event_accept(&event->told);
    }
    return fd;
}
