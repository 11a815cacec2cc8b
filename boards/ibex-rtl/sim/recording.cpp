/* SPDX-License-Identifier: Apache-2.0 */
/* Encodings: RISC-V unprivileged manual, version 20191213, chapter 24; links: table 2.1. */

#include "recording.h"

#include <stdexcept>

#include "Vsoc.h"

namespace {

/* The names of the core's own counters of the same events (bp_ibex_hpm.c). */
constexpr const char *kColumns[] = {"cycles",         "instruction-waits", "data-waits",
                                    "multiply-waits", "divide-waits",      nullptr};

constexpr uint32_t kMret = 0x30200073u;

bool is_link(uint32_t x) {
    return x == 1 || x == 5;
}

int32_t jump_offset(uint32_t insn) {
    return int32_t(insn) >> 31 << 20 | int32_t(insn & 0xff000u) | int32_t(insn >> 9 & 0x800u) |
           int32_t(insn >> 20 & 0x7feu);
}

int32_t branch_offset(uint32_t insn) {
    return int32_t(insn) >> 31 << 12 | int32_t(insn << 4 & 0x800u) | int32_t(insn >> 20 & 0x7e0u) |
           int32_t(insn >> 7 & 0x1eu);
}

/* The core has made a compressed instruction a long one before it is in ID. */
bp_insn_t decoded(uint32_t pc, uint32_t insn, bool compressed) {
    uint32_t rd = insn >> 7 & 31u, rs1 = insn >> 15 & 31u;
    bp_insn_t found = {};
    found.address = pc;
    found.length = compressed ? 2 : 4;
    switch (insn & 0x7fu) {
    case 0x6f:
        found.flow = is_link(rd) ? BP_FLOW_CALL : BP_FLOW_BRANCH;
        found.target = pc + uint32_t(jump_offset(insn));
        break;
    case 0x67:
        found.flow = is_link(rd) ? BP_FLOW_CALL : is_link(rs1) ? BP_FLOW_RETURN : BP_FLOW_INDIRECT;
        break;
    case 0x63:
        found.flow = BP_FLOW_BRANCH;
        found.target = pc + uint32_t(branch_offset(insn));
        break;
    default:
        found.flow = insn == kMret ? BP_FLOW_RESUME : BP_FLOW_NEXT;
    }
    return found;
}

} // namespace

Recording::Recording(const std::string &plan, uint32_t base, uint32_t words)
    : recorder_(bp_recorder_open(plan.c_str(), kColumns)), base_(base), blocks_(size_t(words) * 2) {
    if (recorder_ == nullptr) {
        throw std::runtime_error("calls cannot be recorded");
    }
}

Recording::~Recording() {
    bp_recorder_close(recorder_);
}

/* The block of the instruction in ID. */
bp_block_t *Recording::block(const Vsoc &soc) {
    bp_block_t *&found = blocks_.at((soc.id_pc_o - base_) / 2);
    if (found == nullptr) {
        bp_insn_t insn = decoded(soc.id_pc_o, soc.id_insn_o, soc.id_compressed_o);
        found = bp_recorder_block(recorder_, &insn, 1);
    }
    return found;
}

void Recording::add(uint64_t *cost) const {
    cost[CYCLES]++;
    cost[FETCH_WAITS] += waits_.fetch;
    cost[DATA_WAITS] += waits_.data;
    cost[MULTIPLY_WAITS] += waits_.multiply;
    cost[DIVIDE_WAITS] += waits_.divide;
}

/* Give a cost to the instruction that was done last. */
void Recording::charge(uint64_t *cost) {
    for (size_t column = 0; column < COLUMNS; column++) {
        if (cost[column] != 0) {
            bp_recorder_charge(recorder_, column, cost[column]);
            cost[column] = 0;
        }
    }
}

void Recording::cycle(const Vsoc &soc) {
    waits_.cycle(soc);
    if (!soc.id_valid_o) {
        uint64_t cost[COLUMNS] = {};
        add(cost);
        charge(cost);
        return;
    }
    add(pending_);
    if (soc.id_done_o) {
        bp_recorder_arrive(recorder_, block(soc), 1);
        charge(pending_);
    }
}
