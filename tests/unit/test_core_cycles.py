# SPDX-License-Identifier: Apache-2.0
"""Core cycles of assembled code, worked out by hand from Arm's manuals.

M0: DDI 0432C, table 3-1. M0+: DDI 0484C, table 3-1. M3: DDI 0337I, table 3-1 and 3.3.2. M4: 100166,
3.3. Where the manuals are silent, the tables in ``cycle_tables/`` name who measured it.

``2[1..3]`` is an estimate of 2 cycles that may be 1 to 3; ``2`` is known.
"""

from __future__ import annotations

import re
import subprocess
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from boardprof.measure.hotspots.core_cycles import CORES, CycleModel, Cycles, UnknownCostError
from boardprof.target.elf.addresses import disassembly
from tests.support import ROOT, requires_tool

M0, M0PLUS, M3, M4 = "cortex-m0", "cortex-m0plus", "cortex-m3", "cortex-m4"
V6M, V7M = (M0, M0PLUS), (M3, M4)

TARGETS = """
    .syntax unified
    .thumb
    .org 0x10
even: movs r0, r0
"""
TARGETS_V7M = (
    TARGETS
    + """
    .org 0x20
wide: add.w r0, r1, r2
    .org 0x32
odd: add.w r0, r1, r2
"""
)
EVEN, WIDE, ODD = 0x10, 0x20, 0x32
BLOCK = 0x80


@cache
def assembled(core: str, *codes: str) -> dict[int, str]:
    """Return the disassembly of pieces of code, each at the next multiple of ``BLOCK``."""
    assembler = requires_tool("arm-none-eabi-as", "binutils-arm-none-eabi")
    fpu = ["-mfpu=fpv4-sp-d16"] if core == M4 else []
    text = TARGETS_V7M if core in V7M else TARGETS
    for number, code in enumerate(codes, 1):
        text += f"    .org {number * BLOCK}\n{code}\nnop\n.pool\n"
    with TemporaryDirectory() as folder:
        source, output = Path(folder, "code.s"), Path(folder, "code.o")
        source.write_text(f"{text}    .balign 4\nudf #0\n")
        command = [assembler, f"-mcpu={core}", *fpu, "-o", str(output), str(source)]
        subprocess.run(command, check=True, capture_output=True)
        return disassembly(output, "arm-none-eabi-objdump")


def pieces(core: str, *codes: str) -> Iterator[tuple[CycleModel, list[int]]]:
    """Yield a model and the addresses of the instructions of each piece of code."""
    texts = assembled(core, *codes)
    model = CycleModel(core, texts)
    for number, code in enumerate(codes, 1):
        addresses = sorted(address for address in texts if address >= number * BLOCK)
        yield model, addresses[: code.count(";") + 1]


def costs(core: str, *codes: str) -> list[str]:
    """Return what the instructions of each piece cost that runs in a straight line."""
    return [
        " ".join(map(shown, model.straight(addresses, None)))
        for model, addresses in pieces(core, *codes)
    ]


def taken(core: str, *codes: str, target: int = EVEN) -> list[str]:
    """Return what the last instruction of each piece costs if it goes to a target."""
    return [
        shown(model.straight(addresses, None)[-1] + model.leaving(addresses[-1], target))
        for model, addresses in pieces(core, *codes)
    ]


def shown(cycles: Cycles) -> str:
    if cycles.low == cycles.high:
        return str(cycles.point)
    return f"{cycles.point}[{cycles.low}..{cycles.high}]"


def check(rows: str, cores: tuple[str, ...]) -> None:
    """Check rows of ``code | costs``, or ``code | costs on the first core | on the second``."""
    lines = [[*map(str.strip, row.split("|"))] for row in rows.splitlines() if row.strip()]
    codes = [code for code, *_ in lines]
    for number, core in enumerate(cores):
        wanted = [expected[number if len(expected) > 1 else 0] for _, *expected in lines]
        assert dict(zip(codes, costs(core, *codes), strict=True)) == dict(
            zip(codes, wanted, strict=True)
        )


