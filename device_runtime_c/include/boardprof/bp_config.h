/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes and options of the agent. Set them on the compiler's command line: -DBP_CFG_ARENA=4096. */

#ifndef BOARDPROF_BP_CONFIG_H
#define BOARDPROF_BP_CONFIG_H

/* These options are generated from options/options.toml: make gen */

/* Longest encoded frame in bytes, both ways, delimiters included. The agent keeps two buffers of
 * this size: one receives, one holds the last reply so that it can be sent again. 64..65535. */
#ifndef BP_CFG_MTU
#define BP_CFG_MTU 256
#endif

/* The most collectors that one measured window can have. 1..8. */
#ifndef BP_CFG_ACTIVE_COLLECTORS
#define BP_CFG_ACTIVE_COLLECTORS 4
#endif

/* Bytes for the state of all collectors of one window. The stack holds two of them. 1..4096. */
#ifndef BP_CFG_STATE_BYTES
#define BP_CFG_STATE_BYTES 128
#endif

/* Bytes for the unpacked arguments and the result of one call, on the stack. The default fits a
 * result and eight arguments, the most that bp.measure passes, of eight bytes each. */
#ifndef BP_CFG_SLOT_BYTES
#define BP_CFG_SLOT_BYTES 72
#endif

/* Bytes of memory that the host can write and read through handles. 0: no arena. */
#ifndef BP_CFG_ARENA
#define BP_CFG_ARENA 0
#endif

/* Bytes below and above the arena. bp_port_fence makes the whole pages in them inaccessible, so
 * that a function that writes past its arrays traps before it reaches the agent. A multiple of 16;
 * 0: no margin. */
#ifndef BP_CFG_ARENA_MARGIN
#define BP_CFG_ARENA_MARGIN 0
#endif

/* The most arena blocks at one time. 1..255. */
#ifndef BP_CFG_HANDLES
#define BP_CFG_HANDLES 8
#endif

/* The most windows that the host can have open at one time with a collector's start and stop. 0:
 * leave out these packed functions. */
#ifndef BP_CFG_OPEN_WINDOWS
#define BP_CFG_OPEN_WINDOWS 0
#endif

/* 1: if a called function faults or hangs, only its call ends. The port must then define
 * bp_port_guard. 0: off. */
#ifndef BP_CFG_GUARD
#define BP_CFG_GUARD 0
#endif

/* Bytes of the buffer for one outgoing DATA frame, encoded. Channels carry large blocks and
 * streams. 64..BP_CFG_MTU, and needs an arena. 0: leave out channels and CANCEL. */
#ifndef BP_CFG_BULK
#define BP_CFG_BULK 0
#endif

/* Bytes that the line can buffer until bp_port_read takes them, at least 64. The host never sends
 * more than that at once. 0: as many as BP_CFG_MTU. */
#ifndef BP_CFG_RX_BYTES
#define BP_CFG_RX_BYTES 0
#endif

/* Bytes of the ring to the host that a debug probe reads (SEGGER RTT). It replaces bp_port_read and
 * bp_port_write: the agent then needs no UART. The ring from the host holds BP_CFG_RX_BYTES. 64 or
 * more; 0: the line is the port's. */
#ifndef BP_CFG_RTT
#define BP_CFG_RTT 0
#endif

/* Bytes of the ring that bp_stream_write fills, a power of two. 0: leave out streams. */
#ifndef BP_CFG_STREAM
#define BP_CFG_STREAM 0
#endif

/* 1: the host may read the board's tick counter, to relate it to its own clock. 0: off. */
#ifndef BP_CFG_CLOCK
#define BP_CFG_CLOCK 0
#endif

/* The most bytes of stack to paint when the stack use of a call is measured, 64 or more. Fewer are
 * painted if the stack ends before. The port must then define bp_port_stack_limit. 0: off. */
#ifndef BP_CFG_STACK
#define BP_CFG_STACK 0
#endif

/* 1: the host may ask for measured windows with interrupts masked. The port must then define
 * bp_port_mask, bp_port_unmask and bp_port_interrupts. 2: also, handlers that call bp_isr_enter and
 * bp_isr_exit are left out of windows. This needs the collector `interrupts`, and takes
 * BP_CFG_STATE_BYTES more of static memory. 0: off. */
#ifndef BP_CFG_INTERRUPTS
#define BP_CFG_INTERRUPTS 0
#endif

/* 1: a pin is high during each measured window, for an instrument beside the board, such as a power
 * analyser. The port must then define bp_port_marker. 0: off. */
#ifndef BP_CFG_MARKER
#define BP_CFG_MARKER 0
#endif

/* Cortex-M with BASEPRI: the agent masks only interrupts of this priority and less urgent ones, as
 * BASEPRI has it, such as 0x40. More urgent ones run at any time, and must not contain probes or
 * hooks. Leave it at 0 on a Cortex-M7 r0p0 or r0p1 (erratum 837070). 0: PRIMASK, which masks all.
 */
