/* SPDX-License-Identifier: Apache-2.0 */
/* Everything is in the header of QEMU's machine "virt". */

#include "bp_arch_virt.h"
