// SPDX-License-Identifier: Apache-2.0
// A range of RAM that the core's loads and stores may not access: 0x0 START, 0x4 END, multiples of
// 4, half-open; written once after a reset. It replaces a core's physical memory protection, which
// would take half of the simulator's time.

module fence (
    input  logic        clk_i,
    input  logic        rst_ni,
    input  logic        req_i,
    input  logic        addr_i,
    input  logic [31:0] wdata_i,
    input  logic [31:0] cpu_addr_i,
    output logic        fenced_o,
    output logic [31:0] start_o,
    output logic [31:0] end_o
);
  logic [31:0] start_q, end_q;

  assign start_o  = start_q;
  assign end_o    = end_q;
  assign fenced_o = cpu_addr_i >= start_q && cpu_addr_i < end_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      start_q <= '0;
      end_q   <= '0;
    end else if (req_i && end_q == '0) begin
      if (addr_i) end_q <= wdata_i;
      else start_q <= wdata_i;
    end
  end

endmodule