def test_instructions_of_an_m0_and_m0plus_cost_what_the_manual_says() -> None:
    check(
        """
        movs r0, #1; mov r8, r0; adds r0, #4; adcs r0, r1; subs r0, r1; cmp r0, r1 | 1 1 1 1 1 1
        ands r0, r1; mvns r0, r1; tst r0, r1; lsls r0, r1, #2; rors r0, r1; rev r0, r1 | 1 1 1 1 1 1
        uxtb r0, r1; sxth r0, r1; muls r0, r1; nop; sev; add sp, #8; cpsid i | 1 1 1 1 1 1 1
        ldr r0, [r1]; ldrb r0, [r1, r2]; ldr r0, =0x12345678; ldrsh r0, [r1, r2] | 2 2 2 2
        str r0, [r1]; strh r0, [r1, #2]; strb r0, [r1, r2]; ldr r0, [r1] | 2 2 2 2
        ldmia r0!, {r1, r2, r3}; stmia r0!, {r1}; push {r4, lr}; pop {r4, r5, r6} | 4 2 3 4
        mrs r0, primask; msr primask, r0; dsb; dmb; isb | 4 4 4 4 4 | 3 3 3 3 3
        bls .+4; bne .+4 | 1 1
        """,
        V6M,
    )


def test_a_branch_of_an_m0_and_m0plus_costs_what_the_manual_says() -> None:
    branches = ["b even", "bls even", "bl even", "bx lr", "blx r3", "mov pc, r0", "add pc, r0"]
    assert taken(M0, *branches) == ["3", "3", "4", "3", "3", "3", "3"]
    assert taken(M0PLUS, *branches) == ["2", "2", "3", "2", "2", "2", "2"]
    # "Pop and return": 4 + N on the M0, 3 + N on the M0+.
    returns = ["pop {pc}", "pop {r4, r5, pc}"]
    assert taken(M0, *returns) == ["5", "7"]
    assert taken(M0PLUS, *returns) == ["4", "6"]


def test_instructions_of_an_m3_and_m4_cost_what_the_manual_says() -> None:
    check(
        """
        movw r0, #999; movt r0, #9; add r0, r1, r2, lsl #3; rsbs r0, r1, #0; rrx r0, r1 | 1 1 1 1 1
        ubfx r0, r1, #2, #3; bfi r0, r1, #2, #3; rbit r0, r1; clz r0, r1; mul r0, r1, r2 | 1 1 1 1 1
        ssat r0, #3, r1; muls r0, r1, r0; bics r0, r1; lsls r0, r1; teq r0, r1 | 1 1 1 1 1
        mla r0, r1, r2, r3; mls r0, r1, r2, r3 | 2 2 | 1 1
        umull r0, r1, r2, r3; smull r0, r1, r2, r3 | 5[3..5] 5[3..5] | 1 1
        umlal r0, r1, r2, r3; smlal r0, r1, r2, r3 | 7[4..7] 7[4..7] | 1 1
        udiv r0, r1, r2; sdiv r0, r1, r2 | 7[2..12] 7[2..12]
        ldr r0, [r1] | 2
        ldrd r0, r1, [r2] | 3
        strd r0, r1, [r2] | 3[2..3]
        ldrex r0, [r1]; strex r0, r1, [r2]; clrex | 2[1..2] 2[1..2] 1
        ldmia r0!, {r1, r2, r3}; add r0, r1 | 4 1
        push {r4-r11, lr}; pop {r4-r11, lr} | 10 11[10..11]
        str r0, [r1] | 1
        str r0, [r1, r2]; add r0, r1 | 2 1
        mrs r0, primask; msr primask, r0; cpsid i | 1[1..2] 1[1..2] 1[1..2]
        dsb | 1[1..4]
        bls even; cbz r0, 1f; nop; 1: nop | 1[1..2] 1[1..2] 1 1
        """,
        V7M,
    )


