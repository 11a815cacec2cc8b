// SPDX-License-Identifier: Apache-2.0
// The cell that gates a clock, which each technology provides (CV32E40P user manual, "Core
// Integration"). Here it gates nothing, so that the simulator has a single clock.

module cv32e40p_clock_gate (
    input  logic clk_i,
    input  logic en_i,
    input  logic scan_cg_en_i,
    output logic clk_o
);
  logic unused;

  assign clk_o  = clk_i;
  assign unused = en_i & scan_cg_en_i;

endmodule
