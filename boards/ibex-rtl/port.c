/* SPDX-License-Identifier: Apache-2.0 */

#define BP_SAMPLE_USUAL 700u
#define BP_RTL_VECTORS bp_vectors /* vectors.S */

#include "bp_arch_rtl.h"
