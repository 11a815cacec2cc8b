/* SPDX-License-Identifier: Apache-2.0 */
/* QEMU's front end of the recorder: a TCG plugin.
 *
 *     qemu-system-... -plugin bp_qemu.so,plan=FILE
 *
 * It tells the recorder of each block as it begins. Whether the block before ran to its end shows a
 * count that QEMU itself keeps, of the instructions that can stop and the last one: it costs one
 * addition for each of these, and no call. The other instructions cannot trap.
 *
 * Under -icount, a device access that is not the last instruction of its block ends the block, and
 * QEMU executes it in a block of its own, which plugins do not see (accel/tcg/translate-all.c,
 * cpu_io_recompile, CF_MEMI_ONLY). It counts as the last one of the block before.
 *
 * The interface is that of include/qemu/qemu-plugin.h, declared here as far as it is used, in
 * version 1 (QEMU 4.2 to 8.2) and from version 2 (QEMU 9 and later). One plugin is for both: when
 * it is loaded, it looks which functions this QEMU has. */

#include "bp_recorder.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/// QEMU's interface ///

enum { QEMU_PLUGIN_CB_R_REGS = 1, QEMU_PLUGIN_INLINE_ADD_U64 = 0 };

struct qemu_plugin_tb;
struct qemu_plugin_insn;

typedef struct {
    const char *target_name;
    struct {
        int min;
        int cur;
    } version;
    bool system_emulation;
} qemu_info_t; /* its beginning */

typedef void (*qemu_plugin_udata_cb_t)(unsigned int cpu, void *userdata);
typedef void (*qemu_plugin_done_cb_t)(uint64_t id, void *userdata);
typedef void (*qemu_plugin_tb_trans_cb_t)(uint64_t id, struct qemu_plugin_tb *tb);

void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t id, qemu_plugin_tb_trans_cb_t cb);
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *tb, qemu_plugin_udata_cb_t cb,
                                          int flags, void *userdata);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn,
                                            qemu_plugin_udata_cb_t cb, int flags, void *userdata);
void qemu_plugin_register_atexit_cb(uint64_t id, qemu_plugin_done_cb_t cb, void *userdata);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t index);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *insn);

/* Only in version 1. */
__attribute__((weak)) void qemu_plugin_register_vcpu_insn_exec_inline(struct qemu_plugin_insn *insn,
                                                                      int op, void *to,
                                                                      uint64_t amount);

/* From version 2. */
struct qemu_plugin_scoreboard;
typedef struct {
    struct qemu_plugin_scoreboard *score;
    size_t offset;
} qemu_plugin_u64;

__attribute__((weak)) struct qemu_plugin_scoreboard *qemu_plugin_scoreboard_new(size_t bytes);
__attribute__((weak)) void *qemu_plugin_scoreboard_find(struct qemu_plugin_scoreboard *score,
                                                        unsigned int cpu);
__attribute__((weak)) void
qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(struct qemu_plugin_insn *insn, int op,
                                                    qemu_plugin_u64 to, uint64_t amount);

/* GLib's GByteArray, and the beginning of its GArray. */
typedef struct {
    uint8_t *data;
    unsigned int length;
} bp_bytes_t;

__attribute__((weak)) bp_bytes_t *g_byte_array_new(void);
__attribute__((weak)) bp_bytes_t *g_byte_array_set_size(bp_bytes_t *bytes, unsigned int length);

struct qemu_plugin_register;
typedef struct {
    struct qemu_plugin_register *handle;
    const char *name;
    const char *feature;
} qemu_plugin_reg_descriptor;

__attribute__((weak)) bp_bytes_t *qemu_plugin_get_registers(void);
__attribute__((weak)) int qemu_plugin_read_register(struct qemu_plugin_register *handle,
                                                    bp_bytes_t *to);

/* Version 1 reads no registers. A QEMU that loads its modules from files, as Debian's does, exports
 * all functions, these too (QEMU 5.1 to 8.2, target/.../gdbstub.c). */
struct qemu_cpu;
typedef int bp_read_t(struct qemu_cpu *cpu, bp_bytes_t *to, int number);

__attribute__((weak)) struct qemu_cpu *qemu_get_cpu(int index);
__attribute__((weak)) bp_read_t riscv_cpu_gdb_read_register;
__attribute__((weak)) bp_read_t arm_cpu_gdb_read_register;
__attribute__((weak)) bp_read_t aarch64_cpu_gdb_read_register;