#ifndef BP_CFG_BASEPRI
#define BP_CFG_BASEPRI 0
#endif

/* 1: the host may sample where a call spends its time. The port must then define bp_port_sampling,
 * bp_port_sample_start and bp_port_sample_stop. It is off without an arena, where the samples are
 * collected, and without the guard, whose interrupt entry the timer's uses. 0: off. */
#ifndef BP_CFG_SAMPLING
#define BP_CFG_SAMPLING 0
#endif
#if BP_CFG_SAMPLING == 1 && (BP_CFG_ARENA == 0 || BP_CFG_GUARD == 0)
#undef BP_CFG_SAMPLING
#define BP_CFG_SAMPLING 0
#endif

/* Bytes of the ring that probes fill on each core (bp_trace.h), at least 64 and a multiple of 8. It
 * needs BP_CFG_STREAM, BP_CFG_BULK and BP_CFG_ARENA, too. 0: leave out probes; they compile to
 * nothing. */
#ifndef BP_CFG_TRACE
#define BP_CFG_TRACE 0
#endif

/* Where the ring is, in memory that nothing else uses and that start-up code does not clear:
 * external RAM, or RAM that an emulator has besides the program's. The rings of further cores
 * follow. 0: the linker places it, in .noinit. */
#ifndef BP_CFG_TRACE_AT
#define BP_CFG_TRACE_AT 0
#endif

/* Cores that have probes, each with a ring of its own. If there are several, the architecture's
 * bp_arch.h must define bp_arch_core, its bp_arch_lock must keep out the other cores as well, and
 * there are no statistics of ranges. 1..8. */
#ifndef BP_CFG_TRACE_CORES
#define BP_CFG_TRACE_CORES 1
#endif

/* The clock of probes. 0: the core's 32-bit cycle counter. 1: bp_port_ticks. 2: the core's counter
 * of instructions. Otherwise the address of a register that counts like bp_port_ticks, for boards
 * where reading that takes longer. */
#ifndef BP_CFG_TRACE_CLOCK
#define BP_CFG_TRACE_CLOCK 0
#endif

/* 1: the host can ask what a function's rounds have kept of the C library's heap, and whether it
 * had none left (bp_port_heap). 0: off. */
#ifndef BP_CFG_HEAP
#define BP_CFG_HEAP 0
#endif

/* 1: malloc, calloc, realloc and free are probes (libc/bp_heap.c), and a recording of events begins
 * with what was live before. The linker must wrap them; see docs/probes.md. 0: off. */
#ifndef BP_CFG_TRACE_HEAP
#define BP_CFG_TRACE_HEAP 0
#endif

/* The most tasks of an operating system whose names and stacks the host can ask for (bp_tasks.h),
 * up to 255. Each takes about 32 bytes. 0: no table. */
#ifndef BP_CFG_TASKS
#define BP_CFG_TASKS 0
#endif

/* How CRC-32 is computed. 0: bit by bit. 1: with a table of 64 bytes, about six times as fast. 8:
 * eight bytes at once, with tables of 8 KiB in RAM. */
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
#if BP_CFG_HANDLES < 1 || BP_CFG_HANDLES > 255
#error "BP_CFG_HANDLES is out of range (1..255)"
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
#if BP_CFG_RTT != 0 && (BP_CFG_RTT < 64 || BP_CFG_RTT > 0x7fffffff)
#error "BP_CFG_RTT is out of range (0, 64..0x7fffffff)"
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
#if BP_CFG_MARKER != 0 && BP_CFG_MARKER != 1
#error "BP_CFG_MARKER is out of range (0, 1)"
#endif
#if BP_CFG_BASEPRI < 0 || BP_CFG_BASEPRI > 255
#error "BP_CFG_BASEPRI is out of range (0..255)"
#endif
#if BP_CFG_SAMPLING != 0 && BP_CFG_SAMPLING != 1
#error "BP_CFG_SAMPLING is out of range (0, 1)"
#endif
#if BP_CFG_TRACE != 0 && (BP_CFG_TRACE < 64 || BP_CFG_TRACE > 0x1000000 || BP_CFG_TRACE % 8 != 0)
#error "BP_CFG_TRACE is out of range (0, multiples of 8 from 64 to 0x1000000)"
#endif
#if BP_CFG_TRACE != 0 && (BP_CFG_STREAM == 0 || BP_CFG_BULK == 0 || BP_CFG_ARENA == 0)
#error "BP_CFG_TRACE needs three more, such as BP_CFG_STREAM=4096 BP_CFG_BULK=64 BP_CFG_ARENA=1024"
#endif
#if BP_CFG_TRACE_AT != 0 && \
    (BP_CFG_TRACE_AT < 8 || BP_CFG_TRACE_AT > 0xfffffff8 || BP_CFG_TRACE_AT % 8 != 0)
