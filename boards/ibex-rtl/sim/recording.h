/* SPDX-License-Identifier: Apache-2.0 */
/* Records calls: what their instructions cost, by recorder/bp_recorder.h.
 *
 * An instruction has the cycles that it is in the core's ID stage, and those after it in which
 * nothing is there, since the core still fetches what comes next. So each cycle belongs to one
 * instruction. A call begins with the first cycle of its first instruction in ID, and ends before
 * the first cycle of the instruction that it returns to. */

#ifndef SIM_RECORDING_H
#define SIM_RECORDING_H

#include <cstdint>
#include <string>
#include <vector>

#include "bp_recorder.h"
#include "waits.h"

class Vsoc;

class Recording {
  public:
    /* Throws std::runtime_error if the plan cannot be used. Code is in `words` words from `base`.
     */
    Recording(const std::string &plan, uint32_t base, uint32_t words);
    ~Recording();
    Recording(const Recording &) = delete;
    Recording &operator=(const Recording &) = delete;

    /* Look at the signals as they are before a rising edge. */
    void cycle(const Vsoc &soc);

  private:
    enum Column { CYCLES, FETCH_WAITS, DATA_WAITS, MULTIPLY_WAITS, DIVIDE_WAITS, COLUMNS };

    void add(uint64_t *cost) const;
    void charge(uint64_t *cost);
    bp_block_t *block(const Vsoc &soc);

    bp_recorder_t *recorder_;
    uint32_t base_;
    std::vector<bp_block_t *> blocks_; /* of one instruction each, by half-word */
    Waits waits_;
    uint64_t pending_[COLUMNS] =
        {}; /* of the instruction in ID: only when it is done, it has run */
};

#endif
