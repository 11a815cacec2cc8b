/* SPDX-License-Identifier: Apache-2.0 */
/* The dot-product engine's registers (rtl/accelerator.sv), for programs that drive it.
 *
 * A job: out[r] = sum over i of matrix[r][i] * vector[i], int8 times int8 into int32. */

#ifndef ENGINE_H
#define ENGINE_H

#include <stdint.h>

#define ENGINE_BASE 0x80002000u
#define ENGINE(offset) (*(volatile uint32_t *)(ENGINE_BASE + (offset)))

#define ENGINE_CONTROL ENGINE(0x00) /* a write starts the job */
#define ENGINE_STATUS ENGINE(0x04)
#define ENGINE_VECTOR ENGINE(0x08) /* addresses, multiples of 4 in RAM */
#define ENGINE_MATRIX ENGINE(0x0c)
#define ENGINE_OUT ENGINE(0x10)
#define ENGINE_LENGTH ENGINE(0x14) /* bytes of a row and the vector: 4..1024, a multiple of 4 */
#define ENGINE_ROWS ENGINE(0x18)   /* 1 or more */
#define ENGINE_STRIDE ENGINE(0x1c) /* bytes from row to row, a multiple of 4 */

#define ENGINE_STATUS_BUSY 1u
#define ENGINE_STATUS_FAILED 2u

/* Counters, 64 bits each, low half first. They count from reset on. */
#define ENGINE_JOBS (ENGINE_BASE + 0x40u)
#define ENGINE_BUSY (ENGINE_BASE + 0x48u)         /* cycles */
#define ENGINE_READ_STALLS (ENGINE_BASE + 0x50u)  /* cycles in which a read was not granted */
#define ENGINE_WRITE_STALLS (ENGINE_BASE + 0x58u) /* cycles in which a write was not granted */
#define ENGINE_MACS (ENGINE_BASE + 0x60u)         /* multiply-accumulate operations */

#endif
