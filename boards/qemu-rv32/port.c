/* SPDX-License-Identifier: Apache-2.0 */
/* All of the machine "virt". */

#include "bp_arch_virt.h"
