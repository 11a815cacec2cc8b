/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes and options of the agent. Each may be set on the compiler's command line. */

#ifndef BOARDPROF_BP_CONFIG_H
#define BOARDPROF_BP_CONFIG_H

/* Longest encoded frame in bytes, both ways, delimiters included. The agent keeps two buffers of
 * this size: one receives, one holds the last reply so that it can be sent again. 64..65535. */
#ifndef BP_CFG_MTU
#define BP_CFG_MTU 256
#endif

/* Most collectors that one measured window can hold. 1..8. */
#ifndef BP_CFG_ACTIVE_COLLECTORS
#define BP_CFG_ACTIVE_COLLECTORS 4
#endif

/* Bytes for the state of all collectors of one window; it stands on the stack, twice. 1..4096. */
#ifndef BP_CFG_STATE_BYTES
#define BP_CFG_STATE_BYTES 128
#endif

/* Bytes for the unpacked arguments and the result of one call, on the stack: eight arguments, as
 * many as bp.measure can pass on, and a result, of eight bytes each. */
#ifndef BP_CFG_SLOT_BYTES
#define BP_CFG_SLOT_BYTES 72
#endif

/* Bytes of memory that the host may fill and read through handles; 0 leaves the arena out. */
#ifndef BP_CFG_ARENA
#define BP_CFG_ARENA 0
#endif

/* Bytes before and behind the arena that bp_port_fence makes inaccessible, as far as they are whole
 * pages: a function that writes past its arrays traps before it reaches the agent. A multiple of
 * 16, or 0 for no margin. */
#ifndef BP_CFG_ARENA_MARGIN
#define BP_CFG_ARENA_MARGIN 0
#endif

/* Most arena blocks at one time. 1..255. */
#ifndef BP_CFG_HANDLES
#define BP_CFG_HANDLES 8
#endif

/* Collector windows that the host may hold open at one time, through start and stop of its own;
 * 0 leaves those packed functions out. */
#ifndef BP_CFG_OPEN_WINDOWS
#define BP_CFG_OPEN_WINDOWS 0
#endif

/* 1: a fault or a hang in a called function ends that call and not the board; the board's port then
 * owes bp_port_guard as well. 0: without. */
#ifndef BP_CFG_GUARD
#define BP_CFG_GUARD 0
#endif

/* Bytes of the buffer for one outgoing DATA frame, encoded: large blocks and streams in windows
 * that the receiver can hold. 64..BP_CFG_MTU, with an arena; 0 leaves channels out, and CANCEL. */
#ifndef BP_CFG_BULK
#define BP_CFG_BULK 0
#endif

/* Bytes that the line to the host can hold until bp_port_read takes them, at least 64: the host has
 * no more of them on the way. 0: as many as BP_CFG_MTU. */
#ifndef BP_CFG_RX_BYTES
#define BP_CFG_RX_BYTES 0
#endif

/* Bytes of the ring that bp_stream_write fills, a power of two; 0 leaves streams out. */
#ifndef BP_CFG_STREAM
#define BP_CFG_STREAM 0
#endif

/* 1: the host may read the board's tick counter, to bring both clocks together. */
#ifndef BP_CFG_CLOCK
#define BP_CFG_CLOCK 0
#endif

/* Most bytes of the stack to paint, to see how many of them a call takes; 64 or more, but there may
 * be fewer below the call. The board's port then owes bp_port_stack_limit as well. 0: without. */
#ifndef BP_CFG_STACK
#define BP_CFG_STACK 0
#endif

/* 1: the host may have measured windows run with interrupts masked; the board's port then owes
 * bp_port_mask, bp_port_unmask and bp_port_interrupts as well. 2: handlers that call bp_isr_enter
 * and bp_isr_exit are left out of what windows count, too; the collector `interrupts` must be among
 * the board's then, and there is a second state of BP_CFG_STATE_BYTES. 0: neither. */
#ifndef BP_CFG_INTERRUPTS
#define BP_CFG_INTERRUPTS 0
#endif

/* 0: CRC-32 bit by bit. 1: by a table of 16 words, 64 bytes larger, about six times faster. 8:
 * eight bytes at once, by tables of 8 KiB that are made in RAM; for boards that have plenty. */
#ifndef BP_CFG_CRC_TABLE
#define BP_CFG_CRC_TABLE 0
#endif

