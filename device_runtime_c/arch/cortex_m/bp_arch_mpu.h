/* SPDX-License-Identifier: Apache-2.0 */
/* Memory protection: code cannot be written, NULL and the memory below the stack cannot be
 * accessed.
 *
 * In PMSAv7 (ARMv7-M ARM, DDI 0403, B3.5; the same in ARMv6-M, DDI 0419) a region can deny access.
 * In PMSAv8 (ARMv8-M ARM, DDI 0553, B9.3) it cannot: there the regions list what is allowed, and
 * everything else is denied. The port of a core without an MPU does not call bp_arch_protect. Code
 * at the priority of HardFault or NMI is not restricted, and neither are the core's reads of
 * vectors. */

#ifndef BP_ARCH_MPU_H
#define BP_ARCH_MPU_H

#include <stddef.h>
#include <stdint.h>

#define BP_MPU_CTRL (*(volatile uint32_t *)0xe000ed94u)
#define BP_MPU_CTRL_ENABLE (1u << 0)
#define BP_MPU_CTRL_PRIVDEFENA (1u << 2) /* outside of all regions: the default memory map */
#define BP_MPU_RNR (*(volatile uint32_t *)0xe000ed98u)
#define BP_MPU_RBAR (*(volatile uint32_t *)0xe000ed9cu)

/* Defined by link.ld: a denied range below the stack, whose size is a power of two and which is
 * aligned to its size. */
extern const char bp_text_start[], bp_text_end[], bp_data_start[];
extern const char bp_stack_guard_start[], bp_stack_guard_end[], bp_stack_top[];

#if defined(__ARM_ARCH_8M_BASE__) || defined(__ARM_ARCH_8M_MAIN__) || \
    defined(__ARM_ARCH_8_1M_MAIN__)

/* Defined by the linker if the functions' code has nested functions, whose addresses are code on
 * the stack. */
extern const char bp_stack_executes[] __attribute__((weak));

#define BP_MPU_RLAR (*(volatile uint32_t *)0xe000eda0u)
#define BP_MPU_MAIR0 (*(volatile uint32_t *)0xe000edc0u)

/* MPU_RBAR's low bits (D1.2.179): AP and XN. MPU_RLAR's: the index into MAIR, and EN. */
#define BP_MPU_CODE (6u)      /* AP 3: read-only */
#define BP_MPU_DATA (2u | 1u) /* AP 1: read and write; XN */
#define BP_MPU_ANY (2u)       /* the same, but code can be executed */
#define BP_MPU_MEMORY (0u << 1 | 1u)
#define BP_MPU_DEVICE (1u << 1 | 1u)

static inline void bp_mpu_allow(uint32_t number, uintptr_t start, uintptr_t end, uint32_t access,
                                uint32_t kind) {
    BP_MPU_RNR = number;
    BP_MPU_RBAR = (uint32_t)(start & ~(uintptr_t)31) | access;
    BP_MPU_RLAR = (uint32_t)((end - 1) & ~(uintptr_t)31) | kind;
}

/* Devices are in the half of the default memory map that belongs to the SoC. */
static inline void bp_arch_protect(uintptr_t rom, uint32_t rom_bytes) {
    (void)rom, (void)rom_bytes;
    BP_MPU_MAIR0 = 0xaau; /* 0: normal, write-through; 1: device, nGnRnE */
    bp_mpu_allow(0, (uintptr_t)bp_text_start, (uintptr_t)bp_text_end, BP_MPU_CODE, BP_MPU_MEMORY);
    bp_mpu_allow(1, (uintptr_t)bp_data_start, (uintptr_t)bp_stack_guard_start, BP_MPU_DATA,
                 BP_MPU_MEMORY);
    bp_mpu_allow(2, (uintptr_t)bp_stack_guard_end, (uintptr_t)bp_stack_top,
                 bp_stack_executes != NULL ? BP_MPU_ANY : BP_MPU_DATA, BP_MPU_MEMORY);
    bp_mpu_allow(3, 0x40000000u, 0x60000000u, BP_MPU_DATA, BP_MPU_DEVICE);
#if BP_CFG_TRACE_AT
    bp_mpu_allow(4, BP_CFG_TRACE_AT, BP_CFG_TRACE_AT + BP_CFG_TRACE, BP_MPU_DATA, BP_MPU_MEMORY);
#endif
    BP_MPU_CTRL = BP_MPU_CTRL_ENABLE;
    __asm__ volatile("dsb\n isb" ::: "memory");
}

#else

#define BP_MPU_RASR (*(volatile uint32_t *)0xe000eda0u)

/* MPU_RASR (B3.5.9). The code is normal memory, write-through. */
#define BP_MPU_NOTHING (1u << 28)              /* XN, and AP 0: no access */
#define BP_MPU_READ_ONLY (6u << 24 | 1u << 17) /* AP 6, and C */

/* `bytes` is a power of two, and `base` a multiple of it. Where regions overlap, the highest number
 * wins. */
__attribute__((noinline, unused)) static void bp_mpu_region(uint32_t number, uintptr_t base,
                                                            uint32_t bytes, uint32_t access) {
    uint32_t size = 4; /* 2^(size + 1) bytes, at least 32 */
    while (2u << size < bytes) {
        size++;
    }
    BP_MPU_RNR = number;
    BP_MPU_RBAR = (uint32_t)base;
    BP_MPU_RASR = access | size << 1 | 1u; /* ENABLE */
}

/* The first page, which contains NULL, has only the vectors or nothing (bp_sections.ld). If
 * `rom_bytes` is 0, the code is in RAM and stays writable. */
static inline void bp_arch_protect(uintptr_t rom, uint32_t rom_bytes) {
    if (rom_bytes != 0) {
        bp_mpu_region(0, rom, rom_bytes, BP_MPU_READ_ONLY);
    }
    bp_mpu_region(1, 0, 4096, BP_MPU_NOTHING);
    bp_mpu_region(2, (uintptr_t)bp_stack_guard_start,
                  (uint32_t)(bp_stack_guard_end - bp_stack_guard_start), BP_MPU_NOTHING);
    BP_MPU_CTRL = BP_MPU_CTRL_PRIVDEFENA | BP_MPU_CTRL_ENABLE;
    __asm__ volatile("dsb\n isb" ::: "memory");
}

#endif

#endif
