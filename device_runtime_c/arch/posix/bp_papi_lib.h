/* SPDX-License-Identifier: Apache-2.0 */
/* libpapi, loaded at its first use: the agent builds and runs without it. The part of its interface
 * that is declared here is the same in PAPI 5 to 7. */

#ifndef BOARDPROF_BP_PAPI_LIB_H
#define BOARDPROF_BP_PAPI_LIB_H

#include <stdbool.h>
#include <stdint.h>

/* PAPI's numbers. */
enum {
    BP_PAPI_OK = 0,
    BP_PAPI_ESYS = -3,
    BP_PAPI_ECMP = -4,
    BP_PAPI_ENOEVNT = -7,
    BP_PAPI_ECNFLCT = -8,
    BP_PAPI_ENOTPRESET = -12,
    BP_PAPI_ENOCNTR = -13,
    BP_PAPI_EPERM = -15,
    BP_PAPI_ENOCMP = -17,
    BP_PAPI_ENOSUPP = -18,
    BP_PAPI_EMULPASS = -27,
    BP_PAPI_NULL = -1,
    BP_PAPI_ENUM_EVENTS = 0,
    BP_PAPI_ENUM_FIRST = 1,
    BP_PAPI_DOMAIN_USER_AND_KERNEL = 3,
    BP_PAPI_OPTION_INHERIT = 28,
    BP_PAPI_NAME = 1024, /* bytes of an event's name, its end included */
    BP_PAPI_NATIVE = 0x40000000,
};
#define BP_PAPI_PRESET INT32_MIN

/* The first fields of PAPI_event_info_t, and enough room for the others in any version. */
typedef struct {
    unsigned code;
    char symbol[1024];
    char short_description[64];
    char description[1024];
    int component;
    char units[64];
    char rest[65536];
} bp_papi_event_info_t;

/* The first fields of PAPI_component_info_t, which PAPI allocates. */
typedef struct {
    char name[128];
    char short_name[64];
    char description[128];
    char version[64];
    char support_version[64];
    char kernel_version[64];
    char disabled_reason[1024];
    int disabled; /* 0, or the reason: one of PAPI's error numbers */
} bp_papi_component_t;

/* PAPI's functions, named without PAPI_. */
typedef struct {
    int (*library_init)(int version);
    int (*thread_init)(unsigned long (*id)(void));
    char *(*strerror)(int error);
    int (*create_eventset)(int *set);
    int (*assign_eventset_component)(int set, int component);
    int (*set_opt)(int option, void *value);
    int (*set_cmp_domain)(int domain, int component);
    int (*add_event)(int set, int code);
    int (*cleanup_eventset)(int set);
    int (*destroy_eventset)(int *set);
    int (*start)(int set);
    int (*stop)(int set, long long *values);
    int (*read)(int set, long long *values);
    int (*event_name_to_code)(const char *name, int *code);
    int (*event_code_to_name)(int code, char *name);
    int (*get_event_component)(int code);
    int (*get_event_info)(int code, void *info);
    int (*enum_event)(int *code, int modifier);
    int (*enum_cmp_event)(int *code, int modifier, int component);
    int (*num_components)(void);
    const bp_papi_component_t *(*get_component_info)(int component);
} bp_papi_api_t;

/* Load and initialise libpapi at the first call. Returns NULL with a `reason` if that fails. */
const bp_papi_api_t *bp_papi(const char **reason);

/* Whether to count in the kernel, too; otherwise only in user mode, PAPI's default domain. */
bool bp_papi_counts_kernel(void);

#endif
