// SPDX-License-Identifier: Apache-2.0
// RAM of 32-bit words with two ports: a reads, b reads words or writes bytes of a word. Data that
// are read are valid in the next cycle.

module ram #(
    parameter int unsigned Words = 262144
) (
    input logic clk_i,

    input  logic                     a_req_i,
    input  logic [$clog2(Words)-1:0] a_addr_i,
    output logic [             31:0] a_rdata_o,

    input  logic                     b_req_i,
    input  logic                     b_we_i,
    input  logic [              3:0] b_be_i,
    input  logic [$clog2(Words)-1:0] b_addr_i,
    input  logic [             31:0] b_wdata_i,
    output logic [             31:0] b_rdata_o
);
  logic [31:0] words[Words];

  // The program, from the simulator.
  import "DPI-C" function int sim_word(input int index);
  initial for (int i = 0; i < Words; i++) words[i] = sim_word(i);

  always_ff @(posedge clk_i) begin
    if (a_req_i) a_rdata_o <= words[a_addr_i];
    if (b_req_i && !b_we_i) b_rdata_o <= words[b_addr_i];
    if (b_req_i && b_we_i) begin
      for (int i = 0; i < 4; i++) begin
        if (b_be_i[i]) words[b_addr_i][8*i+:8] <= b_wdata_i[8*i+:8];
      end
    end
  end

endmodule
