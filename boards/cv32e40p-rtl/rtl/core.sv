// SPDX-License-Identifier: Apache-2.0
// CV32E40P, rv32imfc with four stages, its FPU in the pipeline without registers of its own, and four
// counters of events. Its buses are those of the system (CV32E40P user manual, "Load-Store Unit"),
// but have no errors: a load from nowhere reads 0, and a store there is lost.
//
// The stage that is shown is ID.

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
  cv32e40p_top #(
      .FPU             (1),
      .NUM_MHPMCOUNTERS(4)
  ) u (
      .clk_i,
      .rst_ni,
      .pulp_clock_en_i    (1'b0),
      .scan_cg_en_i       (1'b0),
      .boot_addr_i        (boot_i),
      .mtvec_addr_i       (boot_i),
      .dm_halt_addr_i     ('0),
      .hart_id_i          ('0),
      .dm_exception_addr_i('0),
      .instr_req_o,
      .instr_gnt_i        (1'b1),
      .instr_rvalid_i,
      .instr_addr_o,
      .instr_rdata_i      (instr_err_i ? '0 : instr_rdata_i),  // 0 is an illegal instruction
      .data_req_o,
      .data_gnt_i,
      .data_rvalid_i,
      .data_we_o,
      .data_be_o,
      .data_addr_o,
      .data_wdata_o,
      .data_rdata_i       (data_err_i ? '0 : data_rdata_i),
      .irq_i              ({24'b0, timer_i, 7'b0}),
      .irq_ack_o          (),
      .irq_id_o           (),
      .debug_req_i        (1'b0),
      .debug_havereset_o  (),
      .debug_running_o    (),
      .debug_halted_o     (),
      .fetch_enable_i     (1'b1),
      .core_sleep_o       ()
  );

  assign busy_o       = u.core_i.instr_valid_id;
  assign done_o       = u.core_i.id_stage_i.minstret;
  assign compressed_o = u.core_i.is_compressed_id;
  assign insn_o       = u.core_i.instr_rdata_id;
  assign pc_o         = u.core_i.pc_id;
  assign stack_o      = u.core_i.id_stage_i.register_file_i.mem[2];

  // Why nothing is done in ID.
  assign event_o[0]    = busy_o & u.core_i.id_stage_i.load_stall;
  assign event_o[1]    = busy_o & u.core_i.id_stage_i.jr_stall;
  assign event_o[2]    = u.core_i.perf_imiss;
  assign event_o[31:3] = '0;

endmodule
