// SPDX-License-Identifier: Apache-2.0
// mtime and mtimecmp (RISC-V privileged manual, version 20211203, 3.2.1): 0x0 mtime, 0x8 mtimecmp,
// low half first. mtime counts the cycles of the whole system, also while the core sleeps.
//
// A program that has turned interrupts off does not see the timer's interrupt. So when one has been
// pending for 2048 cycles, `overdue_o` is high for 16 cycles, and again after every 4096. It is the
// core's non-maskable interrupt, whose handler may turn the others on again (vectors.S).

module timer (
    input  logic        clk_i,
    input  logic        rst_ni,
    input  logic        req_i,
    input  logic        we_i,
    input  logic [ 1:0] addr_i,
    input  logic [31:0] wdata_i,
    output logic [31:0] rdata_o,
    output logic        armed_o,    // mtimecmp is not at its largest value
    output logic        irq_o,
    output logic        overdue_o
);
  logic [63:0] mtime_q, mtimecmp_q;
  logic [11:0] waited_q;

  assign armed_o   = mtimecmp_q != '1;
  assign overdue_o = waited_q[11:4] == 8'h80;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      mtime_q    <= '0;
      mtimecmp_q <= '1;
      irq_o      <= 1'b0;
      waited_q   <= '0;
    end else begin
      mtime_q  <= mtime_q + 64'd1;
      irq_o    <= mtime_q >= mtimecmp_q;
      waited_q <= irq_o ? waited_q + 12'd1 : '0;
      if (req_i && we_i) begin
        unique case (addr_i)
          2'd0: mtime_q[31:0] <= wdata_i;
          2'd1: mtime_q[63:32] <= wdata_i;
          2'd2: mtimecmp_q[31:0] <= wdata_i;
          2'd3: mtimecmp_q[63:32] <= wdata_i;
        endcase
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (req_i) begin
      unique case (addr_i)
        2'd0: rdata_o <= mtime_q[31:0];
        2'd1: rdata_o <= mtime_q[63:32];
        2'd2: rdata_o <= mtimecmp_q[31:0];
        2'd3: rdata_o <= mtimecmp_q[63:32];
      endcase
    end
  end

endmodule
