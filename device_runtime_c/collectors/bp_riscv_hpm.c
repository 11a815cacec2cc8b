/* SPDX-License-Identifier: Apache-2.0 */
/* RISC-V's programmable counters mhpmcounter3 to mhpmcounter6, as four slots: RISC-V privileged
 * manual, version 20211203, 3.1.10 and 3.1.12. */

#include "boardprof/bp.h"
#include "bp_arch.h"

enum { BP_SLOTS = 4 };

#define BP_INHIBIT_SLOTS ((1u << (3 + BP_SLOTS)) - (1u << 3)) /* in mcountinhibit */

static const char bp_riscv_hpm_name[] BP_ROM = "riscv_hpm";

/// The registers ///

typedef struct {
    const char *name;   /* in BP_ROM */
    const char *source; /* in BP_ROM */
    /* Write the event, clear the counter, and return what the event register then holds; ~event if
     * there is no such register. */
    uintptr_t (*program)(uintptr_t event);
    /* Write ones to the counter and read it back: only the bits that exist keep them. */
    uint64_t (*width)(void);
} bp_hpm_t;

#if __riscv_xlen == 64
#define BP_CLEAR(number, value) "csrw mhpmcounter" #number ", " value "\n"
#else
#define BP_CLEAR(number, value) \
    "csrw mhpmcounter" #number ", " value "\ncsrw mhpmcounter" #number "h, " value "\n"
#endif

/* If a register does not exist, the access traps and is skipped (bp_arch.h). The counter is cleared
 * after its event is set, because QEMU then notes the starting point of its count. */
#define BP_HPM(number)                                                                          \
    BP_ARCH_COUNTER(mhpmcounter##number)                                                        \
    static uintptr_t bp_program_##number(uintptr_t event) {                                     \
        uintptr_t found = ~event;                                                               \
        BP_ARCH_TRY("csrw mhpmevent" #number                                                    \
                    ", %[in]\n" BP_CLEAR(number, "zero") "csrr %[out], mhpmevent" #number "\n", \
                    found, event);                                                              \
        return found;                                                                           \
    }                                                                                           \
    static uint64_t bp_width_##number(void) {                                                   \
        uintptr_t none = 0;                                                                     \
        bool there = BP_ARCH_TRY(BP_CLEAR(number, "%[in]"), none, UINTPTR_MAX);                 \
        return there ? bp_arch_mhpmcounter##number() : 0;                                       \
    }                                                                                           \
    static const char bp_slot_##number[] BP_ROM = {'s', 'l', 'o', 't', '0' + number - 3, '\0'}; \
    static const char bp_source_##number[] BP_ROM = "mhpmcounter" #number;

BP_HPM(3)
BP_HPM(4)
BP_HPM(5)
BP_HPM(6)