/* Versions 1 and 2 return a pointer and take one argument; version 3 copies. */
size_t qemu_plugin_insn_data(const struct qemu_plugin_insn *insn, void *to, size_t bytes);

extern int qemu_plugin_version;
int qemu_plugin_version = 1;
int qemu_plugin_install(uint64_t id, const qemu_info_t *info, int argc, char **argv);

/* QEMU reads the version after it has loaded the plugin. */
__attribute__((constructor)) static void choose_version(void) {
    qemu_plugin_version = qemu_plugin_scoreboard_new == NULL ? 1 : 2;
}

/// Instructions ///

static int64_t sign_extended(uint64_t value, unsigned bits) {
    uint64_t sign = (uint64_t)1 << (bits - 1);
    return (int64_t)((value & ((sign << 1) - 1)) ^ sign) - (int64_t)sign;
}

/* `high` to `low` of a word. */
static uint32_t bits(uint32_t word, unsigned high, unsigned low) {
    return word >> low & (((uint32_t)1 << (high - low) << 1) - 1);
}

/* Offset 0 is a branch to itself, or a target that is not known. */
static void goes(bp_insn_t *insn, bp_flow_t flow, int64_t offset) {
    bool is_known = offset != 0 || flow == BP_FLOW_BRANCH;
    insn->flow = (uint8_t)flow;
    insn->target = is_known ? insn->address + (uint64_t)offset : 0;
}

/* ra or t0, with which functions return (unprivileged manual 20191213, table 2.1). */
static bool is_link(uint32_t x) {
    return x == 1 || x == 5;
}

static void jumps_by_register(bp_insn_t *insn, uint32_t rd, uint32_t rs1, uint32_t offset) {
    goes(insn, is_link(rd) ? BP_FLOW_CALL : is_link(rs1) ? BP_FLOW_RETURN : BP_FLOW_INDIRECT, 0);
    insn->by = rd == rs1 || offset != 0 ? 0 : (uint8_t)(1 + rs1);
}

/* RISC-V unprivileged manual 20191213, chapter 16, tables 16.5 to 16.7. */
static void decode_compressed(bp_insn_t *insn, uint32_t w, bool is_64) {
    uint32_t funct = bits(w, 15, 13), rs1 = bits(w, 11, 7), rs2 = bits(w, 6, 2);
    uint32_t j = bits(w, 12, 12) << 11 | bits(w, 8, 8) << 10 | bits(w, 10, 9) << 8 |
                 bits(w, 6, 6) << 7 | bits(w, 7, 7) << 6 | bits(w, 2, 2) << 5 |
                 bits(w, 11, 11) << 4 | bits(w, 5, 3) << 1;
    uint32_t b = bits(w, 12, 12) << 8 | bits(w, 6, 5) << 6 | bits(w, 2, 2) << 5 |
                 bits(w, 11, 10) << 3 | bits(w, 4, 3) << 1;
    switch ((w & 3u) << 3 | funct) {
    case 1 << 3 | 1:
        if (!is_64) {
            goes(insn, BP_FLOW_CALL, sign_extended(j, 12));
        }
        break;
    case 1 << 3 | 5:
        goes(insn, BP_FLOW_BRANCH, sign_extended(j, 12));
        break;
    case 1 << 3 | 6:
    case 1 << 3 | 7:
        goes(insn, BP_FLOW_BRANCH, sign_extended(b, 9));
        break;
    case 2 << 3 | 4:
        if (rs2 == 0 && rs1 != 0) {
            jumps_by_register(insn, bits(w, 12, 12), rs1, 0);
        } else {
            insn->can_stop = rs2 == 0; /* c.ebreak */
        }
        break;
    case 0 << 3 | 0:
    case 2 << 3 | 0:
        insn->can_stop = w == 0;
        break;
    default:
        insn->can_stop = (w & 3u) != 1;
    }
}

