// SPDX-License-Identifier: Apache-2.0
// A small system around a core: RAM, a byte port, a timer, a fence, counters of events, and room for
// an accelerator. Board folders have the module `core`, a wrapper around their core.
//
// Addresses: 0x00100000 RAM, 1 MiB; 0x80000000 byte port; 0x80001000 timer; 0x80002000 accelerator;
// 0x80003000 fence; 0x80004000 counters of events. Everything else answers with an error. RAM answers
// in the next cycle. It has two ports: the core fetches instructions through one, and shares the
// other with the accelerator.
//
// Both buses of the core: a request is taken in a cycle in which req and gnt are 1, and answered in a
// later one in which rvalid is 1. Fetches are always taken at once, and answered in the next cycle.

module soc #(
    parameter int unsigned RamWords = 262144
) (
    input logic        clk_i,
    input logic        rst_ni,
    input logic [31:0] boot_i,  // address of the first instruction

    // The other side of the byte port. A byte is taken when valid and ready are both 1.
    // `rx_look_o`: the program has asked whether one is waiting. `rx_wait_o`: it waits for one.
    input  logic       rx_valid_i,
    input  logic [7:0] rx_data_i,
    output logic       rx_ready_o,
    output logic       rx_look_o,
    output logic       rx_wait_o,
    output logic       tx_valid_o,
    output logic [7:0] tx_data_o,

    // Nothing will happen until a byte comes: the core waits for one, the accelerator has nothing to
    // do, and no timeout is set.
    output logic asleep_o,

    // For counting from outside what is counted inside: the data buses of the core and of the
    // accelerator, and what `core` shows.
    output logic        cpu_req_o,
    output logic        cpu_gnt_o,
    output logic        cpu_we_o,
    output logic [31:0] cpu_addr_o,
    output logic [31:0] cpu_wdata_o,
    output logic        cpu_rvalid_o,
    output logic        dma_req_o,
    output logic        dma_gnt_o,
    output logic        dma_we_o,
    output logic        dma_err_o,    // there is no RAM at the accelerator's address
    output logic        dma_rvalid_o,
    output logic        busy_o,
    output logic        done_o,
    output logic        compressed_o,
    output logic [31:0] insn_o,
    output logic [31:0] pc_o,
    output logic [31:0] stack_o,
    output logic [31:0] event_o
);
  localparam logic [31:0] RamBase = 32'h0010_0000;

  logic instr_req, instr_rvalid_q, instr_ram, instr_err_q;
  logic [31:0] instr_addr, instr_rdata;
  logic [3:0] cpu_be;
  logic [31:0] cpu_rdata;
  logic cpu_ram, cpu_port, cpu_timer, cpu_accelerator, cpu_fence, cpu_events, cpu_err_q;
  logic port_wait, timer_irq, timer_overdue, timer_armed, accelerator_busy, fenced;
  logic [31:0] fence_start, fence_end;

  core u_core (
      .clk_i,
      .rst_ni,
      .boot_i,
      .instr_req_o   (instr_req),
      .instr_addr_o  (instr_addr),
      .instr_rvalid_i(instr_rvalid_q),
      .instr_err_i   (instr_err_q),
      .instr_rdata_i (instr_rdata),
      .data_req_o    (cpu_req_o),
      .data_gnt_i    (cpu_gnt_o),
      .data_we_o     (cpu_we_o),
      .data_be_o     (cpu_be),
      .data_addr_o   (cpu_addr_o),
      .data_wdata_o  (cpu_wdata_o),
      .data_rvalid_i (cpu_rvalid_o),
      .data_err_i    (cpu_err_q),
      .data_rdata_i  (cpu_rdata),
      .timer_i       (timer_irq),
      .overdue_i     (timer_overdue),
      .fence_start_i (fence_start),
      .fence_end_i   (fence_end),
      .busy_o,
      .done_o,
      .compressed_o,
      .insn_o,
      .pc_o,
      .stack_o,
      .event_o
  );

  assign rx_wait_o = cpu_req_o & cpu_port & port_wait;
  assign asleep_o  = rx_wait_o & ~accelerator_busy & ~timer_armed;

  // ---- The core's data bus: which device answers ----

  logic [31:0] ram_rdata, port_rdata_q, timer_rdata_q, accelerator_rdata_q, events_rdata_q;
  logic ram_gnt_cpu;
  logic ram_q, port_q, timer_q, events_q;

  assign cpu_ram         = cpu_addr_o[31:20] == RamBase[31:20] & ~fenced;
  assign cpu_port        = cpu_addr_o[31:12] == 20'h80000;
  assign cpu_timer       = cpu_addr_o[31:12] == 20'h80001;
  assign cpu_accelerator = cpu_addr_o[31:12] == 20'h80002;
  assign cpu_fence       = cpu_addr_o[31:12] == 20'h80003;
  assign cpu_events      = cpu_addr_o[31:12] == 20'h80004;
  assign cpu_gnt_o       = cpu_req_o & (cpu_ram ? ram_gnt_cpu : ~(cpu_port & port_wait));

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      cpu_rvalid_o <= 1'b0;
      cpu_err_q    <= 1'b0;
      ram_q        <= 1'b0;
      port_q       <= 1'b0;
      timer_q      <= 1'b0;
      events_q     <= 1'b0;
    end else begin
      cpu_rvalid_o <= cpu_gnt_o;
      cpu_err_q    <= ~(cpu_ram | cpu_port | cpu_timer | cpu_accelerator | cpu_fence | cpu_events);
      ram_q        <= cpu_ram;
      port_q       <= cpu_port;
      timer_q      <= cpu_timer;
      events_q     <= cpu_events;
    end
  end

  assign cpu_rdata = ram_q ? ram_rdata : port_q ? port_rdata_q : timer_q ? timer_rdata_q :
      events_q ? events_rdata_q : accelerator_rdata_q;

  // ---- RAM ----

  logic ram_req, ram_we, dma_ram;
  logic [ 3:0] ram_be;
  logic [31:0] ram_addr, ram_wdata, dma_addr, dma_wdata;

  assign instr_ram = instr_addr[31:20] == RamBase[31:20];

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
      .req_i    ({dma_req_o & dma_ram, cpu_req_o & cpu_ram}),
      .write_1_i(dma_we_o),
      .gnt_o    ({dma_gnt_o, ram_gnt_cpu})
  );

  assign dma_ram   = dma_addr[31:20] == RamBase[31:20];
  assign dma_err_o = dma_req_o & ~dma_ram;
  assign ram_req   = ram_gnt_cpu | dma_gnt_o;
  assign ram_we    = dma_gnt_o ? dma_we_o : cpu_we_o;
  assign ram_be    = dma_gnt_o ? 4'hf : cpu_be;
  assign ram_addr  = dma_gnt_o ? dma_addr : cpu_addr_o;
  assign ram_wdata = dma_gnt_o ? dma_wdata : cpu_wdata_o;

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
      .req_i  (cpu_gnt_o & cpu_port),
      .we_i   (cpu_we_o),
      .addr_i (cpu_addr_o[3:2]),
      .wdata_i(cpu_wdata_o[7:0]),
      .rdata_o(port_rdata_q),
      .wake_i (timer_irq),
      .wait_o (port_wait),
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
      .req_i     (cpu_req_o & cpu_fence & cpu_we_o),
      .addr_i    (cpu_addr_o[2]),
      .wdata_i   (cpu_wdata_o),
      .cpu_addr_i(cpu_addr_o),
      .fenced_o  (fenced),
      .start_o   (fence_start),
      .end_o     (fence_end)
  );

  events u_events (
      .clk_i,
      .rst_ni,
      .event_i(event_o),
      .req_i  (cpu_req_o & cpu_events),
      .we_i   (cpu_we_o),
      .addr_i (cpu_addr_o[7:2]),
      .wdata_i(cpu_wdata_o),
      .rdata_o(events_rdata_q)
  );

  accelerator u_accelerator (
      .clk_i,
      .rst_ni,
      .req_i       (cpu_req_o & cpu_accelerator),
      .we_i        (cpu_we_o),
      .addr_i      (cpu_addr_o[6:2]),
      .wdata_i     (cpu_wdata_o),
      .rdata_o     (accelerator_rdata_q),
      .busy_o      (accelerator_busy),
      .dma_req_o,
      .dma_gnt_i   (dma_gnt_o),
      .dma_err_i   (~dma_ram),
      .dma_we_o,
      .dma_addr_o  (dma_addr),
      .dma_wdata_o (dma_wdata),
      .dma_rvalid_o,
      .dma_rdata_i (ram_rdata)
  );

endmodule
