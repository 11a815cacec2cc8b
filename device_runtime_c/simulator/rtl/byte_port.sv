// SPDX-License-Identifier: Apache-2.0
// The byte port. 0x0 DATA: a read takes the waiting byte, a write sends one. 0x4 STATUS, bit 0: a
// byte is waiting. 0x8 WAIT: the same, but it answers only when a byte is waiting or the timer's
// interrupt is pending. So a core sleeps by a read, whatever its own instruction for that does.
// Sending never waits.

module byte_port (
    input  logic        clk_i,
    input  logic        rst_ni,
    input  logic        req_i,
    input  logic        we_i,
    input  logic [ 1:0] addr_i,
    input  logic [ 7:0] wdata_i,
    output logic [31:0] rdata_o,
    input  logic        wake_i,
    output logic        wait_o,  // a request of addr_i is not answered yet
    input  logic        rx_valid_i,
    input  logic [ 7:0] rx_data_i,
    output logic        rx_ready_o,
    output logic        rx_look_o,
    output logic        tx_valid_o,
    output logic [ 7:0] tx_data_o
);
  logic full_q;
  logic [7:0] data_q;

  assign wait_o     = addr_i[1] & ~we_i & ~full_q & ~wake_i;
  assign rx_ready_o = ~full_q;
  assign rx_look_o  = req_i & ~we_i & addr_i[0];
  assign tx_valid_o = req_i & we_i & (addr_i == 2'd0);
  assign tx_data_o  = wdata_i;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      full_q <= 1'b0;
      data_q <= '0;
    end else if (rx_ready_o && rx_valid_i) begin
      full_q <= 1'b1;
      data_q <= rx_data_i;
    end else if (req_i && !we_i && addr_i == 2'd0) begin
      full_q <= 1'b0;
    end
  end

  always_ff @(posedge clk_i) begin
    if (req_i) rdata_o <= addr_i == 2'd0 ? {24'b0, data_q} : {31'b0, full_q};
  end

endmodule
