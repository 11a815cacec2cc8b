/* SPDX-License-Identifier: Apache-2.0 */
/* QEMU TCG plugin: counts the instructions a function executes, as a truth that owes nothing to
 * the code under test.
 *
 *   -plugin insn_count.so,entry=0xADDR,...,stop=0xLO:0xHI,...,out=FILE[,nested=yes][,trace=FILE]
 *
 * An activation begins with the instruction at an `entry`, which is counted, and ends at the first
 * instruction inside a `stop` range (half open: the caller, a thunk, a measuring loop), which is
 * not. Everything executed in between counts: callees, recursion, other entries, interrupt and
 * trap handlers. Each activation appends "0xENTRY COUNT\n" to FILE in one unbuffered write, which
 * outlives a killed QEMU; an activation that is never stopped writes nothing.
 *
 * With nested=yes, entries and stops are pairs that nest, such as the instructions that turn
 * interrupts off and on. An activation then ends when as many stops as entries have been executed.
 * The stops within it count.
 *
 * With trace=FILE, the first activation of each entry also appends the address of every instruction
 * that it executes, in hexadecimal, a line each, and an empty line.
 *
 * Executed is not retired: an instruction that traps has begun and counts once, and once more if
 * the handler returns to it. A Thumb instruction whose IT condition fails counts too.
 *
 * No double counts under -icount: a device access that is not the last instruction of its block
 * makes QEMU abort the block and run that instruction again in a block of its own; but there QEMU
 * (7.2 and 10.0) instruments memory accesses only, so each instruction is reported once. A block
 * cut short by the instruction budget is left before its first instruction is reported. The tests
 * beside this file hold both. One CPU only: the counter is shared and not atomic.
 */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- The part of QEMU's plugin interface that is used here, the same in versions 1 to 4 ---- */

enum { QEMU_PLUGIN_CB_NO_REGS = 0 };

struct qemu_plugin_tb;
struct qemu_plugin_insn;

typedef struct {
    const char *target_name;
    struct {
        int min;
        int cur;
    } version;
    bool system_emulation;
    struct {
        int smp_vcpus;
        int max_vcpus;
    } system;
} qemu_info_t;

typedef void (*qemu_plugin_udata_cb_t)(unsigned int cpu, void *userdata);
typedef void (*qemu_plugin_tb_trans_cb_t)(uint64_t id, struct qemu_plugin_tb *tb);

void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t id, qemu_plugin_tb_trans_cb_t cb);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn,
                                            qemu_plugin_udata_cb_t cb, int flags, void *userdata);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t idx);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn);

/* QEMU has scoreboards from version 2, and takes no plugin of version 1 from then on. */
__attribute__((weak)) void *qemu_plugin_scoreboard_new(size_t bytes);

extern int qemu_plugin_version;
int qemu_plugin_version = 1;
int qemu_plugin_install(uint64_t id, const qemu_info_t *info, int argc, char **argv);

/* QEMU reads the version after it has loaded the plugin. */
__attribute__((constructor)) static void bp_choose_version(void) {
    qemu_plugin_version = qemu_plugin_scoreboard_new == NULL ? 1 : 2;
}

/* ---- Counting ---- */

enum { BP_RANGES_MAX = 128 };

typedef struct {
    uint64_t lo;
    uint64_t hi;
} bp_range_t;

static uint64_t bp_entries[BP_RANGES_MAX];
static size_t bp_n_entries;
static bp_range_t bp_stops[BP_RANGES_MAX];
static size_t bp_n_stops;
static int bp_out = -1;

static uint64_t bp_executed;        /* instructions outside the stop ranges, since reset */
static uint64_t bp_executed_before; /* the same when the activation began */
static const uint64_t *bp_active;   /* entry of the activation, or NULL */
static bool bp_nests;
static unsigned bp_depth;                /* entries without their stops */
static FILE *bp_trace;                   /* NULL: no trace */
static bool bp_is_traced[BP_RANGES_MAX]; /* entries that have been */
static bool bp_traces;

static void bp_trace_line(uint64_t address) {
    if (bp_traces) {
        fprintf(bp_trace, "%" PRIx64 "\n", address);
    }
}

static void bp_on_entry(unsigned int cpu, void *entry) {
    (void)cpu;
    if (bp_active == NULL) {
        bp_active = entry;
        bp_executed_before = bp_executed;
        bp_depth = 0;
        bool *is_traced = &bp_is_traced[bp_active - bp_entries];
        bp_traces = bp_trace != NULL && !*is_traced;
        *is_traced = true;
    }
    bp_depth++;
    bp_executed++;
    bp_trace_line(*(uint64_t *)entry);
}

static void bp_on_stop(unsigned int cpu, void *unused) {
    (void)cpu;
    (void)unused;
    if (bp_active == NULL) {
        return;
    }
    if (bp_nests && --bp_depth != 0) {
        bp_executed++;
        return;
    }
    if (bp_traces && (fputc('\n', bp_trace) == EOF || fflush(bp_trace) != 0)) {
        perror("insn_count: cannot write a trace");
        _Exit(EXIT_FAILURE);
    }
    bp_traces = false;
    if (dprintf(bp_out, "0x%" PRIx64 " %" PRIu64 "\n", *bp_active,
                bp_executed - bp_executed_before) < 0) {
        perror("insn_count: cannot write a count");
        _Exit(EXIT_FAILURE);
    }
    bp_active = NULL;
}

