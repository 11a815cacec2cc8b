/* SPDX-License-Identifier: Apache-2.0 */
/* The simulator: runs a program on the system in rtl/, with its byte port on a TCP connection.
 *
 *   simulator PROGRAM.elf ADDRESS:PORT [--record PLAN]
 *             [--marks FILE [--entry ADDRESS]... [--stop LOW:HIGH]...]
 *
 * It ends when the host closes the connection, and then says where the core was. While the core
 * sleeps and only a byte can wake it, it stops the clock and waits for one. */

#include <cstdio>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "Vsoc.h"
#include "Vsoc___024root.h"
#include "counts.h"
#include "program.h"
#include "line.h"
#include "recording.h"
#include "verilated.h"

double sc_time_stamp() { /* Verilator needs it without SystemC */
    return 0;
}

namespace {

constexpr uint32_t kRamBase = 0x00100000u;
constexpr uint32_t kRamWords = 262144u;
constexpr uint32_t kEntry =
    kRamBase + 0x80u; /* Ibex reference guide, "Exceptions and Interrupts" */
constexpr uint64_t kFlushCycles = 1024u;
constexpr uint64_t kLookCycles = 1u << 20;

struct Options {
    std::string program;
    std::string where;
    std::string marks;
    std::string plan;
    std::vector<uint32_t> entries;
    std::vector<std::pair<uint32_t, uint32_t>> stops;
};

/* Who looks at each cycle, if anybody. */
struct Watchers {
    std::unique_ptr<Counts> counts;
    std::unique_ptr<Recording> recording;
};

uint32_t number(const std::string &text) {
    size_t used = 0;
    unsigned long value = std::stoul(text, &used, 0);
    if (used != text.size() || value > UINT32_MAX) {
        throw std::invalid_argument(text);
    }
    return static_cast<uint32_t>(value);
}

void option(Options &options, const std::string &name, const std::string &value) {
    size_t colon = value.find(':');
    if (name == "--marks") {
        options.marks = value;
    } else if (name == "--record") {
        options.plan = value;
    } else if (name == "--entry") {
        options.entries.push_back(number(value));
    } else if (name == "--stop" && colon != std::string::npos) {
        options.stops.emplace_back(number(value.substr(0, colon)), number(value.substr(colon + 1)));
    } else {
        throw std::invalid_argument(name);
    }
}

Options parse(const std::vector<std::string> &words) {
    Options options;
    if (words.size() < 2 || words.size() % 2 != 0) {
        throw std::invalid_argument("two words, and options of two words each");
    }
    options.program = words[0];
    options.where = words[1];
    for (size_t i = 2; i < words.size(); i += 2) {
        option(options, words[i], words[i + 1]);
    }
    if (options.marks.empty() && !(options.entries.empty() && options.stops.empty())) {
        throw std::invalid_argument("--marks is missing");
    }
    return options;
}

void load(const std::string &program, Vsoc &soc) {
    Ram ram{kRamBase, std::vector<uint32_t>(kRamWords)};
    if (load_elf(program, ram) != kEntry) {
        throw std::runtime_error(program + " does not start where the core does");
    }
    for (uint32_t i = 0; i < kRamWords; i++) {
        soc.rootp->soc__DOT__u_ram__DOT__words[i] = ram.words[i];
    }
}

void edge(Vsoc &soc, Watchers &watchers) {
    soc.clk_i = 0;
    soc.eval();
    if (watchers.counts) {
        watchers.counts->cycle(soc);
    }
    if (watchers.recording) {
        watchers.recording->cycle(soc);
    }
    soc.clk_i = 1;
}

/* Only the falling edge resets the core, since its clock is gated. */
void reset(Vsoc &soc) {
    soc.rst_ni = 1;
    soc.eval();
    soc.rst_ni = 0;
    Watchers nobody;
    for (int i = 0; i < 4; i++) {
        edge(soc, nobody);
        soc.eval();
    }
    soc.clk_i = 0;
    soc.rst_ni = 1;
}

void run(Vsoc &soc, Line &line, Watchers &watchers) {
    for (uint64_t cycle = 1; !line.closed(); cycle++) {
        soc.rx_valid_i = line.waiting();
        soc.rx_data_i = line.next();
        edge(soc, watchers);
        if (soc.tx_valid_o) {
            line.put(soc.tx_data_o);
        }
        bool take = soc.rx_ready_o && soc.rx_valid_i;
        bool look = soc.rx_look_o || cycle % kLookCycles == 0;
        soc.eval();
        if (take) {
            line.take();
        }
        if (look) {
            line.look();
        }
        if (cycle % kFlushCycles == 0) {
            line.flush();
        }
        if (soc.asleep_o && soc.rx_ready_o && !line.waiting()) {
            line.flush();
            line.wait();
        }
    }
}

} // namespace

int main(int argc, char **argv) {
    try {
        Options options = parse({argv + 1, argv + argc});
        VerilatedContext context;
        Vsoc soc(&context);
        load(options.program, soc);
        Line line(options.where);
        Watchers watchers;
        if (!options.marks.empty()) {
            watchers.counts =
                std::make_unique<Counts>(options.marks, options.entries, options.stops);
        }
        if (!options.plan.empty()) {
            watchers.recording = std::make_unique<Recording>(options.plan, kRamBase, kRamWords);
        }
        reset(soc);
        run(soc, line, watchers);
        std::fprintf(stderr, "simulator: ended at pc 0x%x\n", static_cast<unsigned>(soc.id_pc_o));
    } catch (const std::invalid_argument &error) {
        std::fprintf(stderr,
                     "simulator: %s: write PROGRAM.elf ADDRESS:PORT [--record PLAN]"
                     " [--marks FILE ...]\n",
                     error.what());
        return 2;
    } catch (const std::exception &error) {
        std::fprintf(stderr, "simulator: %s\n", error.what());
        return 1;
    }
    return 0;
}
