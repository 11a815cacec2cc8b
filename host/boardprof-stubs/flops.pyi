# SPDX-License-Identifier: Apache-2.0
from boardprof.compat.torch.flops import *
