/* SPDX-License-Identifier: Apache-2.0 */
/* Front end of the recorder for simulators of an ARMv6-M core that run in Node.js: a native module.
 *
 *     open(plan, memory, base, charges)    plan: path; memory: Uint8Array with the code; base: its
 *                                 address; charges: 1 if cycles are a cost, 0 if not
 *     take(entries, count)        entries: Uint32Array, four words for each executed instruction:
 *                                 address, cycles, and as they were before it the stack pointer and
 *                                 the number of the exception, 0 outside of handlers
 *     close()
 *
 * The interface is Node-API, version 1, of node_api.h; declared here as far as it is used. */

#include "bp_recorder.h"

#include <stdlib.h>

/// Node-API ///

typedef struct napi_env__ *napi_env;
typedef struct napi_value__ *napi_value;
typedef struct napi_callback_info__ *napi_callback_info;
typedef napi_value (*napi_callback)(napi_env env, napi_callback_info info);

int napi_create_function(napi_env env, const char *name, size_t length, napi_callback function,
                         void *data, napi_value *result);
int napi_set_named_property(napi_env env, napi_value object, const char *name, napi_value value);
int napi_get_cb_info(napi_env env, napi_callback_info info, size_t *argc, napi_value *argv,
                     napi_value *self, void **data);
int napi_get_value_string_utf8(napi_env env, napi_value value, char *buffer, size_t size,
                               size_t *length);
int napi_get_value_uint32(napi_env env, napi_value value, uint32_t *result);
int napi_get_typedarray_info(napi_env env, napi_value array, int *type, size_t *length, void **data,
                             napi_value *buffer, size_t *offset);
int napi_throw_error(napi_env env, const char *code, const char *message);

napi_value napi_register_module_v1(napi_env env, napi_value exports);

enum { NAPI_AUTO_LENGTH = -1 };

/// Instructions ///

typedef struct {
    uint32_t address, cycles, stack, exception;
} bp_entry_t;

static bp_recorder_t *bp_recorder;
static const uint8_t *bp_code;
static uint32_t bp_base;
static size_t bp_code_bytes;
static bp_block_t **bp_blocks; /* of one instruction each, by half-word */
static const bp_entry_t *bp_now;
static uint32_t bp_charges;

static uint32_t half_word(uint32_t address) {
    size_t at = address - bp_base;
    return at + 1 < bp_code_bytes ? bp_code[at] | (uint32_t)bp_code[at + 1] << 8 : 0;
}

/* Sign-extend `bits` bits of half-words to an offset from the instruction. */
static uint32_t target(uint32_t address, uint32_t half_words, unsigned bits) {
    uint32_t sign = 1u << (bits - 1);
    return address + 4 + 2 * (((half_words & (2 * sign - 1)) ^ sign) - sign);
}

static int32_t words_of(uint32_t registers) {
    return 4 * __builtin_popcount(registers);
}

/* What an instruction takes from the stack. ARMv6-M reference manual (DDI 0419), A5.2. */
static int32_t pops(uint32_t op) {
    bool sets_sp = (op & 0x87u) == 0x85u;
    switch (op >> 8) {
    case 0xb4:
    case 0xb5:
        return -words_of(op & 0x1ffu);
    case 0xbc:
    case 0xbd:
        return words_of(op & 0x1ffu);
    case 0xb0:
        return ((op & 0x80u) != 0 ? -4 : 4) * (int32_t)(op & 0x7fu);
    case 0x44:
    case 0x46:
        return sets_sp ? BP_POPS_ANY : 0;
    default:
        return 0;
    }
}

/* The same manual, A5.2 and A5.3. */
static bp_insn_t decode(uint32_t address) {
    uint32_t op = half_word(address), next = half_word(address + 2);
    bool is_long = op >> 11 > 0x1cu;
    bool sets_pc = (op & 0x87u) == 0x87u;
    bp_insn_t insn = {.address = address, .length = is_long ? 4 : 2, .pops = pops(op)};
    if (is_long && (op & 0xf800u) == 0xf000u && (next & 0xd000u) == 0xd000u) { /* BL, A6.7.13 */
        uint32_t s = op >> 10 & 1u, i1 = (next >> 13 & 1u) ^ s ^ 1u,
                 i2 = (next >> 11 & 1u) ^ s ^ 1u;
        insn.flow = BP_FLOW_CALL;
        insn.target = target(
            address, s << 23 | i1 << 22 | i2 << 21 | (op & 0x3ffu) << 11 | (next & 0x7ffu), 24);
    } else if (is_long) {
        insn.switches = (op & 0xfff0u) == 0xf380u && (next & 0xffu) == 9u; /* MSR PSP, A6.7.42 */
    } else if ((op & 0xf000u) == 0xd000u && (op >> 8 & 15u) < 14) {
        insn.flow = BP_FLOW_BRANCH;
        insn.target = target(address, op, 8);
    } else if ((op & 0xf800u) == 0xe000u) {
        insn.flow = BP_FLOW_BRANCH;
        insn.target = target(address, op, 11);
    } else if ((op & 0xff80u) == 0x4780u) { /* BLX */
        insn.flow = BP_FLOW_CALL;
    } else if ((op & 0xff80u) == 0x4700u || ((op >> 8) == 0x46u && sets_pc)) { /* BX, MOV */
        insn.flow = (op >> 3 & 15u) == 14 ? BP_FLOW_RETURN : BP_FLOW_INDIRECT;
    } else if (op >> 8 == 0x44u && sets_pc) { /* ADD */
        insn.flow = BP_FLOW_INDIRECT;
    } else if (op >> 8 == 0xbdu) {
        insn.flow = BP_FLOW_RETURN;
    }
    return insn;
}

