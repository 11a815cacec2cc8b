# SPDX-License-Identifier: Apache-2.0
from boardprof.base.metrics import *
