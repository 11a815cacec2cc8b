// SPDX-License-Identifier: Apache-2.0
// Eight counters of 64 bits. Each counts the cycles in which one of the core's 32 events happens.
//
//   0x00 + 8 * i  counter i, low half first
//   0x80 + 4 * i  1 + the event that counter i counts; 0: none. A write clears the counter.

module events (
    input  logic        clk_i,
    input  logic        rst_ni,
    input  logic [31:0] event_i,
    input  logic        req_i,
    input  logic        we_i,
    input  logic [ 5:0] addr_i,
    input  logic [31:0] wdata_i,
    output logic [31:0] rdata_o
);
  logic [63:0] count_q[8];
  logic [5:0] select_q[8];
  logic [32:0] happens;

  assign happens = {event_i, 1'b0};

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      for (int i = 0; i < 8; i++) begin
        count_q[i]  <= '0;
        select_q[i] <= '0;
      end
    end else begin
      for (int i = 0; i < 8; i++) begin
        if (happens[select_q[i]]) count_q[i] <= count_q[i] + 64'd1;
      end
      if (req_i && we_i && addr_i[5]) begin
        select_q[addr_i[2:0]] <= wdata_i > 32'd32 ? '0 : wdata_i[5:0];
        count_q[addr_i[2:0]]  <= '0;
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (req_i) begin
      rdata_o <= addr_i[5] ? {26'b0, select_q[addr_i[2:0]]} :
          addr_i[0] ? count_q[addr_i[3:1]][63:32] : count_q[addr_i[3:1]][31:0];
    end
  end

endmodule
