/* SPDX-License-Identifier: Apache-2.0 */

#define _GNU_SOURCE /* RTLD_DEFAULT */

#include "bp_papi_lib.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bp_perf_event.h"

typedef struct {
    const char *name;
    size_t offset;
} bp_papi_symbol_t;

#define BP_PAPI_SYMBOL(name) {"PAPI_" #name, offsetof(bp_papi_api_t, name)}

static const bp_papi_symbol_t bp_papi_symbols[] = {
    BP_PAPI_SYMBOL(library_init),
    BP_PAPI_SYMBOL(thread_init),
    BP_PAPI_SYMBOL(strerror),
    BP_PAPI_SYMBOL(create_eventset),
    BP_PAPI_SYMBOL(set_opt),
    BP_PAPI_SYMBOL(assign_eventset_component),
    BP_PAPI_SYMBOL(set_cmp_domain),
    BP_PAPI_SYMBOL(add_event),
    BP_PAPI_SYMBOL(cleanup_eventset),
    BP_PAPI_SYMBOL(destroy_eventset),
    BP_PAPI_SYMBOL(start),
    BP_PAPI_SYMBOL(stop),
    BP_PAPI_SYMBOL(read),
    BP_PAPI_SYMBOL(event_name_to_code),
    BP_PAPI_SYMBOL(event_code_to_name),
    BP_PAPI_SYMBOL(get_event_component),
    BP_PAPI_SYMBOL(get_event_info),
    BP_PAPI_SYMBOL(enum_event),
    BP_PAPI_SYMBOL(enum_cmp_event),
    BP_PAPI_SYMBOL(num_components),
    BP_PAPI_SYMBOL(get_component_info),
};

static bp_papi_api_t bp_papi_functions;
static bool bp_papi_kernel;
static bool bp_papi_tried;
static char bp_papi_reason[BP_EVENT_REASON]; /* empty: the library is loaded */

/// Loading ///

/* The name of Debian's library has the minor version; others have only the major one. */
static void *bp_papi_open(void) {
    char name[32];
    for (int major = 7; major >= 5; major--) {
        for (int minor = 9; minor >= -1; minor--) {
            if (minor >= 0) {
                snprintf(name, sizeof name, "libpapi.so.%d.%d", major, minor);
            } else {
                snprintf(name, sizeof name, "libpapi.so.%d", major);
            }
            void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
            if (library != NULL) {
                return library;
            }
        }
    }
    return dlopen("libpapi.so", RTLD_NOW | RTLD_LOCAL);
}

static const char *bp_papi_bind(void *library) {
    for (size_t i = 0; i < sizeof bp_papi_symbols / sizeof bp_papi_symbols[0]; i++) {
        void *symbol = dlsym(library, bp_papi_symbols[i].name);
        if (symbol == NULL) {
            return bp_papi_symbols[i].name;
        }
        /* ISO C cannot cast an object pointer to a function pointer; POSIX allows it. */
        memcpy((char *)&bp_papi_functions + bp_papi_symbols[i].offset, &symbol, sizeof symbol);
    }
    return NULL;
}

/* PAPI requires the version that its caller was built for. This caller works with any, so try them.
 * Returns the last error. */
static int bp_papi_init_version(void) {
    int result = BP_PAPI_ENOSUPP;
    for (int major = 7; major >= 5; major--) {
        for (int minor = 9; minor >= 0; minor--) {
            int version = major << 24 | minor << 16;
            result = bp_papi_functions.library_init(version);
            if (result == version) {
                return BP_PAPI_OK;
            }
        }
    }
    return result;
}

/// Settings made once ///

static unsigned long bp_papi_thread(void) {
    return (unsigned long)pthread_self();
}

/* By default PAPI counts only user mode. Only a try shows whether the kernel lets this process
 * count in the kernel, too. */
static bool bp_papi_may_count_kernel(void) {
    bp_perf_event_t event;
    (void)bp_perf_event_parse(&event, "page-faults");
    int fd = bp_perf_event_open(&event, -1);
    if (fd >= 0) {
        close(fd);
    }
    return fd >= 0 && event.kernel;
}

static void bp_papi_set_domain(void) {
    const bp_papi_api_t *papi = &bp_papi_functions;
    for (int i = 0; bp_papi_may_count_kernel() && i < papi->num_components(); i++) {
        const bp_papi_component_t *component = papi->get_component_info(i);
        if (component != NULL && strcmp(component->name, "perf_event") == 0) {
            bp_papi_kernel = papi->set_cmp_domain(BP_PAPI_DOMAIN_USER_AND_KERNEL, i) == BP_PAPI_OK;
        }
    }
}

static void bp_papi_load(void) {
    /* The component for software-defined events looks for libsde in the program. */
    (void)dlopen("libsde.so.1", RTLD_NOW | RTLD_GLOBAL);
    void *library = bp_papi_open();
    if (library == NULL) {
        snprintf(bp_papi_reason, sizeof bp_papi_reason,
                 "libpapi is not installed where the agent runs: sudo apt install papi-tools");
        return;
    }
    const char *missing = bp_papi_bind(library);
    if (missing != NULL) {
        snprintf(bp_papi_reason, sizeof bp_papi_reason, "this libpapi has no %s", missing);
        return;
    }
    int error = bp_papi_init_version();
    if (error != BP_PAPI_OK) {
        snprintf(bp_papi_reason, sizeof bp_papi_reason, "libpapi cannot begin: error %d", error);
        return;
    }
    (void)bp_papi_functions.thread_init(bp_papi_thread);
    bp_papi_set_domain();
}

const bp_papi_api_t *bp_papi(const char **reason) {
    if (!bp_papi_tried) {
        bp_papi_tried = true;
        bp_papi_load();
    }
    *reason = bp_papi_reason;
    return bp_papi_reason[0] == 0 ? &bp_papi_functions : NULL;
}

bool bp_papi_counts_kernel(void) {
    return bp_papi_kernel;
}
