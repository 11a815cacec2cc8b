/* SPDX-License-Identifier: Apache-2.0 */
/* Encodings: RISC-V unprivileged manual, version 20191213, chapter 24. */

#include "counts.h"

#include <algorithm>
#include <cinttypes>
#include <stdexcept>

#include "Vsoc.h"

namespace {

constexpr uint32_t kEngine = 0x80002000u;
constexpr uint32_t kEngineCounters = kEngine + 0x40u;
constexpr uint32_t kEngineEnd = kEngine + 0x68u;
constexpr uint32_t kEngineWords = 256; /* of a row, at most; otherwise no job starts */

constexpr const char *kNames =
    "# what address cycles instructions data-waits instruction-waits multiply-waits divide-waits "
    "loads stores jumps branches branches-taken compressed "
    "jobs busy read-stalls write-stalls macs\n";

uint32_t opcode(uint32_t insn) {
    return insn & 0x7fu;
}

bool reads_counter(uint32_t insn) {
    uint32_t csr = insn >> 20;
    return opcode(insn) == 0x73u && (insn >> 12 & 3u) != 0 && csr >= 0xb00u && csr < 0xb20u;
}

} // namespace

std::unique_ptr<Watcher> open_marks(const std::string &path, std::vector<uint32_t> entries,
                                    std::vector<std::pair<uint32_t, uint32_t>> stops) {
    return std::make_unique<Counts>(path, std::move(entries), std::move(stops));
}

Counts::Counts(const std::string &path, std::vector<uint32_t> entries,
               std::vector<std::pair<uint32_t, uint32_t>> stops)
    : file_(std::fopen(path.c_str(), "w")), entries_(std::move(entries)), stops_(std::move(stops)) {
    if (file_ == nullptr) {
        throw std::runtime_error(path + " cannot be written");
    }
    std::setvbuf(file_, nullptr, _IOLBF, 0); /* whole lines, even if the simulator is killed */
    std::fputs(kNames, file_);
}

Counts::~Counts() {
    std::fclose(file_);
}

void Counts::write(const char *what, uint32_t address, const uint64_t *before) const {
    std::fprintf(file_, "%s %#" PRIx32, what, address);
    for (int i = 0; i < EVENTS; i++) {
        std::fprintf(file_, " %" PRIu64, count_[i] - (before == nullptr ? 0 : before[i]));
    }
    std::fputc('\n', file_);
}

/* An instruction has arrived in the ID stage. It shows where the branch before it went. */
void Counts::arrived(uint32_t pc) {
    if (after_branch_ && pc != fall_through_) {
        count_[BRANCHES_TAKEN]++;
    }
    after_branch_ = false;
    if (active_ != nullptr) {
        for (const auto &[low, high] : stops_) {
            if (pc >= low && pc < high) {
                write("call", *active_, at_entry_);
                active_ = nullptr;
                return;
            }
        }
        return;
    }
    for (const uint32_t &entry : entries_) {
        if (pc == entry) {
            active_ = &entry;
            std::copy(count_, count_ + EVENTS, at_entry_);
        }
    }
}

void Counts::marks(const Vsoc &soc) {
    if (soc.busy_o && soc.done_o && reads_counter(soc.insn_o)) {
        write("csr", soc.insn_o >> 20, nullptr);
    }
    if (soc.cpu_gnt_o && !soc.cpu_we_o && soc.cpu_addr_o >= kEngineCounters &&
        soc.cpu_addr_o < kEngineEnd) {
        write("engine", soc.cpu_addr_o, nullptr);
    }
}

void Counts::core(const Vsoc &soc) {
    uint32_t insn = soc.insn_o;
    count_[CYCLES]++;
    for (int event = 0; event < 4; event++) {
        count_[DATA_WAITS + event] += soc.event_o >> event & 1u;
    }
    if (!soc.busy_o || !soc.done_o) {
        return;
    }
    count_[INSTRUCTIONS]++;
    count_[COMPRESSED] += soc.compressed_o;
    count_[LOADS] += opcode(insn) == 0x03u; /* once for a misaligned one, too: the bus has two */
    count_[STORES] += opcode(insn) == 0x23u;
    count_[JUMPS] += opcode(insn) == 0x6fu || opcode(insn) == 0x67u;
    if (opcode(insn) == 0x63u) {
        count_[BRANCHES]++;
        after_branch_ = true;
        fall_through_ = soc.pc_o + (soc.compressed_o ? 2u : 4u);
    }
}

void Counts::engine(const Vsoc &soc) {
    bool busy = rows_left_ != 0;
    count_[BUSY] += busy;
    if (soc.dma_req_o && !soc.dma_gnt_o) {
        count_[soc.dma_we_o ? WRITE_STALLS : READ_STALLS]++;
    }
    if (soc.dma_rvalid_o && ++words_ > length_ / 4u) { /* the vector comes first */
        count_[MACS] += 4;
    }
    if (soc.dma_gnt_o && soc.dma_we_o && --rows_left_ == 0) {
        count_[JOBS]++;
    }
    if (!busy && soc.cpu_gnt_o && soc.cpu_we_o) {
        if (soc.cpu_addr_o == kEngine + 0x14u) {
            length_ = soc.cpu_wdata_o;
        } else if (soc.cpu_addr_o == kEngine + 0x18u) {
            rows_ = soc.cpu_wdata_o;
        } else if (soc.cpu_addr_o == kEngine) {
            rows_left_ = length_ / 4u >= 1 && length_ / 4u <= kEngineWords ? rows_ : 0;
            words_ = 0;
        }
    }
    if (soc.dma_err_o) {
        rows_left_ = 0;
    }
}

void Counts::cycle(const Vsoc &soc) {
    if (soc.busy_o && !in_id_) {
        arrived(soc.pc_o);
    }
    marks(soc);
    core(soc);
    in_id_ = soc.busy_o && !soc.done_o;
    engine(soc);
}