#define BP_SLOT(number) \
    {bp_slot_##number, bp_source_##number, bp_program_##number, bp_width_##number}

static const bp_hpm_t bp_hpm[BP_SLOTS] BP_ROM = {BP_SLOT(3), BP_SLOT(4), BP_SLOT(5), BP_SLOT(6)};

/// Programming ///

/* A bit of the event register that is not part of the event: the counter has wrapped (Sscofpmf,
 * version 1.0; on rv32 it is in another register). */
#if __riscv_xlen == 64
#define BP_OVERFLOWED ((uintptr_t)1 << 63)
#else
#define BP_OVERFLOWED ((uintptr_t)0)
#endif

static uint8_t bp_bits[BP_SLOTS];   /* width; 0: there is no such counter */
static uint8_t bp_status[BP_SLOTS]; /* enum bp_counter_status */
static uint_fast8_t bp_used;        /* slots that were selected, from the first on */

static void bp_all_off(void) {
    for (uint_fast8_t i = 0; i < BP_SLOTS; i++) {
        if (bp_bits[i] != 0) {
            bp_hpm[i].program(0);
        }
        bp_status[i] = BP_COUNTER_ABSENT;
    }
    bp_used = 0;
}

/* A counter counts as present if it can be written: others read 0, or trap. */
static void bp_riscv_hpm_init(void) {
    (void)bp_arch_inhibit_clear(BP_INHIBIT_SLOTS);
    for (uint_fast8_t i = 0; i < BP_SLOTS; i++) {
        bp_bits[i] = 0;
        (void)bp_hpm[i].program(0); /* if it still ran, it would wrap between write and read */
        for (uint64_t ones = bp_hpm[i].width(); ones != 0; ones >>= 1) {
            bp_bits[i]++;
        }
    }
    bp_all_off();
}

#if BP_CFG_OPEN_WINDOWS

/* The event register must read back. An event that is already in an earlier slot is refused: on
 * some machines the second counter of an event does not move. */
static uint8_t bp_program(const uintptr_t *events, uint_fast8_t slot) {
    if (bp_bits[slot] != 0) {
        bp_used = slot + 1; /* counters are present without gaps */
    }
    for (uint_fast8_t i = 0; i < slot; i++) {
        if (events[i] == events[slot]) {
            return BP_COUNTER_ABSENT;
        }
    }
    if (bp_bits[slot] == 0 || events[slot] == 0) {
        return BP_COUNTER_ABSENT;
    }
    if (((bp_hpm[slot].program(events[slot]) ^ events[slot]) & ~BP_OVERFLOWED) != 0) {
        bp_hpm[slot].program(0);
        return BP_COUNTER_ABSENT;
    }
    return BP_COUNTER_OK;
}

static int bp_riscv_hpm_select(bp_call_t *call) {
    static const bp_select_t select = {
        .largest = UINTPTR_MAX,
        .all_off = bp_all_off,
        .program = bp_program,
        .status = bp_status,
        .slots = BP_SLOTS,
    };
    return bp_select_slots(call, &select);
}

#endif

/// Windows ///

/* Slots that are not selected are not read: some of them would trap. */
static void bp_riscv_hpm_start(void *state) {
    bp_riscv_hpm_t *s = state;
    switch (bp_used) {
    case 4:
        s->slot3_start = bp_arch_mhpmcounter6(); /* fall through */
    case 3:
        s->slot2_start = bp_arch_mhpmcounter5(); /* fall through */
    case 2:
        s->slot1_start = bp_arch_mhpmcounter4(); /* fall through */
    case 1:
        s->slot0_start = bp_arch_mhpmcounter3(); /* fall through */
    default:
        break;
    }
}

static void bp_riscv_hpm_stop(void *state) {
    bp_riscv_hpm_t *s = state;
    if (bp_used > 0) {
        s->slot0_stop = bp_arch_mhpmcounter3();
    }
    if (bp_used > 1) {
        s->slot1_stop = bp_arch_mhpmcounter4();
    }
    if (bp_used > 2) {
        s->slot2_stop = bp_arch_mhpmcounter5();
    }
    if (bp_used > 3) {
        s->slot3_stop = bp_arch_mhpmcounter6();
    }
}

/* Whether a function has stopped or reset a counter. */
static bool bp_riscv_hpm_intact(const void *state) {
    const bp_riscv_hpm_t *s = state;
    bool back = s != NULL && bp_bits[0] == 64 &&
                ((bp_used > 0 && s->slot0_stop < s->slot0_start) ||
                 (bp_used > 1 && s->slot1_stop < s->slot1_start) ||
                 (bp_used > 2 && s->slot2_stop < s->slot2_start) ||
                 (bp_used > 3 && s->slot3_stop < s->slot3_start));
    return bp_arch_inhibit_clear(BP_INHIBIT_SLOTS) && !back;
}

/* Slots that were not read are sent as 0; the host knows which slots it selected. */
static void bp_riscv_hpm_encode(uint8_t *out, const void *state) {
    bp_riscv_hpm_t s = *(const bp_riscv_hpm_t *)state;
    if (bp_used < 4) {
        s.slot3_start = s.slot3_stop = 0;
    }
    if (bp_used < 3) {
        s.slot2_start = s.slot2_stop = 0;
    }
    if (bp_used < 2) {
        s.slot1_start = s.slot1_stop = 0;
    }
    if (bp_used < 1) {
        s.slot0_start = s.slot0_stop = 0;
    }
    bp_riscv_hpm_put(out, &s);
}

static void bp_riscv_hpm_counter(bp_counter_t *out, uint8_t index) {
    out->name = bp_hpm[index].name;
    out->source = bp_hpm[index].source;
    out->bits = bp_bits[index] != 0 ? bp_bits[index] : 64;
    out->status = bp_status[index];
}

const bp_collector_t bp_collector_riscv_hpm BP_ROM = {
    .name = bp_riscv_hpm_name,
    .init = bp_riscv_hpm_init,
    .start = bp_riscv_hpm_start,
    .stop = bp_riscv_hpm_stop,
    .intact = BP_CFG_GUARD ? bp_riscv_hpm_intact : NULL,
    .encode = bp_riscv_hpm_encode,
    .counter = bp_riscv_hpm_counter,
#if BP_CFG_OPEN_WINDOWS
    .select = bp_riscv_hpm_select,
#endif
#if BP_CFG_INTERRUPTS > 1
    .skip = bp_riscv_hpm_skip,
#endif
    .layout_crc = BP_RISCV_HPM_CRC,
    .schema_id = BP_RISCV_HPM_SCHEMA,
    .body_length = BP_RISCV_HPM_LEN,
    .version = BP_RISCV_HPM_VERSION,
    .state_bytes = sizeof(bp_riscv_hpm_t),
    .counters = BP_SLOTS,
};