static uint64_t stack_now(void) {
    return bp_now->stack;
}

static bool has_jumped(const bp_insn_t *insn, uint64_t to) {
    (void)insn;
    (void)to;
    return bp_now->exception == 0;
}

static void take_one(const bp_entry_t *entry) {
    size_t at = (entry->address - bp_base) / 2;
    if (at >= bp_code_bytes / 2) {
        return; /* the core cannot execute that */
    }
    if (bp_blocks[at] == NULL) {
        bp_insn_t insn = decode(entry->address);
        bp_blocks[at] = bp_recorder_block(bp_recorder, &insn, 1);
    }
    bp_now = entry;
    bp_recorder_arrive(bp_recorder, bp_blocks[at], 1);
    if (bp_charges != 0) {
        bp_recorder_charge(bp_recorder, 0, entry->cycles);
    }
}

/// The module ///

static napi_value open_plan(napi_env env, napi_callback_info info) {
    static const char *const columns[] = {"cycles", NULL};
    char plan[4096];
    napi_value argument[4];
    size_t count = 4, offset;
    int type;
    void *memory;
    if (napi_get_cb_info(env, info, &count, argument, NULL, NULL) != 0 ||
        napi_get_value_string_utf8(env, argument[0], plan, sizeof plan, NULL) != 0 ||
        napi_get_typedarray_info(env, argument[1], &type, &bp_code_bytes, &memory, NULL, &offset) !=
            0 ||
        napi_get_value_uint32(env, argument[2], &bp_base) != 0 ||
        napi_get_value_uint32(env, argument[3], &bp_charges) != 0) {
        (void)napi_throw_error(env, NULL, "open needs plan, memory, base and charges");
        return NULL;
    }
    bp_code = memory;
    bp_blocks = calloc(bp_code_bytes / 2, sizeof *bp_blocks);
    bp_recorder =
        bp_blocks == NULL ? NULL : bp_recorder_open(plan, bp_charges != 0 ? columns : NULL);
    if (bp_recorder == NULL) {
        (void)napi_throw_error(env, NULL, "the recorder cannot use its plan");
        return NULL;
    }
    bp_recorder_core(
        bp_recorder,
        (bp_core_t){.stack = stack_now, .pushed = BP_PUSHED_ELSEWHERE, .jumped = has_jumped});
    return NULL;
}

static napi_value take(napi_env env, napi_callback_info info) {
    napi_value argument[2];
    size_t count = 2, words = 0, offset;
    int type;
    uint32_t entries = 0;
    void *first = NULL;
    if (napi_get_cb_info(env, info, &count, argument, NULL, NULL) != 0 ||
        napi_get_typedarray_info(env, argument[0], &type, &words, &first, NULL, &offset) != 0 ||
        napi_get_value_uint32(env, argument[1], &entries) != 0 ||
        entries > words * sizeof(uint32_t) / sizeof(bp_entry_t)) {
        (void)napi_throw_error(env, NULL, "take needs entries and their count");
        return NULL;
    }
    for (uint32_t i = 0; i < entries; i++) {
        take_one((const bp_entry_t *)first + i);
    }
    return NULL;
}

static napi_value close_record(napi_env env, napi_callback_info info) {
    (void)env;
    (void)info;
    bp_recorder_close(bp_recorder);
    return NULL;
}

napi_value napi_register_module_v1(napi_env env, napi_value exports) {
    static const struct {
        const char *name;
        napi_callback function;
    } functions[] = {{"open", open_plan}, {"take", take}, {"close", close_record}};
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        napi_value made;
        if (napi_create_function(env, functions[i].name, (size_t)NAPI_AUTO_LENGTH,
                                 functions[i].function, NULL, &made) != 0 ||
            napi_set_named_property(env, exports, functions[i].name, made) != 0) {
            return NULL;
        }
    }
    return exports;
}
