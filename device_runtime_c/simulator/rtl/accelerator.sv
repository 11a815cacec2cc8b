// SPDX-License-Identifier: Apache-2.0
// No accelerator. A board that has one has a module of this name in its own folder.

module accelerator (
    input  logic        clk_i,
    input  logic        rst_ni,
    input  logic        req_i,
    input  logic        we_i,
    input  logic [ 4:0] addr_i,
    input  logic [31:0] wdata_i,
    output logic [31:0] rdata_o,
    output logic        busy_o,
    output logic        dma_req_o,
    input  logic        dma_gnt_i,
    input  logic        dma_err_i,
    output logic        dma_we_o,
    output logic [31:0] dma_addr_o,
    output logic [31:0] dma_wdata_o,
    output logic        dma_rvalid_o,
    input  logic [31:0] dma_rdata_i
);
  assign rdata_o      = '0;
  assign busy_o       = 1'b0;
  assign dma_req_o    = 1'b0;
  assign dma_we_o     = 1'b0;
  assign dma_addr_o   = '0;
  assign dma_wdata_o  = '0;
  assign dma_rvalid_o = 1'b0;

endmodule
