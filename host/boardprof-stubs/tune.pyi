# SPDX-License-Identifier: Apache-2.0
from boardprof.jobs.tune import *
