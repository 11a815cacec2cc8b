/* SPDX-License-Identifier: Apache-2.0 */
/* Encodings: RISC-V unprivileged manual, version 20191213, chapter 24; links: table 2.1. */

#include "recording.h"

#include <stdexcept>
#include <utility>

#include "Vsoc.h"

namespace {

uint32_t stack_pointer; /* when the instruction that arrives was in the stage */

uint64_t stack_now() {
    return stack_pointer;
}

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

/* The core has made a compressed instruction a long one before it is in the stage. */
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

Recording::Recording(const std::string &plan, std::vector<Cost> costs, uint32_t base,
                     uint32_t words)
    : costs_(std::move(costs)), base_(base), blocks_(size_t(words) * 2),
      pending_(1 + costs_.size()) {
    std::vector<const char *> columns{"cycles"};
    for (const Cost &cost : costs_) {
        columns.push_back(cost.name.c_str());
    }
    columns.push_back(nullptr);
    recorder_ = bp_recorder_open(plan.c_str(), columns.data());
    if (recorder_ == nullptr) {
        throw std::runtime_error("calls cannot be recorded");
    }
    bp_recorder_core(recorder_, bp_core_t{stack_now, 0, nullptr});
}

Recording::~Recording() {
    bp_recorder_close(recorder_);
}

/* The block of the instruction that is done. */
bp_block_t *Recording::block(const Vsoc &soc) {
    bp_block_t *&found = blocks_.at((soc.pc_o - base_) / 2);
    if (found == nullptr) {
        bp_insn_t insn = decoded(soc.pc_o, soc.insn_o, soc.compressed_o);
        found = bp_recorder_block(recorder_, &insn, 1);
    }
    return found;
}

void Recording::add(const Vsoc &soc) {
    pending_[0]++;
    for (size_t i = 0; i < costs_.size(); i++) {
        pending_[1 + i] += soc.event_o >> costs_[i].event & 1u;
    }
}

/* Give what is pending to the instruction that was done last. */
void Recording::charge() {
    for (size_t column = 0; column < pending_.size(); column++) {
        if (pending_[column] != 0) {
            bp_recorder_charge(recorder_, column, pending_[column]);
            pending_[column] = 0;
        }
    }
}

void Recording::cycle(const Vsoc &soc) {
    add(soc);
    if (soc.busy_o && !soc.done_o) {
        return;
    }
    if (soc.done_o) {
        stack_pointer = soc.stack_o;
        bp_recorder_arrive(recorder_, block(soc), 1);
    }
    charge();
}