/* The same manual, chapter 24. */
static void decode_riscv(bp_insn_t *insn, uint32_t w, bool is_64) {
    uint32_t j = bits(w, 31, 31) << 20 | bits(w, 19, 12) << 12 | bits(w, 20, 20) << 11 |
                 bits(w, 30, 21) << 1;
    uint32_t b =
        bits(w, 31, 31) << 12 | bits(w, 7, 7) << 11 | bits(w, 30, 25) << 5 | bits(w, 11, 8) << 1;
    if ((w & 3u) != 3) {
        decode_compressed(insn, w & 0xffffu, is_64);
        return;
    }
    switch (w & 0x7fu) {
    case 0x6f:
        goes(insn, is_link(bits(w, 11, 7)) ? BP_FLOW_CALL : BP_FLOW_BRANCH, sign_extended(j, 21));
        break;
    case 0x67:
        jumps_by_register(insn, bits(w, 11, 7), bits(w, 19, 15), bits(w, 31, 20));
        break;
    case 0x63:
        goes(insn, BP_FLOW_BRANCH, sign_extended(b, 13));
        break;
    case 0x13: /* OP-IMM, OP, OP-IMM-32, OP-32, LUI, AUIPC */
    case 0x33:
    case 0x1b:
    case 0x3b:
    case 0x37:
    case 0x17:
        break;
    case 0x73:
        if (w == 0x30200073u || w == 0x10200073u) { /* mret, sret */
            goes(insn, BP_FLOW_RESUME, 0);
        }
        insn->can_stop = true;
        break;
    default:
        insn->can_stop = true;
    }
}

static int32_t words_of(uint32_t registers) {
    return 4 * __builtin_popcount(registers);
}

/* What an instruction takes from the stack: the same manual, A5.2.3 and A5.2.5. */
static int32_t pops_thumb16(uint32_t w) {
    uint32_t rd = bits(w, 7, 7) << 3 | bits(w, 2, 0);
    switch (w & 0xfe00u) {
    case 0xb400u:
        return -words_of(w & 0x1ffu);
    case 0xbc00u:
        return words_of(w & 0x1ffu);
    case 0xb000u: /* CBZ has bit 8 */
        return bits(w, 8, 8) != 0 ? 0 : (bits(w, 7, 7) != 0 ? -4 : 4) * (int32_t)bits(w, 6, 0);
    case 0x4400u: /* CMP and BX have it */
    case 0x4600u:
        return rd == 13 && bits(w, 8, 8) == 0 ? BP_POPS_ANY : 0;
    default:
        return 0;
    }
}

/* A5.3.2: a constant as instructions have it. */
static int32_t expanded(uint32_t imm12) {
    return imm12 < 0x100u   ? (int32_t)imm12
           : imm12 < 0x400u ? BP_POPS_ANY
                            : (int32_t)((0x80u | bits(imm12, 6, 0)) << (32 - bits(imm12, 11, 7)));
}

/* A5.3, and A6 for VPUSH and VPOP. */
static int32_t pops_thumb32(uint32_t a, uint32_t b) {
    int32_t imm8 = (int32_t)bits(b, 7, 0);
    uint32_t imm12 = bits(a, 10, 10) << 11 | bits(b, 14, 12) << 8 | bits(b, 7, 0);
    bool sets_sp = bits(b, 11, 8) == 13;
    bool is_sub = bits(a, 7, 7) != 0;
    if (a == 0xe92du || a == 0xe8bdu) {
        return a == 0xe92du ? -words_of(b) : words_of(b);
    } else if (a == 0xf84du && bits(b, 11, 8) == 13) {
        return -imm8;
    } else if (a == 0xf85du && bits(b, 11, 8) == 11) {
        return imm8;
    } else if ((a & 0xfe6fu) == 0xe86du) {
        return bits(a, 7, 7) != 0 ? 4 * imm8 : -4 * imm8;
    } else if ((a & 0xffbfu) == 0xed2du || (a & 0xffbfu) == 0xecbdu) {
        return (a & 0xffbfu) == 0xed2du ? -4 * imm8 : 4 * imm8;
    } else if (!sets_sp || (b & 0x8000u) != 0) {
        return 0;
    } else if ((a & 0xfbffu) == 0xf10du || (a & 0xfbffu) == 0xf1adu) {
        int32_t constant = expanded(imm12);
        return is_sub && constant != BP_POPS_ANY ? -constant : constant;
    } else if ((a & 0xfbffu) == 0xf20du || (a & 0xfbffu) == 0xf2adu) {
        return is_sub ? -(int32_t)imm12 : (int32_t)imm12;
    }
    return (a & 0xf800u) == 0xf000u || (a & 0xfe00u) == 0xea00u ? BP_POPS_ANY : 0;
}

