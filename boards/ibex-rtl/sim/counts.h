/* SPDX-License-Identifier: Apache-2.0 */
/* Counts made from the signals of the buses and of the core's ID stage. They are a reference that
 * is independent of the counters of the core and of the engine.
 *
 * They are written to a file of marks, one a line: what, an address, and the counts in the order of
 * the first line, which names them.
 *   csr      the core reads a machine counter: its number, and all counts before this cycle
 *   engine   the core reads a counter of the engine: its address, and the same counts
 *   call     a function has run, from its first instruction to the first one within a `stop` range:
 *            its address, and what was counted meanwhile */

#ifndef SIM_COUNTS_H
#define SIM_COUNTS_H

#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "watcher.h"

class Counts : public Watcher {
  public:
    /* Throws std::runtime_error if the file cannot be written. */
    Counts(const std::string &path, std::vector<uint32_t> entries,
           std::vector<std::pair<uint32_t, uint32_t>> stops);
    ~Counts() override;
    Counts(const Counts &) = delete;
    Counts &operator=(const Counts &) = delete;

    void cycle(const Vsoc &soc) override;

  private:
    enum Event {
        CYCLES,
        INSTRUCTIONS,
        DATA_WAITS, /* this and the next three: the events of rtl/core.sv, in their order */
        INSTRUCTION_WAITS,
        MULTIPLY_WAITS,
        DIVIDE_WAITS,
        LOADS,
        STORES,
        JUMPS,
        BRANCHES,
        BRANCHES_TAKEN,
        COMPRESSED,
        JOBS,
        BUSY,
        READ_STALLS,
        WRITE_STALLS,
        MACS,
        EVENTS
    };

    void arrived(uint32_t pc);
    void marks(const Vsoc &soc);
    void core(const Vsoc &soc);
    void engine(const Vsoc &soc);
    void write(const char *what, uint32_t address, const uint64_t *before) const;

    FILE *file_;
    std::vector<uint32_t> entries_;
    std::vector<std::pair<uint32_t, uint32_t>> stops_;
    uint64_t count_[EVENTS] = {};
    bool in_id_ = false; /* the instruction in ID has been seen there before */
    bool after_branch_ = false;
    uint32_t fall_through_ = 0;        /* of that branch */
    const uint32_t *active_ = nullptr; /* entry of the call being counted */
    uint64_t at_entry_[EVENTS] = {};
    /* The engine's job, as written by the core. */
    uint32_t length_ = 4;
    uint32_t rows_ = 1;
    uint32_t words_ = 0; /* words that have arrived */
    uint32_t rows_left_ = 0;
};

#endif
