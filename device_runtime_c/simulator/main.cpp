/* SPDX-License-Identifier: Apache-2.0 */
/* The simulator: runs a program on the system in rtl/, with its byte port on a TCP connection.
 *
 *   simulator PROGRAM.elf ADDRESS:PORT [--record PLAN [--cost NAME=EVENT]...]
 *             [--marks FILE [--entry ADDRESS]... [--stop LOW:HIGH]...]
 *
 * --cost also records the cycles of one of the core's events (rtl/core.sv of its board).
 * --marks is for boards with a watcher of their own (watcher.h).
 * It ends when the host closes the connection, and then says where the core was. While the core
 * sleeps and only a byte can wake it, it stops the clock and waits for one. */

#include <cstdio>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "Vsoc.h"
#include "Vsoc__Dpi.h"
#include "line.h"
#include "program.h"
#include "recording.h"
#include "verilated.h"
#include "watcher.h"

namespace {

constexpr uint32_t kRamBase = 0x00100000u;
constexpr uint32_t kRamWords = 262144u;

Ram ram{kRamBase, std::vector<uint32_t>(kRamWords)};

} // namespace

/* Called by rtl/ram.sv for each of its words. */
int sim_word(int index) {
    return static_cast<int>(ram.words[static_cast<size_t>(index)]);
}

double sc_time_stamp() { /* Verilator needs it without SystemC */
    return 0;
}

namespace {

constexpr uint64_t kFlushCycles = 1024u;
/* A core that does not wait gets a frame after so many cycles or questions whether there is one. */
constexpr uint64_t kLookCycles = 1u << 20;
constexpr unsigned kLooks = 1024;

struct Options {
    std::string program;
    std::string where;
    std::string marks;
    std::string plan;
    std::vector<Cost> costs;
    std::vector<uint32_t> entries;
    std::vector<std::pair<uint32_t, uint32_t>> stops;
};

using Watchers = std::vector<std::unique_ptr<Watcher>>;

uint32_t number(const std::string &text) {
    size_t used = 0;
    unsigned long value = std::stoul(text, &used, 0);
    if (used != text.size() || value > UINT32_MAX) {
        throw std::invalid_argument(text);
    }
    return static_cast<uint32_t>(value);
}

void option(Options &options, const std::string &name, const std::string &value) {
    size_t colon = value.find(':'), equal = value.find('=');
    if (name == "--marks") {
        options.marks = value;
    } else if (name == "--record") {
        options.plan = value;
    } else if (name == "--cost" && equal != std::string::npos &&
               number(value.substr(equal + 1)) < 32) {
        options.costs.push_back({value.substr(0, equal), number(value.substr(equal + 1))});
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
    if (!options.marks.empty() && open_marks == nullptr) {
        throw std::invalid_argument("--marks: this board has no watcher");
    }
    return options;
}

void edge(Vsoc &soc, Watchers &watchers) {
    soc.clk_i = 0;
    soc.eval();
    for (const auto &each : watchers) {
        each->cycle(soc);
    }
    soc.clk_i = 1;
}

/* Only the falling edge resets a core whose clock is gated. */
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
    unsigned looks = 0;
    for (uint64_t cycle = 1; !line.closed(); cycle++) {
        soc.rx_valid_i = line.waiting();
        soc.rx_data_i = line.next();
        edge(soc, watchers);
        if (soc.tx_valid_o) {
            line.put(soc.tx_data_o);
        }
        bool take = soc.rx_ready_o && soc.rx_valid_i;
        looks += soc.rx_look_o;
        soc.eval();
        if (take) {
            line.take();
            looks = 0;
        }
        bool flush = cycle % kFlushCycles == 0;
        if (flush) {
            line.flush();
        }
        if (cycle % kLookCycles == 0 || looks == kLooks || (soc.rx_wait_o && flush)) {
            line.release();
            looks = 0;
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
        soc.boot_i = load_elf(options.program, ram);
        Line line(options.where);
        Watchers watchers;
        if (!options.marks.empty()) {
            watchers.push_back(open_marks(options.marks, options.entries, options.stops));
        }
        if (!options.plan.empty()) {
            watchers.push_back(
                std::make_unique<Recording>(options.plan, options.costs, kRamBase, kRamWords));
        }
        reset(soc);
        run(soc, line, watchers);
        std::fprintf(stderr, "simulator: ended at pc 0x%x\n", static_cast<unsigned>(soc.pc_o));
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
