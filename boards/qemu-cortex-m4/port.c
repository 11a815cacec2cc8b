/* SPDX-License-Identifier: Apache-2.0 */
/* QEMU's "mps2-an386" machine: all is where the first of the family has it. */

#include "bp_arch_mps2.h"