def test_a_dsp_instruction_costs_one_cycle_on_an_m4_only() -> None:
    code = "umaal r0, r1, r2, r3; smlad r0, r1, r2, r3; uadd8 r0, r1, r2; sel r0, r1, r2"
    assert costs(M4, code) == ["1 1 1 1"]


def test_loads_in_a_row_are_pipelined_unless_an_address_depends_on_the_one_before() -> None:
    check(
        """
        ldr r0, [r1]; ldr r2, [r3] | 2 1[1..2]
        ldr r0, [r1, r5]; ldr r1, [r2]; ldr r2, [r3, #4] | 2 1[1..2] 1[1..2]
        ldr r0, [r1]; ldr r2, [r0] | 2 2
        ldr r0, [r1]; ldr r2, [r3, r0, lsl #2] | 2 2
        ldr r0, [r1]; adds r4, r5; ldr r2, [r3] | 2 1 2
        ldr r0, [r1]; ldrd r2, r3, [r4] | 2 3
        ldr r0, [r1]; ldmia r4!, {r2, r3} | 2 3
        ldr r0, [r1], #4; ldr r2, [r1], #4 | 2 2
        ldr r0, [r1]; ldr r2, [r3], #4 | 2 2[1..2] | 2 1[1..2]
        ldr r0, [r1], #4; ldr r2, [r3] | 2 1[1..2]
        ldr r0, =0x12345678; ldr r1, =0x23456789 | 2[2..3] 1[1..3]
        ldr r0, =0x12345678; ldr r1, [r2] | 2[2..3] 2[1..2]
        ldr r0, [r1]; nop; nop | 2 0[0..1] 1
        """,
        V7M,
    )


def test_a_store_hides_behind_a_load_and_delays_the_load_after_it() -> None:
    check(
        """
        ldr r0, [r1]; str r0, [r2, #20] | 2 0[0..1]
        ldr r0, [r1, r2]; str r1, [r3, r2] | 2 1[1..2]
        ldr r0, [r1]; str r3, [r0] | 2 1
        ldr r0, [r1]; str r3, [r2], #4 | 2 1[0..1] | 2 0[0..1]
        str r0, [r1]; ldr r2, [r3] | 1 3[2..3]
        str r0, [r1]; str r2, [r3] | 1 1[1..2]
        str r0, [r1]; ldmia r2!, {r3, r4} | 1 4[3..4]
        str r0, [r1]; ldrd r2, r3, [r4] | 1 4[3..4]
        str r0, [r1]; stmia r2!, {r3, r4} | 1 3
        str r0, [r1]; adds r4, r5; ldr r2, [r3] | 1 1 2
        str r0, [r1, r2]; nop | 2 0[0..1]
        str r0, [r1], #4; str r2, [r1], #4 | 1 2[1..3]
        """,
        V7M,
    )


def test_an_address_that_was_just_computed_costs_a_cycle() -> None:
    check(
        """
        adds r1, #4; ldr r0, [r1] | 1 3[2..3]
        adds r1, #4; adds r2, #4; ldr r0, [r1] | 1 1 2
        adds r1, #4; str r0, [r1] | 1 2[1..2]
        adds r2, #4; str r0, [r1, r2] | 1 3[2..3]
        sub sp, #16; push {r0, r1} | 1 4[3..4]
        adds r0, #4; str r0, [r1] | 1 1
        cmp r1, r2; ldr r0, [r1] | 1 2
        """,
        V7M,
    )


