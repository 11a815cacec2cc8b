/* SPDX-License-Identifier: Apache-2.0 */
/* Records calls: what their instructions cost, by recorder/bp_recorder.h.
 *
 * The board's rtl/core.sv shows one stage of its core. A cycle in which the stage is busy belongs
 * to the next instruction that is done there, any other one to the instruction that was done last.
 * So each cycle belongs to one instruction. A call begins with the first cycle of its first
 * instruction, and ends before the first cycle of the instruction that it returns to. */

#ifndef SIM_RECORDING_H
#define SIM_RECORDING_H

#include <cstdint>
#include <string>
#include <vector>

#include "bp_recorder.h"
#include "watcher.h"

/* A column of the record beside the cycles: those in which an event of the core happens. */
struct Cost {
    std::string name;
    uint32_t event;
};

class Recording : public Watcher {
  public:
    /* Throws std::runtime_error if the plan cannot be used. Code is in `words` words from `base`.
     */
    Recording(const std::string &plan, std::vector<Cost> costs, uint32_t base, uint32_t words);
    ~Recording() override;
    Recording(const Recording &) = delete;
    Recording &operator=(const Recording &) = delete;

    void cycle(const Vsoc &soc) override;

  private:
    void add(const Vsoc &soc);
    void charge();
    bp_block_t *block(const Vsoc &soc);

    std::vector<Cost> costs_;
    bp_recorder_t *recorder_ = nullptr;
    uint32_t base_;
    std::vector<bp_block_t *> blocks_; /* of one instruction each, by half-word */
    /* Cycles and costs that no instruction has yet: one that is not done may never have run. */
    std::vector<uint64_t> pending_;
};

#endif
