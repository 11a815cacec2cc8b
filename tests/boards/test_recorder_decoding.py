# SPDX-License-Identifier: Apache-2.0
"""The recorder's view of each instruction, held against binutils' disassembly of real images."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from boardprof.base.files import runtime_dir
from boardprof.target.build.build_options import BuildOptions
from tests.boards.conftest import WORKLOADS, available
from tests.firmware import build
from tests.support import requires_tool

NEXT, BRANCH, CALL, INDIRECT, RETURN, RESUME = range(6)

IMAGES = {
    "qemu-rv32": (0, "riscv64-unknown-elf-objdump", "-O2"),
    "qemu-rv64": (1, "riscv64-unknown-elf-objdump", "-Os"),
    "qemu-cortex-m3": (2, "arm-none-eabi-objdump", "-Os"),
    "qemu-cortex-m55": (2, "arm-none-eabi-objdump", "-O3"),
    "qemu-cortex-a53": (3, "aarch64-linux-gnu-objdump", "-O2"),
}

CONDITIONS = "eq|ne|cs|cc|mi|pl|vs|vc|hi|ls|ge|lt|gt|le|hs|lo"
BRANCHES = {
    0: r"j|b(eq|ne|lt|ge|ltu|geu|gt|le|gtu|leu)z?",
    2: rf"b({CONDITIONS})?(\.[nw])?|cbn?z|le|wls",
    3: rf"b|b\.({CONDITIONS}|al)|cbn?z|tbn?z",
}
ACCESSES = {
    0: r"l[bhwd]u?|s[bhwd]|(lr|sc|amo\w+)\..*|csr\w*|ecall|ebreak|mret|wfi",
    2: r"(ldr|str|ldm|stm|push|pop|svc|udf|bkpt|wfi|msr|mrs).*",
    3: r"(ld|st).*|svc|hlt|brk|msr|mrs|wfi|eret",
}


@dataclass(frozen=True)
class Instruction:
    address: int
    code: str
    mnemonic: str
    operands: str

    @property
    def target(self) -> int:
        """The address that a branch names; 0 if it names none."""
        found = re.search(r"([0-9a-f]+) <[^>]*>$", self.operands)
        return int(found[1], 16) if found else 0


def instructions(image: Path, objdump: str, isa: int) -> Iterator[Instruction]:
    done = subprocess.run([objdump, "-d", str(image)], capture_output=True, text=True, check=True)
    for line in done.stdout.splitlines():
        found = re.fullmatch(r" *([0-9a-f]+):\t([0-9a-f ]+?) *\t([\w.]+)\t?(.*)", line)
        if found is None or found[3].startswith("."):
            continue  # data
        words = found[2].split()
        little = [word[i : i + 2] for word in words for i in range(len(word) - 2, -2, -2)]
        operands = re.sub(r"\s*[;@#] .*|\s*//.*", "", found[4]).strip()
        yield Instruction(int(found[1], 16), " ".join(little), found[3], operands)
    del isa


def expected(isa: int, one: Instruction) -> tuple[set[int], int]:
    """The flows that an instruction may be, and its target."""
    name, operands = re.sub(rf"^(bl?x)({CONDITIONS})$", r"\1", one.mnemonic), one.operands
    family = 0 if isa < 2 else isa
    if re.fullmatch(BRANCHES[family], name):
        return {BRANCH}, one.target
    if name in ("jal", "bl"):
        return {CALL}, one.target
    if name in ("jalr", "blr", "blx"):
        return {CALL}, 0
    if name in ("mret", "sret", "eret"):
        return {RESUME}, 0
    if name == "ret" or (name in ("jr", "bx") and operands in ("ra", "t0", "lr")):
        return {RETURN}, 0
    if name in ("jr", "br", "bx", "tbb", "tbh"):
        return {INDIRECT}, 0
    writes_pc = isa == 2 and re.match(r"(pop|ldm).*pc\}|(mov|ldr).* pc,", f"{name} {operands}")
    return ({RETURN, INDIRECT} if writes_pc else {NEXT}), 0


def popped(one: Instruction) -> int | None:
    """The bytes that an instruction of a Cortex-M takes from the stack, None if computed."""
    name = one.mnemonic.removesuffix(".w")
    registers = re.search(r"\{(.*)\}", one.operands)
    moved = re.fullmatch(r"\w+, \[sp(?:, #(-?\d+)\]!|\], #(-?\d+))", one.operands)
    adjusted = re.fullmatch(r"sp, (?:sp, )?#(\d+)", one.operands)
    if registers and (name in ("push", "vpush") or one.operands.startswith("sp!")):
        is_push = name in ("push", "vpush") or name.startswith(("stm", "vstm"))
        return -_bytes(registers[1]) if is_push else _bytes(registers[1])
    if registers and name in ("pop", "vpop"):
        return _bytes(registers[1])
    if moved and name in ("str", "ldr"):
        return int(moved[1] or moved[2])
    if adjusted and name in ("add", "sub", "addw", "subw"):
        return int(adjusted[1]) if name.startswith("add") else -int(adjusted[1])
    return None if re.match(r"sp, ", one.operands) and name[:3] in ("mov", "add", "sub") else 0


def _bytes(registers: str) -> int:
    count = 0
    for part in registers.split(", "):
        first, _, last = part.partition("-")
        size = 8 if first.startswith("d") else 4
        count += size * (int(last[1:]) - int(first[1:]) + 1 if last else 1)
    return count


@pytest.fixture(scope="module")
def decoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("decoder") / "decode"
    recorder = runtime_dir() / "recorder"
    source = Path(__file__).parent / "fixtures" / "hotspots" / "decode.c"
    command = [requires_tool("gcc", "gcc"), "-std=c11", "-fsanitize=address,undefined", "-O1"]
    sources = [str(source), str(recorder / "bp_recorder.c")]
    subprocess.run([*command, f"-I{recorder}", *sources, "-o", str(program)], check=True)
    return program


@pytest.mark.parametrize("name", IMAGES)
def test_flow_and_target_are_those_of_the_disassembly(name: str, decoder: Path) -> None:
    isa, objdump, optimize = IMAGES[name]
    image = build(available(name), [WORKLOADS], BuildOptions(optimize)).image
    found = list(instructions(image, requires_tool(objdump, "binutils"), isa))
    lines = "".join(f"{each.address:x} {each.code}\n" for each in found)
    done = subprocess.run(
        [decoder, str(isa)], input=lines, capture_output=True, text=True, check=True
    )
    told = [line.split() for line in done.stdout.splitlines()]
    wrong, flows = [], set()
    for one, (flow, target, can_stop, pops) in zip(found, told, strict=True):
        wanted, to = expected(isa, one)
        flows.add(int(flow))
        if int(flow) not in wanted or (to and int(target, 16) != to):
            wrong.append((one, flow, target))
        if re.fullmatch(ACCESSES[0 if isa < 2 else isa], one.mnemonic) and can_stop != "1":
            wrong.append((one, "cannot stop", ""))
        bytes_popped = popped(one) if isa == 2 else 0
        if int(pops) != (2**31 - 1 if bytes_popped is None else bytes_popped):
            wrong.append((one, "pops", pops))
    assert wrong == []
    assert {NEXT, BRANCH, CALL, RETURN} <= flows
    assert len(found) > 3000
