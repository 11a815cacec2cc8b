/* SPDX-License-Identifier: Apache-2.0 */
/* Records what one call of a function executes: how often each instruction ran, on which call
 * path, and what it cost where the emulator knows that.
 *
 * The recorder is part of an emulator: a plugin of QEMU, or a simulator. It never runs on a board.
 * The emulator tells it which block of instructions comes next. The recorder follows calls,
 * returns, tail calls, longjmp, interrupts and traps from the addresses. An interrupt may return to
 * another task, even at the same address. The stack pointer tells which task it is, if the emulator
 * can read it.
 *
 * A plan, a file by the host, says what to record. Addresses are hexadecimal, without the bit that
 * marks Thumb code; ranges are half open:
 *
 *     boardprof-plan 1
 *     record FILE                  where the record goes; it may have blanks
 *     enter ADDRESS                the first instruction of a function to record; several
 *     window LOW HIGH              code that calls it to be measured
 *     thunk LOW HIGH               code between that and the function
 *     outside LOW HIGH             other code of the agent: who comes here has left the call
 *     function LOW HIGH            each function of the image
 *     interrupt ADDRESS            an entry of interrupts or traps, if known
 *     paths N                      most call paths that are kept apart
 *     cost NAME                    a column whose costs the host tells; several
 *     ask FILE                     pipes for that: questions go to FILE.ask, answers come from
 *                                  FILE.told
 *
 * If the plan has costs, the recorder notes from where each block was entered and how it was left,
 * and asks once for each such pass or exit. FROM and TO are - if not known. The host answers with a
 * number for each cost, in the order of the plan:
 *
 *     pass FROM ADDRESS LENGTHS    instructions that run one after the other, entered from FROM
 *     left ADDRESS TO              an instruction, the last one of a block, that leads to TO
 *
 * Every measured call is recorded. FILE has the last one that ended; while a call runs there is no
 * FILE. The record:
 *
 *     boardprof-record 1
 *     columns instructions NAME...
 *     state complete               or: incomplete left, incomplete ended, incomplete too-deep,
 *                                  incomplete tasks: these may have been taken for the call,
 *                                  incomplete costs: the host did not tell one
 *     total COST...                of the call without interrupts, a figure for each column
 *     path ID PARENT ENTRY CALLS   0: the call, 1: above all handlers, 2: paths beyond the limit
 *     function ENTRY COST...       of the function and all that it called, recursion counted once
 *     call PATH SITE PATH CALLS COST...    from an instruction on a path; of the calls themselves
 *     ran PATH TIMES ADDRESS LENGTHS COST...   instructions that ran one after the other: the
 *                                  length of each in half-words, a digit each; costs of all of them
 *     not PATH TIMES ADDRESS LENGTHS   how often the end of such a row did not run
 *     pass PATH TIMES FROM ADDRESS LENGTHS   in place of both, if the plan has costs
 *     left PATH TIMES ADDRESS TO
 *     end
 *
 * Not thread-safe: for one core. */

#ifndef BP_RECORDER_H
#define BP_RECORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Instructions ///

/* Where control goes from an instruction. */
typedef enum {
    BP_FLOW_NEXT,     /* to the next instruction */
    BP_FLOW_BRANCH,   /* to its target or to the next one */
    BP_FLOW_CALL,     /* to a function that returns to the next one */
    BP_FLOW_INDIRECT, /* to an address in a register or in memory */
    BP_FLOW_RETURN,   /* the same, by an instruction that functions return with */
    BP_FLOW_RESUME,   /* back from an interrupt or a trap, by an instruction for just that */
} bp_flow_t;

typedef struct {
    uint64_t address;
    uint64_t target; /* of BP_FLOW_BRANCH and BP_FLOW_CALL; 0: only known when it runs */
    uint8_t by;      /* 1 + the register that then has it; 0 if it is elsewhere */
    uint8_t length;  /* bytes */
    uint8_t flow;    /* bp_flow_t */
    bool can_stop;   /* it may be the last one of its block that runs: it can trap, or access a
                        device */
    /* Of cores whose handlers have another stack: */
    bool switches; /* it sets the stack pointer of tasks */
    int32_t pops;  /* bytes that it takes from the stack, below 0 if it pushes */
} bp_insn_t;

/* What an instruction pops that computes the stack pointer. */
enum { BP_POPS_ANY = INT32_MAX };

/* Instructions that run one after the other, unless one of them stops. */
typedef struct bp_block bp_block_t;

/// Recording ///

typedef struct bp_recorder bp_recorder_t;

enum { BP_COLUMNS = 8 }; /* at most, beside instructions */

/* Read a plan. Returns NULL after a message on stderr if it cannot be read or makes no sense.
 * `columns` are what is charged, such as "cycles", as a list that ends with NULL; NULL: nothing. */
bp_recorder_t *bp_recorder_open(const char *plan, const char *const *columns);

/* Whether two addresses are in one function of the plan. */
bool bp_recorder_is_one(const bp_recorder_t *recorder, uint64_t a, uint64_t b);

/* The block of these instructions, `count` at least 1, all of one function; a new one if they were
 * never seen. It stays valid until the recorder is closed. */
bp_block_t *bp_recorder_block(bp_recorder_t *recorder, const bp_insn_t *insn, size_t count);

/* How the core's registers are when execution comes to a block. NULL: that cannot be read. */
typedef struct {
    uint64_t (*stack)(void); /* the stack pointer; 0 if it is not known there */
    int pushed;              /* bytes that an interrupt has pushed when its handler begins */
    /* Whether an instruction may have led there; otherwise it was an interrupt or a trap. Asked for
     * targets that are only known when it runs. */
    bool (*jumped)(const bp_insn_t *insn, uint64_t to);
} bp_core_t;

/* For `pushed`: handlers may have another stack. */
enum { BP_PUSHED_ELSEWHERE = -1 };

/* Let the recorder read the core's registers. */
void bp_recorder_core(bp_recorder_t *recorder, bp_core_t core);

/* Execution has come to a block.
 * `stops`: how many of the instructions that can stop, and of the last one, began in the block
 * before; a block that ran to its end has them all. */
void bp_recorder_arrive(bp_recorder_t *recorder, bp_block_t *block, uint32_t stops);

/* Add to a cost of the block to which execution has come last, which has one instruction. */
void bp_recorder_charge(bp_recorder_t *recorder, size_t column, uint64_t amount);

/* An address at which interrupts or traps begin, besides those of the plan. */
void bp_recorder_interrupt(bp_recorder_t *recorder, uint64_t address);

/* End. A call that is still recorded is written as incomplete. */
void bp_recorder_close(bp_recorder_t *recorder);

#ifdef __cplusplus
}
#endif

#endif
