# SPDX-License-Identifier: Apache-2.0
"""The name of a CPU, from what Linux says of it on several machines."""

from __future__ import annotations

import pytest

from boardprof.base.processes import cpu_in

XEON = """\
processor\t: 0
vendor_id\t: GenuineIntel
cpu family\t: 6
model\t\t: 207
model name\t: Intel(R) Xeon(R) Processor
stepping\t: 2
cpu MHz\t\t: 2100.000
"""
ARM = """\
processor\t: 0
BogoMIPS\t: 108.00
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x0
CPU part\t: 0xd08
CPU revision\t: 3
"""
RISCV = """\
processor\t: 0
hart\t\t: 1
isa\t\t: rv64imafdc
uarch\t\t: sifive,u74-mc
"""


@pytest.mark.parametrize(
    ("cpuinfo", "machine", "name"),
    [
        (f"{XEON}\n{XEON}", "x86_64", "x86_64, Intel(R) Xeon(R) Processor (6-207-2)"),
        (f"{ARM}\n{ARM}\n", "aarch64", "aarch64, (0x41-0xd08-0x0-3)"),
        (
            f"{ARM}\n{ARM.replace('0xd08', '0xd05')}",  # big.LITTLE
            "aarch64",
            "aarch64, (0x41-0xd08-0x0-3) and (0x41-0xd05-0x0-3)",
        ),
        (RISCV, "riscv64", "riscv64, sifive,u74-mc"),
        ("", "arm64", "arm64"),
        ("\x00:::\n\n\n", "x86_64", "x86_64"),
    ],
)
def test_a_cpu_is_its_architecture_and_its_model(cpuinfo: str, machine: str, name: str) -> None:
    assert cpu_in(cpuinfo, machine) == name
