/* SPDX-License-Identifier: Apache-2.0 */
/* QEMU's "mps2-an385" machine: all addresses are those of the first board of the family. */

#include "bp_arch_mps2.h"