/* ARMv7-M reference manual (DDI 0403E), A5.2. */
static void decode_thumb16(bp_insn_t *insn, uint32_t w) {
    uint32_t rd = bits(w, 7, 7) << 3 | bits(w, 2, 0), rm = bits(w, 6, 3);
    if ((w & 0xf000u) == 0xd000u) {
        if (bits(w, 11, 8) < 14) {
            goes(insn, BP_FLOW_BRANCH, 4 + sign_extended(bits(w, 7, 0), 8) * 2);
        } else { /* SVC, UDF */
            insn->can_stop = true;
        }
    } else if ((w & 0xf800u) == 0xe000u) {
        goes(insn, BP_FLOW_BRANCH, 4 + sign_extended(bits(w, 10, 0), 11) * 2);
    } else if ((w & 0xf500u) == 0xb100u) { /* CBZ, CBNZ */
        goes(insn, BP_FLOW_BRANCH, 4 + (int64_t)(bits(w, 9, 9) << 6 | bits(w, 7, 3) << 1));
    } else if ((w & 0xff80u) == 0x4780u) {
        goes(insn, BP_FLOW_CALL, 0);
    } else if ((w & 0xff80u) == 0x4700u || ((w & 0xff00u) == 0x4600u && rd == 15)) {
        goes(insn, rm == 14 ? BP_FLOW_RETURN : BP_FLOW_INDIRECT, 0);
        insn->can_stop = true; /* the return from an exception takes registers from the stack */
    } else if ((w & 0xff00u) == 0x4400u && rd == 15) {
        goes(insn, BP_FLOW_INDIRECT, 0);
    } else if ((w & 0xff00u) == 0xbd00u) { /* POP with the pc */
        goes(insn, BP_FLOW_RETURN, 0);
        insn->can_stop = true;
    } else {
        uint32_t top = bits(w, 15, 12);
        bool plain = top < 4 || (w & 0xf800u) == 0x4000u || (w & 0xfc00u) == 0x4400u || top == 10 ||
                     (w & 0xff00u) == 0xb000u || (w & 0xfd00u) == 0xb800u ||
                     (w & 0xff00u) == 0xb200u || ((w & 0xff00u) == 0xbf00u && (w & 15u) != 0);
        insn->can_stop = !plain;
    }
}

/* The same manual, A5.3, and ARMv8.1-M (DDI 0553B), C2.4.103 and C2.4.251, for LE and WLS. */
static void decode_thumb32(bp_insn_t *insn, uint32_t a, uint32_t b) {
    uint32_t s = bits(a, 10, 10), j1 = bits(b, 13, 13), j2 = bits(b, 11, 11);
    uint32_t far = s << 24 | (s ^ j1 ^ 1) << 23 | (s ^ j2 ^ 1) << 22 | bits(a, 9, 0) << 12 |
                   bits(b, 10, 0) << 1;
    uint32_t near = s << 20 | j2 << 19 | j1 << 18 | bits(a, 5, 0) << 12 | bits(b, 10, 0) << 1;
    uint32_t loop = bits(b, 10, 1) << 2 | bits(b, 11, 11) << 1;
    if ((a & 0xf800u) == 0xf000u && (b & 0x8000u) != 0) {
        if ((b & 0xd000u) == 0xd000u) {
            goes(insn, BP_FLOW_CALL, 4 + sign_extended(far, 25));
        } else if ((b & 0xd000u) == 0x9000u) {
            goes(insn, BP_FLOW_BRANCH, 4 + sign_extended(far, 25));
        } else if ((b & 0xf001u) == 0xc001u) {
            bool is_back = (a & 0xffcfu) == 0xf00fu;
            goes(insn, BP_FLOW_BRANCH, is_back ? 4 - (int64_t)loop : 4 + (int64_t)loop);
        } else if ((b & 0xd000u) == 0x8000u && bits(a, 9, 6) < 14) {
            goes(insn, BP_FLOW_BRANCH, 4 + sign_extended(near, 21));
        } else {
            insn->can_stop = true;
        }
        return;
    }
    bool is_table = (a & 0xfff0u) == 0xe8d0u && (b & 0xffe0u) == 0xf000u;
    bool is_pop = (a & 0xfe50u) == 0xe810u && (b & 0x8000u) != 0; /* LDM with the pc */
    bool is_load = (a & 0xff70u) == 0xf850u && bits(b, 15, 12) == 15;
    bool is_division = (a & 0xffd0u) == 0xfb90u;
    if (is_table || is_pop || is_load) {
        goes(insn, !is_table && (a & 15u) == 13 ? BP_FLOW_RETURN : BP_FLOW_INDIRECT, 0);
    }
    bool is_plain = (a & 0xf800u) == 0xf000u || (a & 0xfe00u) == 0xea00u ||
                    ((a & 0xfe00u) == 0xfa00u && !is_division);
    insn->can_stop = !is_plain;
}