static void bp_on_other(unsigned int cpu, void *address) {
    (void)cpu;
    bp_executed++;
    bp_trace_line((uintptr_t)address);
}

static uint64_t *bp_find_entry(uint64_t address) {
    for (size_t i = 0; i < bp_n_entries; i++) {
        if (bp_entries[i] == address) {
            return &bp_entries[i];
        }
    }
    return NULL;
}

static bool bp_is_stop(uint64_t address) {
    for (size_t i = 0; i < bp_n_stops; i++) {
        if (address >= bp_stops[i].lo && address < bp_stops[i].hi) {
            return true;
        }
    }
    return false;
}

/* What an instruction is to us is settled once, when QEMU translates its block. */
static void bp_on_translate(uint64_t id, struct qemu_plugin_tb *tb) {
    (void)id;
    for (size_t i = 0; i < qemu_plugin_tb_n_insns(tb); i++) {
        struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
        uint64_t address = qemu_plugin_insn_vaddr(insn);
        uint64_t *entry = bp_find_entry(address);
        qemu_plugin_udata_cb_t cb = bp_on_other;
        void *given = (void *)(uintptr_t)address;

        if (entry != NULL) {
            cb = bp_on_entry;
            given = entry;
        } else if (bp_is_stop(address)) {
            cb = bp_on_stop;
        }
        qemu_plugin_register_vcpu_insn_exec_cb(insn, cb, QEMU_PLUGIN_CB_NO_REGS, given);
    }
}

/* ---- Options ---- */

/* Bit 0 of a Thumb address is the state, not the place; no code address of ours is odd. */
static bool bp_parse_address(const char *text, char end, uint64_t *address, const char **rest) {
    char *after;

    errno = 0;
    *address = strtoull(text, &after, 0) & ~UINT64_C(1);
    *rest = after + 1;
    return errno == 0 && after != text && *after == end;
}

static const char *bp_add_entry(const char *value) {
    const char *rest;

    if (bp_n_entries == BP_RANGES_MAX) {
        return "too many entries";
    }
    if (!bp_parse_address(value, '\0', &bp_entries[bp_n_entries++], &rest)) {
        return "not an address, write entry=0xADDR";
    }
    return NULL;
}

static const char *bp_add_stop(const char *value) {
    bp_range_t *stop = &bp_stops[bp_n_stops];
    const char *rest;

    if (bp_n_stops == BP_RANGES_MAX) {
        return "too many stop ranges";
    }
    if (!bp_parse_address(value, ':', &stop->lo, &rest) ||
        !bp_parse_address(rest, '\0', &stop->hi, &rest) || stop->lo >= stop->hi) {
        return "not a range, write stop=0xLO:0xHI with LO below HI";
    }
    bp_n_stops++;
    return NULL;
}

static const char *bp_open_out(const char *path) {
    bp_out = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0644);
    return bp_out < 0 ? strerror(errno) : NULL;
}

static const char *bp_parse_option(const char *option) {
    if (strncmp(option, "entry=", 6) == 0) {
        return bp_add_entry(option + 6);
    }
    if (strncmp(option, "stop=", 5) == 0) {
        return bp_add_stop(option + 5);
    }
    if (strncmp(option, "out=", 4) == 0) {
        return bp_open_out(option + 4);
    }
    if (strncmp(option, "trace=", 6) == 0) {
        bp_trace = fopen(option + 6, "w");
        return bp_trace == NULL ? strerror(errno) : NULL;
    }
    if (strcmp(option, "nested=yes") == 0) {
        bp_nests = true;
        return NULL;
    }
    return "unknown option, use entry=, stop=, out=, nested=yes and trace=";
}

static const char *bp_check_options(const qemu_info_t *info) {
    if (!info->system_emulation || info->system.smp_vcpus != 1) {
        return "needs system emulation of one CPU";
    }
    if (bp_n_entries == 0 || bp_n_stops == 0 || bp_out < 0) {
        return "needs at least one entry=, one stop= and out=";
    }
    for (size_t i = 0; i < bp_n_entries; i++) {
        if (bp_is_stop(bp_entries[i])) {
            return "an entry lies inside a stop range";
        }
    }
    return NULL;
}

int qemu_plugin_install(uint64_t id, const qemu_info_t *info, int argc, char **argv) {
    const char *error = NULL;
    int i;

    for (i = 0; i < argc && error == NULL; i++) {
        error = bp_parse_option(argv[i]);
    }
    if (error != NULL) {
        fprintf(stderr, "insn_count: %s: %s\n", argv[i - 1], error);
        return -1;
    }
    error = bp_check_options(info);
    if (error != NULL) {
        fprintf(stderr, "insn_count: %s\n", error);
        return -1;
    }
    qemu_plugin_register_vcpu_tb_trans_cb(id, bp_on_translate);
    return 0;
}
