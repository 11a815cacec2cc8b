// SPDX-License-Identifier: Apache-2.0
// A small system around the Ibex core: RAM, a byte port, a timer, a fence and the dot-product engine.
//
// Addresses: 0x00100000 RAM, 1 MiB; 0x80000000 byte port; 0x80001000 timer;
// 0x80002000 engine; 0x80003000 fence. Everything else answers with an error. RAM has two ports:
// the core fetches instructions through one, and shares the other with the engine (arbiter.sv).
//
// The core's buses: Ibex reference guide, "Load-Store Unit", protocol; also valid for fetches.

module soc #(
    parameter int unsigned RamWords = 262144
) (
    input logic clk_i,
    input logic rst_ni,

    // The other side of the byte port. A byte is taken when valid and ready are both 1.
    // `rx_look_o`: the program has asked whether one is waiting.
    input  logic       rx_valid_i,
    input  logic [7:0] rx_data_i,
    output logic       rx_ready_o,
    output logic       rx_look_o,
    output logic       tx_valid_o,
    output logic [7:0] tx_data_o,

    // Nothing will happen until a byte comes: the core waits for an interrupt, the engine has
    // nothing to do, and no timeout is set.
    output logic asleep_o,

    // For counting from outside what is counted inside: the signals of the data buses of the core
    // and of the engine, and the instruction in the core's ID stage.
    output logic        cpu_req_o,
    output logic        cpu_gnt_o,
    output logic        cpu_we_o,
    output logic [31:0] cpu_addr_o,
    output logic [31:0] cpu_wdata_o,
    output logic        cpu_rvalid_o,
    output logic        engine_req_o,
    output logic        engine_gnt_o,
    output logic        engine_we_o,
    output logic        engine_err_o,    // it accessed an address outside RAM, which ends its job
    output logic        engine_rvalid_o,
    output logic        id_valid_o,
    output logic        id_ready_o,
    output logic        id_done_o,
    output logic        id_compressed_o,
    output logic [31:0] id_insn_o,
    output logic [31:0] id_pc_o,
    output logic [31:0] stack_o         // x2, the stack pointer
);
  localparam logic [31:0] BootAddr = 32'h0010_0000;

  logic instr_req, instr_rvalid_q, instr_ram, instr_err_q;
  logic [31:0] instr_addr, instr_rdata;
  logic [3:0] cpu_be;
  logic [31:0] cpu_rdata;
  logic cpu_ram, cpu_port, cpu_timer, cpu_engine, cpu_fence, cpu_err_q;
  logic core_sleep, port_irq, timer_irq, timer_overdue, timer_armed, engine_busy;

  // ---- The core ----

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
      .boot_addr_i           (BootAddr),
      .instr_req_o           (instr_req),
      .instr_gnt_i           (1'b1),
      .instr_rvalid_i        (instr_rvalid_q),
      .instr_addr_o          (instr_addr),
      .instr_rdata_i         (instr_rdata),
      .instr_rdata_intg_i    ('0),
      .instr_err_i           (instr_err_q),
      .data_req_o            (cpu_req_o),
      .data_gnt_i            (cpu_gnt_o),
      .data_rvalid_i         (cpu_rvalid_o),
      .data_we_o             (cpu_we_o),
      .data_be_o             (cpu_be),
      .data_addr_o           (cpu_addr_o),
      .data_wdata_o          (cpu_wdata_o),
      .data_wdata_intg_o     (),
      .data_rdata_i          (cpu_rdata),
      .data_rdata_intg_i     ('0),
      .data_err_i            (cpu_err_q),
      .irq_software_i        (1'b0),
      .irq_timer_i           (timer_irq),
      .irq_external_i        (port_irq),
      .irq_fast_i            ('0),
      .irq_nm_i              (timer_overdue),
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
      .core_sleep_o          (core_sleep),
      .scan_rst_ni           (1'b1)
  );

  assign asleep_o        = core_sleep & ~engine_busy & ~timer_armed;
  assign id_valid_o      = u_ibex.u_ibex_core.instr_valid_id;
  assign id_ready_o      = u_ibex.u_ibex_core.id_in_ready;
  assign id_done_o       = u_ibex.u_ibex_core.instr_id_done;
  assign id_compressed_o = u_ibex.u_ibex_core.instr_is_compressed_id;
  assign id_insn_o       = u_ibex.u_ibex_core.instr_rdata_id;
  assign id_pc_o         = u_ibex.u_ibex_core.pc_id;
  assign stack_o         = u_ibex.gen_regfile_ff.register_file_i.g_rf_flops[2].rf_reg_q;

  // ---- The core's data bus: which device answers ----

  logic [31:0] ram_rdata, port_rdata_q, timer_rdata_q, engine_rdata_q;
  logic ram_gnt_cpu, fenced;
  logic ram_q, port_q, timer_q;

  assign cpu_ram    = cpu_addr_o[31:20] == BootAddr[31:20] & ~fenced;
  assign cpu_port   = cpu_addr_o[31:12] == 20'h80000;
  assign cpu_timer  = cpu_addr_o[31:12] == 20'h80001;
  assign cpu_engine = cpu_addr_o[31:12] == 20'h80002;
  assign cpu_fence  = cpu_addr_o[31:12] == 20'h80003;
  assign cpu_gnt_o  = cpu_req_o & (cpu_ram ? ram_gnt_cpu : 1'b1);

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      cpu_rvalid_o <= 1'b0;
      cpu_err_q    <= 1'b0;
      ram_q        <= 1'b0;
      port_q       <= 1'b0;
      timer_q      <= 1'b0;
    end else begin
      cpu_rvalid_o <= cpu_gnt_o;
      cpu_err_q    <= ~(cpu_ram | cpu_port | cpu_timer | cpu_engine | cpu_fence);
      ram_q        <= cpu_ram;
      port_q       <= cpu_port;
      timer_q      <= cpu_timer;
    end
  end

  assign cpu_rdata = ram_q ? ram_rdata : port_q ? port_rdata_q : timer_q ? timer_rdata_q :
      engine_rdata_q;

  // ---- RAM ----

  logic ram_req, ram_we, engine_ram;
  logic [ 3:0] ram_be;
  logic [31:0] ram_addr, ram_wdata, engine_addr, engine_wdata;

  assign instr_ram = instr_addr[31:20] == BootAddr[31:20];

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      instr_rvalid_q <= 1'b0;
      instr_err_q    <= 1'b0;
    end else begin
      instr_rvalid_q <= instr_req;
      instr_err_q    <= ~instr_ram;
    end
  end

  arbiter u_arbiter (
      .clk_i,
      .rst_ni,
      .req_i({engine_req_o & engine_ram, cpu_req_o & cpu_ram}),
      .write_1_i(engine_we_o),
      .gnt_o({engine_gnt_o, ram_gnt_cpu})
  );

  assign ram_req   = ram_gnt_cpu | engine_gnt_o;
  assign ram_we    = engine_gnt_o ? engine_we_o : cpu_we_o;
  assign ram_be    = engine_gnt_o ? 4'hf : cpu_be;
  assign ram_addr  = engine_gnt_o ? engine_addr : cpu_addr_o;
  assign ram_wdata = engine_gnt_o ? engine_wdata : cpu_wdata_o;

  ram #(
      .Words(RamWords)
  ) u_ram (
      .clk_i,
      .a_req_i  (instr_req),
      .a_addr_i (instr_addr[19:2]),
      .a_rdata_o(instr_rdata),
      .b_req_i  (ram_req),
      .b_we_i   (ram_we),
      .b_be_i   (ram_be),
      .b_addr_i (ram_addr[19:2]),
      .b_wdata_i(ram_wdata),
      .b_rdata_o(ram_rdata)
  );

  // ---- Devices ----

  byte_port u_port (
      .clk_i,
      .rst_ni,
      .req_i  (cpu_req_o & cpu_port),
      .we_i   (cpu_we_o),
      .addr_i (cpu_addr_o[2]),
      .wdata_i(cpu_wdata_o[7:0]),
      .rdata_o(port_rdata_q),
      .irq_o  (port_irq),
      .rx_valid_i,
      .rx_data_i,
      .rx_ready_o,
      .rx_look_o,
      .tx_valid_o,
      .tx_data_o
  );

  timer u_timer (
      .clk_i,
      .rst_ni,
      .req_i    (cpu_req_o & cpu_timer),
      .we_i     (cpu_we_o),
      .addr_i   (cpu_addr_o[3:2]),
      .wdata_i  (cpu_wdata_o),
      .rdata_o  (timer_rdata_q),
      .armed_o  (timer_armed),
      .irq_o    (timer_irq),
      .overdue_o(timer_overdue)
  );

  fence u_fence (
      .clk_i,
      .rst_ni,
      .req_i       (cpu_req_o & cpu_fence & cpu_we_o),
      .addr_i      (cpu_addr_o[2]),
      .wdata_i     (cpu_wdata_o),
      .cpu_addr_i  (cpu_addr_o),
      .fenced_o    (fenced)
  );

  assign engine_ram = engine_addr[31:20] == BootAddr[31:20];
  assign engine_err_o = engine_req_o & ~engine_ram;

  engine u_engine (
      .clk_i,
      .rst_ni,
      .req_i       (cpu_req_o & cpu_engine),
      .we_i        (cpu_we_o),
      .addr_i      (cpu_addr_o[6:2]),
      .wdata_i     (cpu_wdata_o),
      .rdata_o     (engine_rdata_q),
      .busy_o      (engine_busy),
      .dma_req_o   (engine_req_o),
      .dma_gnt_i   (engine_gnt_o),
      .dma_err_i   (~engine_ram),
      .dma_we_o    (engine_we_o),
      .dma_addr_o  (engine_addr),
      .dma_wdata_o (engine_wdata),
      .dma_rvalid_o(engine_rvalid_o),
      .dma_rdata_i (ram_rdata)
  );

endmodule
