// SPDX-License-Identifier: Apache-2.0
// The cell that gates a clock, which each technology provides (Ibex reference guide, "Core
// Integration"). Here it gates nothing, so that the simulator has a single clock. As a result,
// mcycle continues while the core sleeps.

module prim_clock_gating #(
    parameter bit NoFpgaGate     = 1'b0,
    parameter bit FpgaBufGlobal  = 1'b1
) (
    input  logic clk_i,
    input  logic en_i,
    input  logic test_en_i,
    output logic clk_o
);
  logic unused;

  assign clk_o  = clk_i;
  assign unused = en_i & test_en_i;

endmodule