/* Arm architecture reference manual (DDI 0487), C4.1. */
static void decode_aarch64(bp_insn_t *insn, uint32_t w) {
    if ((w & 0x7c000000u) == 0x14000000u) {
        goes(insn, (w & 0x80000000u) != 0 ? BP_FLOW_CALL : BP_FLOW_BRANCH,
             sign_extended(bits(w, 25, 0), 26) * 4);
    } else if ((w & 0xff000000u) == 0x54000000u || (w & 0x7e000000u) == 0x34000000u) {
        goes(insn, BP_FLOW_BRANCH, sign_extended(bits(w, 23, 5), 19) * 4);
    } else if ((w & 0x7e000000u) == 0x36000000u) {
        goes(insn, BP_FLOW_BRANCH, sign_extended(bits(w, 18, 5), 14) * 4);
    } else if ((w & 0xfe000000u) == 0xd6000000u) {
        static const uint8_t by_opcode[4] = {BP_FLOW_INDIRECT, BP_FLOW_CALL, BP_FLOW_RETURN,
                                             BP_FLOW_INDIRECT};
        bool is_eret = bits(w, 24, 21) == 4;
        uint32_t rn = bits(w, 9, 5);
        goes(insn, is_eret ? BP_FLOW_RESUME : (bp_flow_t)by_opcode[bits(w, 22, 21)], 0);
        insn->by = is_eret || (rn == 30 && insn->flow == BP_FLOW_CALL) ? 0 : (uint8_t)(1 + rn);
        insn->can_stop = is_eret; /* it traps in EL0 */
    } else {
        bool is_immediate = bits(w, 28, 26) == 4, is_register = bits(w, 27, 25) == 5;
        insn->can_stop = !is_immediate && !is_register;
    }
}

/// The plugin ///

enum { BP_RISCV32, BP_RISCV64, BP_ARM, BP_AARCH64 };

static bp_recorder_t *bp_recorder;
static int bp_isa;

/* Instructions that can stop, since the block began. */
static uint64_t bp_stops;                          /* in version 1 */
static struct qemu_plugin_scoreboard *bp_stops_of; /* from version 2, by CPU */
static bool bp_copies;                             /* from version 3 */
static bp_bytes_t *bp_value;                       /* of a register; NULL if this QEMU gives none */

static uint64_t *stops_of(unsigned int cpu) {
    return bp_stops_of == NULL ? &bp_stops : qemu_plugin_scoreboard_find(bp_stops_of, cpu);
}

static void count_stop(struct qemu_plugin_insn *insn) {
    if (bp_stops_of == NULL) {
        qemu_plugin_register_vcpu_insn_exec_inline(insn, QEMU_PLUGIN_INLINE_ADD_U64, &bp_stops, 1);
    } else {
        qemu_plugin_u64 to = {.score = bp_stops_of};
        qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(insn, QEMU_PLUGIN_INLINE_ADD_U64, to,
                                                            1);
    }
}

static void copy_code(const struct qemu_plugin_insn *insn, void *to, size_t bytes) {
    typedef const void *(*before_t)(const struct qemu_plugin_insn *);
    void (*volatile data)(void) = (void (*)(void))qemu_plugin_insn_data;
    if (bp_copies) {
        (void)qemu_plugin_insn_data(insn, to, bytes);
    } else {
        memcpy(to, ((before_t)data)(insn), bytes);
    }
}

