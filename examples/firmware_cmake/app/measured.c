/* SPDX-License-Identifier: Apache-2.0 */
/* What the host can call and measure. heater_power_setup is found by its name: it runs before each
 * sample, so that all samples begin in the same state. */

#include "boardprof/bp_function.h"
#include "control.h"

BP_FUNCTION(heater_power);
BP_FUNCTION(isqrt);
BP_FUNCTION(smooth);
