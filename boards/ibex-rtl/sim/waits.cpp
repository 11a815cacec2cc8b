/* SPDX-License-Identifier: Apache-2.0 */
/* Encodings: RISC-V unprivileged manual, version 20191213, chapter 24. */

#include "waits.h"

#include <cstdint>

#include "Vsoc.h"

/* The core waits from its request until the answer. A request together with an answer is the second
 * half of a misaligned access, whose answer has not come yet. */
void Waits::cycle(const Vsoc &soc) {
    uint32_t insn = soc.id_insn_o;
    bool calculates =
        soc.id_valid_o && !soc.id_done_o && (insn & 0x7fu) == 0x33u && insn >> 25 == 1u;
    bool quotient = (insn >> 14 & 1u) != 0;
    bool answered = soc.cpu_rvalid_o && !soc.cpu_req_o;
    fetch = !soc.id_valid_o && soc.id_ready_o;
    multiply = calculates && !quotient;
    divide = calculates && quotient;
    data = (soc.cpu_req_o || outstanding_) && !answered;
    outstanding_ = soc.cpu_gnt_o || (outstanding_ && !soc.cpu_rvalid_o);
}
