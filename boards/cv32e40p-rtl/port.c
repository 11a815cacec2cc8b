/* SPDX-License-Identifier: Apache-2.0 */

#define BP_SAMPLE_USUAL 700u

#include "bp_arch_rtl.h"