static void decode(bp_insn_t *insn, const struct qemu_plugin_insn *from) {
    uint8_t code[4] = {0};
    size_t length = qemu_plugin_insn_size(from);
    copy_code(from, code, length < sizeof code ? length : sizeof code);
    /* A first half from 0xe800 has a second one (ARMv7-M ARM, A5.1). Where QEMU 7.2 looks whether
     * the next instruction crosses a page, it adds that one's half to the size. */
    if (bp_isa == BP_ARM) {
        length = code[1] < 0xe8 ? 2 : 4;
    }
    uint32_t low = code[0] | (uint32_t)code[1] << 8, high = code[2] | (uint32_t)code[3] << 8;
    memset(insn, 0, sizeof(*insn));
    insn->address = qemu_plugin_insn_vaddr(from);
    insn->length = (uint8_t)length;
    if (bp_isa == BP_ARM && length == 2) {
        decode_thumb16(insn, low);
        insn->pops = pops_thumb16(low);
    } else if (bp_isa == BP_ARM) {
        decode_thumb32(insn, low, high);
        insn->pops = pops_thumb32(low, high);
        insn->switches = (low & 0xfff0u) == 0xf380u && (high & 0xf37fu) == 0x8009u; /* MSR PSP */
    } else if (bp_isa == BP_AARCH64) {
        decode_aarch64(insn, low | high << 16);
    } else {
        decode_riscv(insn, low | high << 16, bp_isa == BP_RISCV64);
    }
    if (bp_value == NULL && insn->flow == BP_FLOW_RESUME) {
        insn->switches = true; /* to another task, as far as is known without registers */
    }
    insn->target &= bp_isa == BP_RISCV32 || bp_isa == BP_ARM ? UINT32_MAX : UINT64_MAX;
}

static bool bp_is_inside; /* of QEMU's block: version 1 has registers only where this begins */

static void arrive(unsigned int cpu, void *block) {
    uint64_t *stops = stops_of(cpu);
    uint32_t before = (uint32_t)*stops;
    *stops = 0;
    bp_recorder_arrive(bp_recorder, block, before);
}

static void on_block(unsigned int cpu, void *block) {
    bp_is_inside = false;
    arrive(cpu, block);
}

static void on_later_block(unsigned int cpu, void *block) {
    bp_is_inside = qemu_plugin_version == 1;
    arrive(cpu, block);
}

/// Registers ///

enum { BP_XPSR = 16, BP_REGISTERS = 33 }; /* xPSR has this place on a Cortex-M, after the pc */

static bp_read_t *reader_of_version_1(void) {
    bp_read_t *const by_isa[] = {riscv_cpu_gdb_read_register, riscv_cpu_gdb_read_register,
                                 arm_cpu_gdb_read_register, aarch64_cpu_gdb_read_register};
    return qemu_get_cpu == NULL ? NULL : by_isa[bp_isa];
}

static bool reads_by_handle(void) {
    return qemu_plugin_read_register != NULL && qemu_plugin_get_registers != NULL;
}

static bool can_read(void) {
    return g_byte_array_new != NULL && g_byte_array_set_size != NULL &&
           (reads_by_handle() || reader_of_version_1() != NULL);
}

/* The registers of GDB's description of the core come first, in its order. */
static void read_by_handle(unsigned int index) {
    static struct qemu_plugin_register *handles[BP_REGISTERS];
    if (handles[0] == NULL) { /* they exist when a CPU runs */
        const bp_bytes_t *found = qemu_plugin_get_registers();
        const qemu_plugin_reg_descriptor *all = (const void *)found->data;
        for (unsigned int i = 0; i < found->length && i < BP_REGISTERS; i++) {
            handles[i] = all[i].handle;
        }
    }
    if (handles[index] != NULL) {
        (void)qemu_plugin_read_register(handles[index], bp_value);
    }
}

static uint64_t read_register(unsigned int index) {
    enum { XPSR_OF_GDB = 25 };
    uint64_t value = 0;
    (void)g_byte_array_set_size(bp_value, 0);
    if (reads_by_handle()) {
        read_by_handle(index);
    } else {
        int number = bp_isa == BP_ARM && index == BP_XPSR ? XPSR_OF_GDB : (int)index;
        (void)reader_of_version_1()(qemu_get_cpu(0), bp_value, number);
    }
    for (unsigned int i = 0; i < bp_value->length && i < sizeof value; i++) {
        value |= (uint64_t)bp_value->data[i] << 8 * i;
    }
    return value;
}