def test_it_is_folded_onto_a_short_instruction_and_its_conditions_may_be_false() -> None:
    check(
        """
        cmp r0, #0; it eq; moveq r0, #1 | 1 0[0..1] 1
        cmp.w r0, #0; it eq; moveq r0, #1 | 1 1 1
        cmp r0, #0; itt ls; ldrls r0, [r1]; addls r0, #1 | 1 0[0..1] 2[1..2] 1
        adds r1, #4; it ne; ldrne r0, [r1] | 1 0[0..1] 3[1..3]
        """,
        V7M,
    )


def test_three_wide_instructions_at_odd_half_words_may_wait_for_their_fetch() -> None:
    adds = "; ".join(["add.w r0, r1, r2"] * 4)
    check(
        f"""
        ldmia r0!, {{r1, r2}}; {adds} | 3 1 1 2[1..2] 1
        ldmia.w r0, {{r1, r2}}; {adds} | 3 1 1 1 1
        push {{r1, r2}}; {adds} | 3 1 1 2[1..2] 1
        ldr r0, [r1]; {adds} | 2 1 1 1[1..2] 1
        movs r0, #1; {adds} | 1 1 1 1[1..2] 1
        movs r0, #1; movs r1, #1; {adds} | 1 1 1 1 1 1
        """,
        V7M,
    )


def test_a_taken_branch_refills_the_pipeline_and_is_late_for_a_wide_target_between_words() -> None:
    branches = {  # 1 + P, where P is 1 to 3; 1 if the target is known early
        "b.w even": "2[2..4]",
        "bl even": "2[2..4]",
        "bls even": "2[2..4]",
        "cbz r0, .+4": "2[2..4]",
        "bx lr": "3[2..4]",
        "blx r3": "3[2..4]",
        "mov pc, r3": "3[2..4]",
        "ldr pc, [r1]": "5[3..5]",  # "at least five"
        "pop {r4, pc}": "5[4..6]",  # 1 + N + P
        "ldmia.w sp!, {r4-r7, pc}": "8[7..9]",
        "tbb [pc, r0]": "6[3..6]",  # 2 + P, and "at least six"
    }
    to_odd = {"bl odd": "3[2..4]", "bx lr": "4[2..4]", "pop {pc}": "5[3..5]"}
    for core in V7M:
        assert dict(zip(branches, taken(core, *branches), strict=True)) == branches
        assert taken(core, "bx lr", target=WIDE) == ["3[2..4]"]
        assert dict(zip(to_odd, taken(core, *to_odd, target=ODD), strict=True)) == to_odd


def test_a_return_under_a_condition_costs_one_cycle_if_it_is_not_taken() -> None:
    pop, bx = "cmp r0, #0; it eq; popeq {r4, pc}", "cmp r0, #0; it eq; bxeq lr"
    for core in V7M:
        assert costs(core, pop) == ["1 0[0..1] 1[1..2]"]
        assert taken(core, pop, bx) == ["5[4..6]", "3[2..4]"]


def test_float_instructions_wait_for_the_result_right_before_them() -> None:
    check(
        """
        vadd.f32 s0, s1, s2; vmul.f32 s3, s4, s5; vcvt.s32.f32 s6, s7; vcmp.f32 s1, s2 | 1 1 1 1
        vadd.f32 s0, s1, s2; vmul.f32 s3, s0, s5 | 1 2[1..2]
        vadd.f32 s0, s1, s2; vstr s0, [r0] | 1 3[1..3]
        vmul.f32 s0, s1, s2; vfma.f32 s0, s4, s5 | 1 3[3..4]
        vmul.f32 s0, s1, s2; vfma.f32 s3, s0, s5 | 1 4[3..4]
        vmla.f32 s0, s1, s2; vfms.f32 s3, s4, s5 | 3 3
        vdiv.f32 s0, s1, s2; vsqrt.f32 s3, s4 | 14[1..14] 14[1..14]
        vldr s0, [r0]; vldr d1, [r0]; vstr s1, [r0]; vstr d2, [r0] | 2[1..2] 3[2..3] 2[1..2] 3[2..3]
        vldmia r0!, {s0-s2}; vpush {d8-d9}; vpop {d8-d9} | 4 5 6[5..6]
        vmov r0, s1; vmov s1, r0; vmov r0, r1, s2, s3; vmov d0, r0, r1; vmrs r0, fpscr | 1 1 2 2 1
        """,
        (M4,),
    )


