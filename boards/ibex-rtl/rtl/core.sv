// SPDX-License-Identifier: Apache-2.0
// Ibex, rv32imc with the three-cycle multiplier and ten counters of events. Its buses are those of
// the system: Ibex reference guide, "Load-Store Unit", protocol; also valid for fetches.
//
// The stage that is shown is ID. Encodings: RISC-V unprivileged manual, version 20191213, chapter 24.

module core (
    input  logic        clk_i,
    input  logic        rst_ni,
    input  logic [31:0] boot_i,
    output logic        instr_req_o,
    output logic [31:0] instr_addr_o,
    input  logic        instr_rvalid_i,
    input  logic        instr_err_i,
    input  logic [31:0] instr_rdata_i,
    output logic        data_req_o,
    input  logic        data_gnt_i,
    output logic        data_we_o,
    output logic [ 3:0] data_be_o,
    output logic [31:0] data_addr_o,
    output logic [31:0] data_wdata_o,
    input  logic        data_rvalid_i,
    input  logic        data_err_i,
    input  logic [31:0] data_rdata_i,
    input  logic        timer_i,
    input  logic        overdue_i,
    input  logic [31:0] fence_start_i,
    input  logic [31:0] fence_end_i,
    output logic        busy_o,
    output logic        done_o,
    output logic        compressed_o,
    output logic [31:0] insn_o,
    output logic [31:0] pc_o,
    output logic [31:0] stack_o,
    output logic [31:0] event_o
);
  ibex_top #(
      .MHPMCounterNum  (10),
      .MHPMCounterWidth(40),
      .RV32M           (ibex_pkg::RV32MFast)
  ) u_ibex (
      .clk_i,
      .rst_ni,
      .test_en_i             (1'b0),
      .ram_cfg_i             ('0),
      .hart_id_i             (32'd0),
      .boot_addr_i           (boot_i - 32'h80),  // same guide, "Exceptions and Interrupts"
      .instr_req_o,
      .instr_gnt_i           (1'b1),
      .instr_rvalid_i,
      .instr_addr_o,
      .instr_rdata_i,
      .instr_rdata_intg_i    ('0),
      .instr_err_i,
      .data_req_o,
      .data_gnt_i,
      .data_rvalid_i,
      .data_we_o,
      .data_be_o,
      .data_addr_o,
      .data_wdata_o,
      .data_wdata_intg_o     (),
      .data_rdata_i,
      .data_rdata_intg_i     ('0),
      .data_err_i,
      .irq_software_i        (1'b0),
      .irq_timer_i           (timer_i),
      .irq_external_i        (1'b0),
      .irq_fast_i            ('0),
      .irq_nm_i              (overdue_i),
      .scramble_key_valid_i  ('0),
      .scramble_key_i        ('0),
      .scramble_nonce_i      ('0),
      .scramble_req_o        (),
      .debug_req_i           (1'b0),
      .crash_dump_o          (),
      .double_fault_seen_o   (),
      .fetch_enable_i        (ibex_pkg::IbexMuBiOn),
      .alert_minor_o         (),
      .alert_major_internal_o(),
      .alert_major_bus_o     (),
      .core_sleep_o          (),
      .scan_rst_ni           (1'b1)
  );

  assign busy_o       = u_ibex.u_ibex_core.instr_valid_id;
  assign done_o       = busy_o & u_ibex.u_ibex_core.instr_id_done;
  assign compressed_o = u_ibex.u_ibex_core.instr_is_compressed_id;
  assign insn_o       = u_ibex.u_ibex_core.instr_rdata_id;
  assign pc_o         = u_ibex.u_ibex_core.pc_id;
  assign stack_o      = u_ibex.gen_regfile_ff.register_file_i.g_rf_flops[2].rf_reg_q;

  // The core waits for data from its request until the answer. A request together with an answer is
  // the second half of a misaligned access, whose answer has not come yet.
  logic outstanding_q, calculates;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) outstanding_q <= 1'b0;
    else outstanding_q <= data_gnt_i | (outstanding_q & ~data_rvalid_i);
  end

  assign calculates    = busy_o & ~done_o & insn_o[6:0] == 7'h33 & insn_o[31:25] == 7'h01;
  assign event_o[0]    = (data_req_o | outstanding_q) & ~(data_rvalid_i & ~data_req_o);
  assign event_o[1]    = ~busy_o & u_ibex.u_ibex_core.id_in_ready;  // waits for an instruction
  assign event_o[2]    = calculates & ~insn_o[14];  // for a product
  assign event_o[3]    = calculates & insn_o[14];  // for a quotient or a remainder
  assign event_o[31:4] = '0;

endmodule