static uint64_t stack_now(void) {
    static const unsigned int indexes[] = {2, 2, 13, 31};
    return bp_is_inside ? 0 : read_register(indexes[bp_isa]);
}

/* In a handler of a Cortex-M, xPSR has the number of the exception. Elsewhere, the register that
 * had the target still has it. */
static bool has_jumped(const bp_insn_t *insn, uint64_t to) {
    if (bp_is_inside) {
        return true;
    }
    if (bp_isa == BP_ARM) {
        return (read_register(BP_XPSR) & 0x1ffu) == 0;
    }
    return insn->by == 0 || ((read_register(insn->by - 1u) ^ to) & ~(uint64_t)1) == 0;
}

/* Tell the recorder of instructions `begin` to `end`, without that, of one function. A function may
 * continue in the one behind it: then QEMU's block has several. */
static void watch(struct qemu_plugin_tb *tb, const bp_insn_t *insns, size_t begin, size_t end) {
    bp_block_t *block = bp_recorder_block(bp_recorder, insns + begin, end - begin);
    if (begin == 0) {
        qemu_plugin_register_vcpu_tb_exec_cb(tb, on_block, QEMU_PLUGIN_CB_R_REGS, block);
    } else { /* before its own instructions are counted */
        qemu_plugin_register_vcpu_insn_exec_cb(qemu_plugin_tb_get_insn(tb, begin), on_later_block,
                                               QEMU_PLUGIN_CB_R_REGS, block);
    }
    for (size_t i = begin; i < end; i++) {
        if (insns[i].can_stop || i + 1 == end) {
            count_stop(qemu_plugin_tb_get_insn(tb, i));
        }
    }
}

static void on_translation(uint64_t id, struct qemu_plugin_tb *tb) {
    enum { LONGEST = 512 }; /* TCG_MAX_INSNS */
    static bp_insn_t insns[LONGEST];
    size_t count = qemu_plugin_tb_n_insns(tb);
    (void)id;
    if (count == 0) {
        return;
    }
    if (count > LONGEST) {
        fputs("boardprof recorder: a block of QEMU is longer than expected\n", stderr);
        count = LONGEST;
    }
    for (size_t i = 0; i < count; i++) {
        decode(&insns[i], qemu_plugin_tb_get_insn(tb, i));
    }
    for (size_t i = 0, begin = 0; i < count; i++) {
        bool is_last = i + 1 == count;
        if (is_last ||
            !bp_recorder_is_one(bp_recorder, insns[begin].address, insns[i + 1].address)) {
            watch(tb, insns, begin, i + 1);
            begin = i + 1;
        }
    }
}

static void on_end(uint64_t id, void *unused) {
    (void)id;
    (void)unused;
    bp_recorder_close(bp_recorder);
}

int qemu_plugin_install(uint64_t id, const qemu_info_t *info, int argc, char **argv) {
    static const char *const names[] = {"riscv32", "riscv64", "arm", "aarch64"};
    const char plan[] = "plan=";
    for (bp_isa = 0; bp_isa < 4 && strcmp(info->target_name, names[bp_isa]) != 0;) {
        bp_isa++;
    }
    if (bp_isa == 4) {
        fprintf(stderr, "boardprof recorder: %s is not supported\n", info->target_name);
        return 1;
    }
    if (argc != 1 || strncmp(argv[0], plan, sizeof plan - 1) != 0) {
        fputs("boardprof recorder: needs plan=FILE, and nothing else\n", stderr);
        return 1;
    }
    bp_copies = info->version.cur >= 3;
    if (qemu_plugin_version >= 2) {
        bp_stops_of = qemu_plugin_scoreboard_new(sizeof(uint64_t));
    }
    bp_recorder = bp_recorder_open(argv[0] + sizeof plan - 1, NULL);
    if (bp_recorder == NULL) {
        return 1;
    }
    if (can_read()) {
        bp_value = g_byte_array_new();
        bp_core_t core = {.stack = stack_now, .jumped = has_jumped};
        core.pushed = bp_isa == BP_ARM ? BP_PUSHED_ELSEWHERE : 0;
        bp_recorder_core(bp_recorder, core);
    }
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
    qemu_plugin_register_atexit_cb(id, on_end, NULL);
    return 0;
}
