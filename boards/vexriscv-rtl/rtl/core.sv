// SPDX-License-Identifier: Apache-2.0
// VexRiscv_Full: rv32im with five stages, 4 KiB of instruction cache and of data cache with lines of
// 32 bytes, and static branch prediction. build.sh gives it the ports ending in `_allowed`.
//
// The stage that is shown is the last one, writeBack. Each cycle in which no instruction ends there
// has one cause. It goes through the stages with the gap that it has made, so the cycles of all
// causes and the instructions add up to the cycles.

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
  typedef enum logic [2:0] {Nothing, Fetch, Load, Store, Hazard, Divide, Redirect} cause_e;

  logic [29:0] iword, dword;
  logic [31:0] fetched, accessed;
  logic [2:0] icti, dcti;
  logic icyc, istb, dcyc, dstb, in_ram, in_devices;

  VexRiscv u (
      .clk(clk_i), .reset(~rst_ni), .externalResetVector(boot_i), .timerInterrupt(timer_i),
      .softwareInterrupt(1'b0), .externalInterruptArray('0),
      .fetch_allowed(fetched[31:20] == 12'h001), .data_allowed(in_ram | in_devices),
      .device_allowed(in_devices),
      .iBusWishbone_CYC(icyc), .iBusWishbone_STB(istb), .iBusWishbone_ADR(iword),
      .iBusWishbone_CTI(icti), .iBusWishbone_ACK(instr_rvalid_i), .iBusWishbone_ERR(1'b0),
      .iBusWishbone_DAT_MISO(instr_rdata_i), .iBusWishbone_DAT_MOSI(), .iBusWishbone_WE(),
      .iBusWishbone_SEL(), .iBusWishbone_BTE(),
      .dBusWishbone_CYC(dcyc), .dBusWishbone_STB(dstb), .dBusWishbone_ADR(dword),
      .dBusWishbone_CTI(dcti), .dBusWishbone_ACK(data_rvalid_i), .dBusWishbone_ERR(1'b0),
      .dBusWishbone_DAT_MISO(data_rdata_i), .dBusWishbone_DAT_MOSI(data_wdata_o),
      .dBusWishbone_WE(data_we_o), .dBusWishbone_SEL(data_be_o), .dBusWishbone_BTE()
  );

  // Wishbone B4, 4.1, registered feedback: within a burst (CTI 2) the next word is requested while
  // one is answered, so a line takes a cycle for each of its words, and one more.
  assign instr_req_o  = icyc & istb & (~instr_rvalid_i | icti == 3'd2);
  assign instr_addr_o = {iword + 30'(instr_rvalid_i), 2'b00};
  assign data_req_o   = dcyc & dstb & (~data_rvalid_i | dcti == 3'd2);
  assign data_addr_o  = {dword + 30'(data_rvalid_i), 2'b00};

  assign fetched    = u.IBusCachedPlugin_mmuBus_rsp_physicalAddress;
  assign accessed   = u.DBusCachedPlugin_mmuBus_rsp_physicalAddress;
  assign in_ram     = accessed[31:20] == 12'h001 && !(accessed >= fence_start_i && accessed < fence_end_i);
  assign in_devices = accessed[31:12] >= 20'h80000 && accessed[31:12] <= 20'h80004;

  assign done_o       = u.writeBack_arbitration_isFiring;
  assign busy_o       = cause != Redirect;  // such a gap belongs to the instruction before it
  assign compressed_o = 1'b0;
  assign insn_o       = u.writeBack_INSTRUCTION;
  assign pc_o         = u.writeBack_PC;
  assign stack_o      = u.RegFilePlugin_regFile[2];

  cause_e cause, flushed, fetch_q, to_execute, to_memory, to_writeback, execute_q, memory_q, writeback_q;
  logic replays, jumps;

  // A load that misses is replayed from the first stage while the line is filled.
  assign replays      = u.DBusCachedPlugin_redoBranch_valid;
  assign jumps        = u.BranchPlugin_jumpInterface_valid & u.memory_arbitration_isFiring;
  assign flushed      = replays ? Load : Redirect;
  assign to_execute   = u.decode_arbitration_removeIt ? flushed :
      u.decode_arbitration_isValid ? Hazard : fetch_q;
  assign to_memory    = u.execute_arbitration_removeIt ? flushed : !u.execute_arbitration_isValid ?
      execute_q : u.execute_arbitration_haltByOther ? Load : Hazard;
  assign to_writeback = u.memory_arbitration_removeIt ? flushed :
      u.memory_arbitration_isValid ? Divide : memory_q;
  assign cause        = done_o ? Nothing : !u.writeBack_arbitration_isValid ? writeback_q :
      u.writeBack_MEMORY_WR ? Store : u.writeBack_MEMORY_ENABLE ? Load : Redirect;

  always_ff @(posedge clk_i) begin
    if (u.IBusCachedPlugin_cache_io_cpu_fill_valid) fetch_q <= Fetch;
    else if (u.IBusCachedPlugin_jump_pcLoad_valid) fetch_q <= flushed;
    if (!u.execute_arbitration_isStuck || u.execute_arbitration_removeIt) execute_q <= to_execute;
    if (!u.memory_arbitration_isStuck || u.memory_arbitration_removeIt) memory_q <= to_memory;
    if (!u.writeBack_arbitration_isStuck || u.writeBack_arbitration_removeIt) writeback_q <= to_writeback;
  end

  assign event_o[0]     = u.IBusCachedPlugin_cache.lineLoader_fire;
  assign event_o[1]     = u.dataCache_1.loader_done;
  assign event_o[2]     = cause == Fetch;
  assign event_o[3]     = cause == Load;
  assign event_o[4]     = cause == Store;
  assign event_o[5]     = cause == Hazard;
  assign event_o[6]     = cause == Divide;
  assign event_o[7]     = cause == Redirect;
  assign event_o[8]     = jumps;
  assign event_o[9]     = jumps & u.memory_INSTRUCTION[6:0] == 7'h63;
  assign event_o[10]    = done_o & insn_o[6:0] == 7'h03;
  assign event_o[11]    = done_o & insn_o[6:0] == 7'h23;
  assign event_o[12]    = done_o & insn_o[6:0] == 7'h63;
  assign event_o[31:13] = '0;

endmodule
