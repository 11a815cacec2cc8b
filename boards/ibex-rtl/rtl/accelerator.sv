// SPDX-License-Identifier: Apache-2.0
// The dot-product engine: out[r] = sum of matrix[r][i] * vector[i], int8 times int8 into int32.
//
// It keeps the vector, streams the matrix past it by DMA, four products for each word, and writes a
// word for each row. Registers (engine.h has them for C):
//
//   0x00 CONTROL  written: starts a job         0x14 LENGTH  bytes of a row, 4..1024 (*)
//   0x04 STATUS   bit 0: busy, 1: failed         0x18 ROWS    1 or more
//   0x08 VECTOR   address (*)                    0x1c STRIDE  bytes from row to row (*)
//   0x0c MATRIX   address (*)
//   0x10 OUT      address (*)                    (*) a multiple of 4
//
// and its counters, 64 bits each, low half first:
//
//   0x40 JOBS          jobs that have ended
//   0x48 BUSY          cycles
//   0x50 READ_STALLS   cycles in which a read was not granted
//   0x58 WRITE_STALLS  cycles in which a write was not granted
//   0x60 MACS          multiply-accumulate operations
//
// BUSY begins with the cycle after the start and ends with the cycle of the last write. While the
// engine is busy, writes are lost. It fails at an address that is not RAM, and at once if LENGTH or
// ROWS is out of range.