#if BP_CFG_MTU < 64 || BP_CFG_MTU > 65535
#error "BP_CFG_MTU is out of range (64..65535)"
#endif
#if BP_CFG_ACTIVE_COLLECTORS < 1 || BP_CFG_ACTIVE_COLLECTORS > 8
#error "BP_CFG_ACTIVE_COLLECTORS is out of range (1..8)"
#endif
#if BP_CFG_STATE_BYTES < 1 || BP_CFG_STATE_BYTES > 4096
#error "BP_CFG_STATE_BYTES is out of range (1..4096)"
#endif
#if BP_CFG_SLOT_BYTES < 1
#error "BP_CFG_SLOT_BYTES is out of range (1 or more)"
#endif
#if BP_CFG_ARENA < 0 || BP_CFG_ARENA > 0x7fffffff
#error "BP_CFG_ARENA is out of range (0..0x7fffffff)"
#endif
#if BP_CFG_ARENA_MARGIN < 0 || BP_CFG_ARENA_MARGIN > 0x1000000
#error "BP_CFG_ARENA_MARGIN is out of range (0..0x1000000)"
#endif
#if BP_CFG_OPEN_WINDOWS < 0 || BP_CFG_OPEN_WINDOWS > 255
#error "BP_CFG_OPEN_WINDOWS is out of range (0..255)"
#endif
#if BP_CFG_GUARD != 0 && BP_CFG_GUARD != 1
#error "BP_CFG_GUARD is out of range (0, 1)"
#endif
#if BP_CFG_BULK != 0 && (BP_CFG_BULK < 64 || BP_CFG_BULK > BP_CFG_MTU)
#error "BP_CFG_BULK is out of range (0, 64..BP_CFG_MTU)"
#endif
#if BP_CFG_BULK != 0 && BP_CFG_ARENA == 0
#error "BP_CFG_BULK needs BP_CFG_ARENA: what channels carry stands there"
#endif
#if BP_CFG_RX_BYTES != 0 && (BP_CFG_RX_BYTES < 64 || BP_CFG_RX_BYTES > 0x7fffffff)
#error "BP_CFG_RX_BYTES is out of range (0, 64..0x7fffffff)"
#endif
#if BP_CFG_STREAM < 0 || BP_CFG_STREAM > 0x40000000 || (BP_CFG_STREAM & (BP_CFG_STREAM - 1)) != 0
#error "BP_CFG_STREAM is out of range (0, powers of two up to 0x40000000)"
#endif
#if BP_CFG_STREAM != 0 && BP_CFG_BULK == 0
#error "BP_CFG_STREAM needs BP_CFG_BULK: a stream is a channel"
#endif
#if BP_CFG_CLOCK != 0 && BP_CFG_CLOCK != 1
#error "BP_CFG_CLOCK is out of range (0, 1)"
#endif
#if BP_CFG_STACK != 0 && (BP_CFG_STACK < 64 || BP_CFG_STACK > 0x7fffffff)
#error "BP_CFG_STACK is out of range (0, 64..0x7fffffff)"
#endif
#if BP_CFG_INTERRUPTS < 0 || BP_CFG_INTERRUPTS > 2
#error "BP_CFG_INTERRUPTS is out of range (0..2)"
#endif
#if BP_CFG_CRC_TABLE != 0 && BP_CFG_CRC_TABLE != 1 && BP_CFG_CRC_TABLE != 8
#error "BP_CFG_CRC_TABLE is out of range (0, 1, 8)"
#endif
#if BP_CFG_HANDLES < 1 || BP_CFG_HANDLES > 255
#error "BP_CFG_HANDLES is out of range (1..255)"
#endif

/* Bytes of a decoded frame: the encoded one without its two delimiters and COBS's own bytes. */
#define BP_FRAME_MAX (BP_CFG_MTU - 2 - (BP_CFG_MTU - 2 + 254) / 255)

/* Bytes that an agent with channels takes from the line at once. */
#define BP_CHUNK (BP_CFG_MTU < 4096 ? 32 : 4096)

/* Constant tables. On AVR .rodata is copied to RAM at start, so tables live in flash there and are
 * read through BP_ROM_GET; everywhere else both vanish. */
#if defined(__AVR__)
#include <stddef.h>

/* Copy from flash; arch/avr/bp_rom.c. */
void bp_rom_copy(void *to, const void *rom, size_t length);

/* The union drops the object's const: a const variable must not be filled in later. */
#define BP_ROM __attribute__((__progmem__))
#define BP_ROM_GET(object)                                    \
    (__extension__({                                          \
        union {                                               \
            unsigned char bytes[sizeof(object)];              \
            __typeof__(object) value;                         \
        } bp_rom;                                             \
        bp_rom_copy(bp_rom.bytes, &(object), sizeof(object)); \
        bp_rom.value;                                         \
    }))
#else
#define BP_ROM
#define BP_ROM_GET(object) (object)
#endif

#endif