def test_every_third_float_instruction_at_an_odd_half_word_waits() -> None:
    adds = "; ".join(f"vadd.f32 s{n}, s30, s31" for n in range(7))
    found = costs(M4, f"nop; {adds}", f"nop; nop; {adds}")
    assert found == ["1 1 1 2[1..2] 1 1 2[1..2] 1", "1 1 1 1 1 1 1 1 1"]


def test_a_block_that_is_fallen_into_goes_on_with_the_line_before_it() -> None:
    texts = assembled(M3, "ldr r0, [r1]; ldr r2, [r3]; bne even; ldr r4, [r5]")
    model = CycleModel(M3, texts)
    first, second, branch, last = 0x80, 0x82, 0x84, 0x86
    assert shown(*model.straight([second], first)) == "1[1..2]"
    assert shown(*model.straight([second], branch)) == "2"
    assert shown(*model.straight([second], None)) == "2"
    assert shown(*model.straight([last], branch)) == "2"
    assert model.leaving(first, second) == model.leaving(branch, last) == Cycles(0, 0, 0)
    assert model.leaving(first, None) == Cycles(0, 0, 0)


@pytest.mark.parametrize(
    ("core", "code", "named"),
    [
        (M0, "wfi", "wfi"),
        (M0PLUS, "svc #1", "svc 1"),
        (M3, "bkpt #3", "bkpt 0x0003"),
        (M3, "udf #2", "udf #2"),
        (M3, ".inst.w 0xfbe20163", "umaal r0, r1, r2, r3"),
        (M4, "pld [r0]", "pld [r0]"),
        (M4, ".inst.w 0xee300b01", "vadd.f64 d0, d0, d1"),
        (M4, ".word 0x12345678", ".word 0x12345678"),
    ],
)
def test_an_instruction_without_a_cost_is_named_with_its_address(
    core: str, code: str, named: str
) -> None:
    with pytest.raises(UnknownCostError) as error:
        costs(core, code)
    assert str(error.value) == f"{named!r} at 0x80 has no cost on {core}."


def test_what_is_no_branch_goes_elsewhere_only_by_an_exception() -> None:
    model = CycleModel(M0, assembled(M0, "ldr r0, [r1]"))
    with pytest.raises(UnknownCostError, match=r"at 0x80 goes to 0x0, so an exception interrupts"):
        model.leaving(0x80, 0)
    with pytest.raises(UnknownCostError, match=r"no instruction at 0x666"):
        model.straight([0x666], None)


def test_a_core_without_a_table_is_refused_by_name() -> None:
    with pytest.raises(UnknownCostError, match="No table of cycles for 'cortex-m7'"):
        CycleModel("cortex-m7", {})


def test_cycles_add_up_and_can_be_multiplied() -> None:
    assert Cycles(2, 1, 3) * 10 + Cycles(1, 1, 1) == Cycles(21, 11, 31)


def test_each_line_of_a_table_names_its_source() -> None:
    folder = ROOT / "host/boardprof/measure/hotspots/cycle_tables"
    assert sorted(file.stem for file in folder.iterdir()) == sorted(CORES)
    for file in folder.iterdir():
        text = file.read_text("utf-8")
        lines = [line for part in tomllib.loads(text).values() for line in part.values()]
        # A manual with its section, or a name that the file's beginning explains.
        section = r"table|3\.3\.2|3\.3, load|FPU"
        named = re.compile(rf"DDI 0\d{{3}}\w, table|TRM, (?:{section})|Arm KA\d+|\b[JCK]\b")
        assert [line for line in lines if not named.search(line["source"])] == []