module accelerator (
    input logic clk_i,
    input logic rst_ni,

    input  logic        req_i,
    input  logic        we_i,
    input  logic [ 4:0] addr_i,
    input  logic [31:0] wdata_i,
    output logic [31:0] rdata_o,
    output logic        busy_o,

    output logic        dma_req_o,
    input  logic        dma_gnt_i,
    input  logic        dma_err_i,    // there is no RAM at dma_addr_o
    output logic        dma_we_o,
    output logic [31:0] dma_addr_o,
    output logic [31:0] dma_wdata_o,
    output logic        dma_rvalid_o, // the word that was read is valid
    input  logic [31:0] dma_rdata_i
);
  localparam int unsigned VectorWords = 256;

  typedef enum logic [1:0] {
    Idle,
    LoadVector,
    Row,
    Write
  } state_e;

  state_e state_q;
  logic [31:0] vector_addr_q, matrix_addr_q, out_addr_q, stride_q, rows_q;
  logic [29:0] length_q;  // in words
  logic [63:0] jobs_q, busy_q, read_stalls_q, write_stalls_q, macs_q;
  logic failed_q;

  logic [31:0] vector_q[VectorWords];
  logic [31:0] row_addr_q, word_addr_q, write_addr_q, rows_left_q, sum_q, products;
  logic [8:0] asked_q, got_q;  // words of this row or of the vector
  logic start, possible, reading, last_word, ended;

  assign start       = req_i & we_i & (addr_i == 5'd0) & (state_q == Idle);
  assign possible    = length_q != '0 && length_q <= 30'(VectorWords) && rows_q != '0;
  assign busy_o      = state_q != Idle;
  assign reading     = (state_q == LoadVector || state_q == Row) && asked_q != length_q[8:0];
  assign dma_req_o   = reading | (state_q == Write);
  assign dma_we_o    = state_q == Write;
  assign dma_addr_o  = state_q == Write ? write_addr_q : word_addr_q;
  assign dma_wdata_o = sum_q;
  assign last_word   = dma_rvalid_o & (got_q + 9'd1 == length_q[8:0]);
  assign ended       = state_q == Write && dma_gnt_i && rows_left_q == 32'd1;

  always_comb begin
    products = '0;
    for (int i = 0; i < 4; i++) begin
      products += 32'(signed'(vector_q[got_q[7:0]][8*i+:8])) * 32'(signed'(dma_rdata_i[8*i+:8]));
    end
  end

  // ---- What the core writes and reads ----

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      vector_addr_q <= '0;
      matrix_addr_q <= '0;
      out_addr_q    <= '0;
      length_q      <= 30'd1;
      rows_q        <= 32'd1;
      stride_q      <= '0;
    end else if (req_i && we_i && !busy_o) begin
      case (addr_i)
        5'd2: vector_addr_q <= {wdata_i[31:2], 2'b0};
        5'd3: matrix_addr_q <= {wdata_i[31:2], 2'b0};
        5'd4: out_addr_q <= {wdata_i[31:2], 2'b0};
        5'd5: length_q <= wdata_i[31:2];
        5'd6: rows_q <= wdata_i;
        5'd7: stride_q <= {wdata_i[31:2], 2'b0};
        default: ;
      endcase
    end
  end

  always_ff @(posedge clk_i) begin
    if (req_i) begin
      case (addr_i)
        5'd1: rdata_o <= {30'b0, failed_q, busy_o};
        5'd2: rdata_o <= vector_addr_q;
        5'd3: rdata_o <= matrix_addr_q;
        5'd4: rdata_o <= out_addr_q;
        5'd5: rdata_o <= {length_q, 2'b0};
        5'd6: rdata_o <= rows_q;
        5'd7: rdata_o <= stride_q;
        5'd16: rdata_o <= jobs_q[31:0];
        5'd17: rdata_o <= jobs_q[63:32];
        5'd18: rdata_o <= busy_q[31:0];
        5'd19: rdata_o <= busy_q[63:32];
        5'd20: rdata_o <= read_stalls_q[31:0];
        5'd21: rdata_o <= read_stalls_q[63:32];
        5'd22: rdata_o <= write_stalls_q[31:0];
        5'd23: rdata_o <= write_stalls_q[63:32];
        5'd24: rdata_o <= macs_q[31:0];
        5'd25: rdata_o <= macs_q[63:32];
        default: rdata_o <= '0;
      endcase
    end
  end

  // ---- The job ----

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q      <= Idle;
      failed_q     <= 1'b0;
      dma_rvalid_o <= 1'b0;
      row_addr_q   <= '0;
      word_addr_q  <= '0;
      write_addr_q <= '0;
      rows_left_q  <= '0;
      sum_q        <= '0;
      asked_q      <= '0;
      got_q        <= '0;
    end else begin
      dma_rvalid_o <= dma_gnt_i & ~dma_we_o;
      if (dma_gnt_i && !dma_we_o) begin
        asked_q     <= asked_q + 9'd1;
        word_addr_q <= word_addr_q + 32'd4;
      end
      if (dma_rvalid_o) begin
        got_q <= got_q + 9'd1;
        if (state_q == LoadVector) vector_q[got_q[7:0]] <= dma_rdata_i;
        else sum_q <= sum_q + products;
      end

      unique case (state_q)
        Idle: begin
          if (start) begin
            state_q      <= possible ? LoadVector : Idle;
            failed_q     <= ~possible;
            word_addr_q  <= vector_addr_q;
            row_addr_q   <= matrix_addr_q;
            write_addr_q <= out_addr_q;
            rows_left_q  <= rows_q;
            asked_q      <= '0;
            got_q        <= '0;
          end
        end
        LoadVector: begin
          if (last_word) begin
            state_q     <= Row;
            word_addr_q <= row_addr_q;
            row_addr_q  <= row_addr_q + stride_q;
            asked_q     <= '0;
            got_q       <= '0;
            sum_q       <= '0;
          end
        end
        Row: if (last_word) state_q <= Write;
        Write: begin
          if (dma_gnt_i) begin
            state_q      <= ended ? Idle : Row;
            write_addr_q <= write_addr_q + 32'd4;
            rows_left_q  <= rows_left_q - 32'd1;
            word_addr_q  <= row_addr_q;
            row_addr_q   <= row_addr_q + stride_q;
            asked_q      <= '0;
            got_q        <= '0;
            sum_q        <= '0;
          end
        end
      endcase

      if (dma_req_o && dma_err_i) begin
        state_q  <= Idle;
        failed_q <= 1'b1;
      end
    end
  end

  // ---- Counters ----

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      jobs_q         <= '0;
      busy_q         <= '0;
      read_stalls_q  <= '0;
      write_stalls_q <= '0;
      macs_q         <= '0;
    end else begin
      if (ended) jobs_q <= jobs_q + 64'd1;
      if (busy_o) busy_q <= busy_q + 64'd1;
      if (dma_req_o && !dma_gnt_i && !dma_we_o) read_stalls_q <= read_stalls_q + 64'd1;
      if (dma_req_o && !dma_gnt_i && dma_we_o) write_stalls_q <= write_stalls_q + 64'd1;
      if (dma_rvalid_o && state_q == Row) macs_q <= macs_q + 64'd4;
    end
  end

endmodule
