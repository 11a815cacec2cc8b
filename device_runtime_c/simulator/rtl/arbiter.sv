// SPDX-License-Identifier: Apache-2.0
// Decides which of two masters has the port in this cycle. If both want it, the one that did not
// have it the last time gets it. But master 1 keeps it for bursts of four reads.

module arbiter (
    input  logic       clk_i,
    input  logic       rst_ni,
    input  logic [1:0] req_i,
    input  logic       write_1_i,  // master 1 wants to write
    output logic [1:0] gnt_o
);
  logic last_q;         // the master that had it last
  logic [1:0] burst_q;  // how often master 1 has read in a row, modulo 4
  logic prefer_1;

  assign prefer_1 = ~last_q | (burst_q != 2'd0 & ~write_1_i);
  assign gnt_o[0] = req_i[0] & (~req_i[1] | ~prefer_1);
  assign gnt_o[1] = req_i[1] & (~req_i[0] | prefer_1);

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      last_q  <= 1'b0;
      burst_q <= '0;
    end else if (|gnt_o) begin
      last_q  <= gnt_o[1];
      burst_q <= gnt_o[1] & ~write_1_i ? burst_q + 2'd1 : '0;
    end
  end

endmodule