#error "BP_CFG_TRACE_AT is out of range (0, multiples of 8 from 8 to 0xfffffff8)"
#endif
#if BP_CFG_TRACE_CORES < 1 || BP_CFG_TRACE_CORES > 8
#error "BP_CFG_TRACE_CORES is out of range (1..8)"
#endif
#if BP_CFG_TRACE_CLOCK < 0
#error "BP_CFG_TRACE_CLOCK is out of range (0 or more)"
#endif
#if BP_CFG_HEAP != 0 && BP_CFG_HEAP != 1
#error "BP_CFG_HEAP is out of range (0, 1)"
#endif
#if BP_CFG_TRACE_HEAP != 0 && BP_CFG_TRACE_HEAP != 1
#error "BP_CFG_TRACE_HEAP is out of range (0, 1)"
#endif
#if BP_CFG_TRACE_HEAP != 0 && BP_CFG_TRACE == 0
#error "BP_CFG_TRACE_HEAP needs BP_CFG_TRACE: the heap is recorded by probes"
#endif
#if BP_CFG_TASKS < 0 || BP_CFG_TASKS > 255
#error "BP_CFG_TASKS is out of range (0..255)"
#endif
#if BP_CFG_TASKS != 0 && BP_CFG_TRACE == 0
#error "BP_CFG_TASKS needs BP_CFG_TRACE: the table names the tasks in a trace"
#endif
#if BP_CFG_CRC_TABLE != 0 && BP_CFG_CRC_TABLE != 1 && BP_CFG_CRC_TABLE != 8
#error "BP_CFG_CRC_TABLE is out of range (0, 1, 8)"
#endif

#ifndef __ASSEMBLER__
/* A value that is a word is an error here; above, it counts as 0. */
enum {
    bp_mtu_is_a_number = sizeof(BP_CFG_MTU),
    bp_active_collectors_is_a_number = sizeof(BP_CFG_ACTIVE_COLLECTORS),
    bp_state_bytes_is_a_number = sizeof(BP_CFG_STATE_BYTES),
    bp_slot_bytes_is_a_number = sizeof(BP_CFG_SLOT_BYTES),
    bp_arena_is_a_number = sizeof(BP_CFG_ARENA),
    bp_arena_margin_is_a_number = sizeof(BP_CFG_ARENA_MARGIN),
    bp_handles_is_a_number = sizeof(BP_CFG_HANDLES),
    bp_open_windows_is_a_number = sizeof(BP_CFG_OPEN_WINDOWS),
    bp_guard_is_a_number = sizeof(BP_CFG_GUARD),
    bp_bulk_is_a_number = sizeof(BP_CFG_BULK),
    bp_rx_bytes_is_a_number = sizeof(BP_CFG_RX_BYTES),
    bp_rtt_is_a_number = sizeof(BP_CFG_RTT),
    bp_stream_is_a_number = sizeof(BP_CFG_STREAM),
    bp_clock_is_a_number = sizeof(BP_CFG_CLOCK),
    bp_stack_is_a_number = sizeof(BP_CFG_STACK),
    bp_interrupts_is_a_number = sizeof(BP_CFG_INTERRUPTS),
    bp_marker_is_a_number = sizeof(BP_CFG_MARKER),
    bp_basepri_is_a_number = sizeof(BP_CFG_BASEPRI),
    bp_sampling_is_a_number = sizeof(BP_CFG_SAMPLING),
    bp_trace_is_a_number = sizeof(BP_CFG_TRACE),
    bp_trace_at_is_a_number = sizeof(BP_CFG_TRACE_AT),
    bp_trace_cores_is_a_number = sizeof(BP_CFG_TRACE_CORES),
    bp_trace_clock_is_a_number = sizeof(BP_CFG_TRACE_CLOCK),
    bp_heap_is_a_number = sizeof(BP_CFG_HEAP),
    bp_trace_heap_is_a_number = sizeof(BP_CFG_TRACE_HEAP),
    bp_tasks_is_a_number = sizeof(BP_CFG_TASKS),
    bp_crc_table_is_a_number = sizeof(BP_CFG_CRC_TABLE),
};
#endif

/* end of the options */

/* The most bytes of a decoded frame: those of an encoded frame without its two delimiters and the
 * COBS codes. */
#define BP_FRAME_MAX (BP_CFG_MTU - 2 - (BP_CFG_MTU - 2 + 254) / 255)

/* The most bytes that an agent with channels takes from the line at once. */
#define BP_CHUNK (BP_CFG_MTU < 4096 ? 32 : 4096)

/* Constant tables. On AVR, start-up code copies .rodata to RAM. So these tables stay in flash, and
 * BP_ROM_GET reads them. On other cores both macros have no effect. */
#if defined(__AVR__)
#include <stddef.h>

/* Copy from flash; arch/avr/bp_rom.c. */
void bp_rom_copy(void *to, const void *rom, size_t length);

/* The union drops the object's const, since a const variable could not be filled in later. */
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
