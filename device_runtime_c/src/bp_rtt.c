/* SPDX-License-Identifier: Apache-2.0 */
/* The line to the host through memory, without a UART: a debug probe reads and writes two rings
 * while the core runs. This is SEGGER's Real Time Transfer, channel 0. Layout of the control block:
 * J-Link user guide (UM08001), chapter "RTT", "How RTT works"; https://wiki.segger.com/RTT.
 *
 * The agent and the probe each write only their own positions, so no lock is needed. The agent
 * trusts nothing in the control block: its addresses, sizes and own positions are not there. */

#include "bp_internal.h"

#if BP_CFG_RTT

/* One byte of a ring stays free, so that a full one differs from an empty one. The host never sends
 * more at once than the other bytes. */
#define BP_RTT_UP BP_CFG_RTT
#define BP_RTT_DOWN ((BP_CFG_RX_BYTES != 0 ? BP_CFG_RX_BYTES : BP_CFG_MTU) + 1)

/* Looks at a full ring after which a write gives up, even if the tick counter stands still. */
#define BP_RTT_LOOKS (UINT32_C(1) << 22)

typedef struct {
    const char *name;
    uint8_t *buffer;
    uint32_t size;
    uint32_t write; /* where the next byte will be put */
    uint32_t read;  /* where the next byte will be taken */
    uint32_t flags; /* for the probe's user; 0 */
} bp_rtt_ring_t;

/* Probes look for these 16 bytes, or for the symbol in the ELF file. */
extern volatile struct bp_rtt {
    char id[16];
    uint32_t ups, downs; /* how many rings each way */
    bp_rtt_ring_t up;    /* to the host */
    bp_rtt_ring_t down;
} bp_rtt __asm__("_SEGGER_RTT");

volatile struct bp_rtt bp_rtt;

static uint8_t bp_rtt_up[BP_RTT_UP], bp_rtt_down[BP_RTT_DOWN];
static uint32_t bp_rtt_written, bp_rtt_taken; /* `up.write` and `down.read` */
static bool bp_rtt_is_alone;                  /* a write gave up, and nobody has read since */
static uint32_t bp_rtt_alone_at;              /* `up.read` then */

/* What was written before is in memory before what is written afterwards. */
#define BP_RTT_BARRIER() __atomic_thread_fence(__ATOMIC_SEQ_CST)

/* Where the probe reads next. */
static uint32_t bp_rtt_read_at(void) {
    uint32_t read = bp_rtt.up.read;
    if (read >= BP_RTT_UP) { /* not from a probe: begin again with an empty ring */
        bp_rtt.up.read = read = bp_rtt_written;
    }
    return read;
}

/* Describe the rings. Done again and again, since a function may have overwritten the block. The
 * identifier is written last and from its end: a probe finds no unfinished block, and no copy of
 * the identifier in flash. */
static void bp_rtt_describe(void) {
    static const char backwards[] = "TTR REGGES", name[] = "boardprof";
    enum { LENGTH = sizeof backwards - 1 };
    bp_rtt.up.name = name;
    bp_rtt.up.buffer = bp_rtt_up;
    bp_rtt.up.size = BP_RTT_UP;
    bp_rtt.up.write = bp_rtt_written;
    (void)bp_rtt_read_at();
    bp_rtt.up.flags = 0;
    bp_rtt.down.name = name;
    bp_rtt.down.buffer = bp_rtt_down;
    bp_rtt.down.size = BP_RTT_DOWN;
    bp_rtt.down.read = bp_rtt_taken;
    bp_rtt.down.flags = 0;
    bp_rtt.ups = 1;
    bp_rtt.downs = 1;
    BP_RTT_BARRIER();
    for (uint32_t i = sizeof bp_rtt.id; i-- > 0;) {
        bp_rtt.id[i] = i < LENGTH ? backwards[LENGTH - 1 - i] : '\0';
    }
}

size_t bp_rtt_read(uint8_t *buffer, size_t capacity) {
    uint32_t end = bp_rtt.down.write;
    if (end >= BP_RTT_DOWN) { /* not from a probe: begin again with an empty ring */
        bp_rtt.down.write = end = bp_rtt_taken;
    }
    if (end == bp_rtt_taken) {
        bp_rtt_describe();
        return 0;
    }
    BP_RTT_BARRIER();
    size_t length = 0;
    while (length < capacity && bp_rtt_taken != end) {
        buffer[length++] = bp_rtt_down[bp_rtt_taken];
        bp_rtt_taken = bp_rtt_taken + 1 < BP_RTT_DOWN ? bp_rtt_taken + 1 : 0;
    }
    BP_RTT_BARRIER();
    bp_rtt.down.read = bp_rtt_taken;
    return length;
}

/* How many bytes the ring has room for. */
static uint32_t bp_rtt_room(void) {
    uint32_t read = bp_rtt_read_at();
    return read > bp_rtt_written ? read - bp_rtt_written - 1
                                 : BP_RTT_UP - 1 - bp_rtt_written + read;
}

/* Wait for room, up to a second of the tick counter. Returns whether there is some. Without a
 * reader only the first write waits. */
static bool bp_rtt_await_room(void) {
    uint8_t bits = BP_ROM_GET(bp_port_clock.ticks_bits);
    uint32_t mask = bits < 32 ? (UINT32_C(1) << bits) - 1 : UINT32_MAX;
    uint32_t second = BP_ROM_GET(bp_port_clock.ticks_hz);
    uint32_t before = (uint32_t)bp_port_ticks(), passed = 0;
    if (bp_rtt_is_alone && bp_rtt.up.read == bp_rtt_alone_at) {
        return false;
    }
    bp_rtt_is_alone = false;
    for (uint32_t looks = 0; looks < BP_RTT_LOOKS && passed <= second; looks++) {
        if (bp_rtt_room() != 0) {
            return true;
        }
        uint32_t now = (uint32_t)bp_port_ticks();
        passed += second != 0 ? (now - before) & mask : 0;
        before = now;
    }
    bp_rtt_is_alone = true;
    bp_rtt_alone_at = bp_rtt.up.read;
    return false;
}

void bp_rtt_write(const uint8_t *buffer, size_t length) {
    while (length > 0) {
        uint32_t room = bp_rtt_room();
        if (room == 0) {
            if (!bp_rtt_await_room()) {
                return; /* the host asks again for what is lost */
            }
            continue;
        }
        BP_RTT_BARRIER(); /* the probe has read what is overwritten now */
        for (; room > 0 && length > 0; room--, length--) {
            bp_rtt_up[bp_rtt_written] = *buffer++;
            bp_rtt_written = bp_rtt_written + 1 < BP_RTT_UP ? bp_rtt_written + 1 : 0;
        }
        BP_RTT_BARRIER();
        bp_rtt.up.write = bp_rtt_written;
    }
}

#endif
