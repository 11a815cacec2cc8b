/* SPDX-License-Identifier: Apache-2.0 */
/* Probes: what firmware does while it runs, recorded on the board. For C11 and C++11 with GCC or
 * Clang.
 *
 *     void control(void) {
 *         BP_RANGE_BEGIN(control);
 *         int32_t error = read_sensor() - target;
 *         BP_VALUE(error, error);
 *         BP_RANGE_END(control);
 *     }
 *
 * Nothing is recorded until the host asks for it (`boardprof trace`, `boardprof top`). Until then a
 * probe takes a few instructions. With BP_CFG_TRACE=0 it takes none, and its arguments are not
 * evaluated. A probe never waits and never calls the port, except for its clock.
 *
 * Names are written without quotes, as C identifiers. They are not in the image: a probe has a
 * number, and the host finds the name in the image's ELF file. The image has 4 bytes for each name,
 * by which the host knows whether the ELF file is the right one.
 *
 * Context: anywhere, interrupts too. See SPEC.md 5.12 for what is recorded. */

#ifndef BOARDPROF_BP_TRACE_H
#define BOARDPROF_BP_TRACE_H

#include <stddef.h>
#include <stdint.h>

#include "boardprof/bp_config.h"
#include "boardprof/bp_wire.h"

/* In a handler, the number of its interrupt: on Cortex-M that of the exception (16 and more: of an
 * interrupt of the NVIC), on RISC-V that of mcause; 0 on other cores. */
#if defined(__ARM_ARCH_PROFILE) && __ARM_ARCH_PROFILE == 'M'
#define BP_ISR_NUMBER()                                     \
    (__extension__({                                        \
        uint32_t bp_number;                                 \
        __asm__ volatile("mrs %0, ipsr" : "=r"(bp_number)); \
        bp_number;                                          \
    }))
#elif defined(__riscv)
#define BP_ISR_NUMBER()                                       \
    (__extension__({                                          \
        uintptr_t bp_cause;                                   \
        __asm__ volatile("csrr %0, mcause" : "=r"(bp_cause)); \
        (uint32_t)(bp_cause & 0xfffu);                        \
    }))
#else
#define BP_ISR_NUMBER() ((uint32_t)0)
#endif

/* What else the hooks of interrupts and tasks do. */
#ifdef __cplusplus
extern "C" {
#endif
#if BP_CFG_INTERRUPTS > 1
void bp_isr_enter(void);
void bp_isr_exit(void);
void bp_task_switched(const void *task);
#define BP_TRACE_ISR_ENTER() bp_isr_enter()
#define BP_TRACE_ISR_EXIT() bp_isr_exit()
#define BP_TRACE_TASK_SWITCHED(task) bp_task_switched(task)
#else
#define BP_TRACE_ISR_ENTER() ((void)0)
#define BP_TRACE_ISR_EXIT() ((void)0)
#define BP_TRACE_TASK_SWITCHED(task) ((void)sizeof(task))
#endif
#if BP_CFG_TASKS
extern const void *volatile bp_task_running; /* a recording begins with it */
#define BP_TRACE_TASK_RUNS(task) ((void)(bp_task_running = (task)))
#else
#define BP_TRACE_TASK_RUNS(task) ((void)0)
#endif
#ifdef __cplusplus
}
#endif

#if BP_CFG_TRACE

#ifdef __cplusplus
extern "C" {
#endif

/* What the host has asked for: enum bp_trace_flag; the sign is set for statistics alone. */
extern volatile uint32_t bp_tracing;

/* The trace clock has 32 bits, where a long time may pass without a look at it, too. A program of
 * this machine has 64 anyway. */
#if BP_CFG_TRACE_CLOCK == 1 && UINTPTR_MAX > UINT32_MAX
typedef uint64_t bp_trace_time_t;
#else
typedef uint32_t bp_trace_time_t;
#endif

/* Running statistics of one range, in ticks of the trace clock. */
typedef struct bp_slot {
    struct bp_slot *closed; /* this slot; NULL: the range is open, or was never entered */
    bp_trace_time_t start;
    uint32_t count;
    uint32_t least;
    uint32_t most;
    uint32_t limit; /* the least of `most` and 65535: what takes longer is rare, or long */
    uint32_t sum[2];
    uint32_t squares[2];
    struct bp_slot *next; /* of those in use, in the order in which they were entered; a circle */
    uint32_t lost;        /* passes that another one overlapped, or that took too long */
    uint16_t id;
    uint8_t depth; /* of passes that overlap */
    uint8_t flags; /* enum bp_trace_slot_flag; the upper half is for bp_trace.c */
} bp_slot_t;

/* The macros below call these. */
void bp_trace_mark(uintptr_t id);
void bp_trace_value(uintptr_t id, uint32_t value);
void bp_range_begin(uintptr_t id, bp_slot_t *slot, uint32_t tracing);
void bp_range_end(uintptr_t id, bp_slot_t *slot, uint32_t tracing);
void bp_trace_alloc(const void *block, size_t size, const void *caller);
#if UINTPTR_MAX > UINT32_MAX
void bp_trace_address(uintptr_t id, uintptr_t address);
#else
#define bp_trace_address(id, address) bp_trace_value((id), (uint32_t)(address))
#endif

#if BP_CFG_TRACE_HEAP
/* For a heap whose live memory is counted all the time, so that a recording knows what existed
 * before it. They record events as BP_ALLOC and BP_FREE do.
 *
 *   block   NULL: there was no memory
 *   bytes   that were asked for
 *   held    that the heap has set aside for the block; the same when it is given back
 *   caller  where the allocating function returns to; NULL if it is not known
 *
 * Call bp_heap_taken after the heap has given the block, and bp_heap_given before the heap takes it
 * back: then another task cannot get the block in between. */
void bp_heap_taken(const void *block, size_t bytes, size_t held, const void *caller);
void bp_heap_given(const void *block, size_t held);

/* A block is given back and another one taken, at once. They may be the same. */
void bp_heap_replaced(const void *old, size_t old_held, const void *block, size_t bytes,
                      size_t held, const void *caller);
#endif

#ifdef __cplusplus
}
#endif

/// Names ///

/* Each name is a symbol, and the symbol's value is its number. It stands in a section that is not
 * loaded, so that the section begins at address 0. Each name takes as many bytes of it as it needs
 * numbers. A second section has the names themselves in the same order, each one after a byte with
 * its kind. A name that several files use is linked once.
 *
 * A third section is loaded, and has 4 bytes for each name, in the same order: a hash of its kind
 * and letters. By it, the agent tells the host whether an ELF file has the names of its image. */
#if defined(__arm__) || defined(__aarch64__)
#define BP_TRACE_PROGBITS "%%progbits"
#else
#define BP_TRACE_PROGBITS "@progbits"
#endif

/* As if it were code: each linker script has a place for code, and the linker puts the section
 * after that. It might put constants after the vectors, where a board may deny reading. */
#define BP_TRACE_LOADED "axG"

#define BP_TRACE_SYMBOL(name) "bp_trace.%c[kind]." #name

/* Smaller numbers have no name. */
#define BP_TRACE_TEXT(number) #number
#define BP_TRACE_FROM(number) "+" BP_TRACE_TEXT(number)
#define BP_TRACE_NUMBER(name) BP_TRACE_SYMBOL(name) BP_TRACE_FROM(BP_TRACE_FIRST_NAME)

/* The assembler has no value of a letter that GNU's and LLVM's both take, so each has a symbol. */
#define BP_TRACE_LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"
#define BP_TRACE_DEFINE_LETTERS                 \
    ".ifndef .Lbp_letter.a\n"                   \
    ".set .Lbp_letters, 0\n"                    \
    ".irpc letter, " BP_TRACE_LETTERS "\n"      \
    ".set .Lbp_letters, .Lbp_letters + 1\n"     \
    ".set .Lbp_letter.\\letter, .Lbp_letters\n" \
    ".endr\n"                                   \
    ".endif\n"

#define BP_TRACE_HASH(name)                                                        \
    BP_TRACE_DEFINE_LETTERS                                                        \
    ".set .Lbp_hash, %c[kind]\n"                                                   \
    ".irpc letter, " #name "\n"                                                    \
    ".set .Lbp_hash, (.Lbp_hash * 16777619 + .Lbp_letter.\\letter) & 0xffffffff\n" \
    ".endr\n"                                                                      \
    ".4byte .Lbp_hash\n"

#define BP_TRACE_PUSH(name, section, flags)                     \
    ".pushsection " section ",\"" flags "\"," BP_TRACE_PROGBITS \
    "," BP_TRACE_SYMBOL(name) ",comdat\n"

#define BP_TRACE_DEFINE(name, numbers)                                                             \
    ".ifndef " BP_TRACE_SYMBOL(name) "\n" BP_TRACE_PUSH(                                           \
        name, "bp_trace_ids",                                                                      \
        "G") ".weak " BP_TRACE_SYMBOL(name) "\n"                                                   \
                                            ".hidden " BP_TRACE_SYMBOL(name) "\n" BP_TRACE_SYMBOL( \
                                                name) ":\n"                                        \
                                                      ".skip " #numbers "\n"                       \
                                                      ".popsection\n" BP_TRACE_PUSH(               \
                                                          name, "bp_trace_names",                  \
                                                          "G") ".byte %c[kind]\n"                  \
                                                               ".asciz \"" #name "\"\n"            \
                                                               ".popsection\n" BP_TRACE_PUSH(      \
                                                                   name, "bp_trace_check",         \
                                                                   BP_TRACE_LOADED)                \
                                                                   BP_TRACE_HASH(                  \
                                                                       name) ".popsection\n"       \
                                                                             ".endif\n"

/* One instruction loads the number. */
#if defined(__riscv)
#define BP_TRACE_LOAD(name) "addi %[id], zero, %%lo(" BP_TRACE_NUMBER(name) ")"
#define BP_TRACE_REGISTER "=r"
#elif defined(__AVR__)
#define BP_TRACE_LOAD(name)                        \
    "ldi %A[id], lo8(" BP_TRACE_NUMBER(name) ")\n" \
                                             "ldi %B[id], hi8(" BP_TRACE_NUMBER(name) ")"
#define BP_TRACE_REGISTER "=d"
#elif defined(__ARM_ARCH_6M__) || defined(__ARM_ARCH_8M_BASE__)
#define BP_TRACE_LOAD(name) \
    "ldr %[id], 1f\n b 2f\n .balign 4\n 1: .word " BP_TRACE_NUMBER(name) "\n 2:"
#define BP_TRACE_REGISTER "=l"
#elif defined(__arm__)
#define BP_TRACE_LOAD(name) "movw %[id], #:lower16:" BP_TRACE_NUMBER(name)
#define BP_TRACE_REGISTER "=r"
#elif defined(__aarch64__)
#define BP_TRACE_LOAD(name) "movz %[id], #:abs_g0_nc:" BP_TRACE_NUMBER(name)
#define BP_TRACE_REGISTER "=r"
#elif defined(__x86_64__)
/* A program is loaded at a multiple of a page, so the low 12 bits are the number's. */
#define BP_TRACE_LOAD(name) "leal " BP_TRACE_NUMBER(name) "(%%rip), %k[id]\n andl $0xfff, %k[id]"
#define BP_TRACE_REGISTER "=r"
#else
#error "probes know no instruction that loads a number on this architecture: set BP_CFG_TRACE=0"
#endif

#define BP_TRACE_ID(kind_, name, numbers)                          \
    (__extension__({                                               \
        uintptr_t bp_id;                                           \
        __asm__(BP_TRACE_DEFINE(name, numbers) BP_TRACE_LOAD(name) \
                : [id] BP_TRACE_REGISTER(bp_id)                    \
                : [kind] "i"(kind_));                              \
        bp_id;                                                     \
    }))

/* The slot of a range: one in an image, whichever files use the range. */
#if defined(__riscv)
#define BP_TRACE_BSS ".sbss"
#else
#define BP_TRACE_BSS ".bss"
#endif

#if defined(__arm__) || defined(__aarch64__)
#define BP_TRACE_NOBITS "%%nobits"
#else
#define BP_TRACE_NOBITS "@nobits"
#endif

#define BP_TRACE_DEFINE_SLOT(name)                                                               \
    ".ifndef bp_slot." #name "\n"                                                                \
    ".pushsection " BP_TRACE_BSS ".bp_slot." #name ",\"awG\"," BP_TRACE_NOBITS ",bp_slot." #name \
    ",comdat\n"                                                                                  \
    ".weak bp_slot." #name "\n"                                                                  \
    ".hidden bp_slot." #name "\n"                                                                \
    ".balign %c[align]\n"                                                                        \
    "bp_slot." #name ":\n"                                                                       \
    ".skip %c[size]\n"                                                                           \
    ".popsection\n"                                                                              \
    ".endif\n"
#define BP_TRACE_SLOT_SIZE [align] "i"(sizeof(void *)), [size] "i"(sizeof(bp_slot_t))

#if !defined(__cplusplus) || defined(__clang__)
#define BP_TRACE_SLOT(name)                                          \
    (__extension__({                                                 \
        extern bp_slot_t bp_slot_of_##name __asm__("bp_slot." #name) \
            __attribute__((visibility("hidden")));                   \
        __asm__(BP_TRACE_DEFINE_SLOT(name)::BP_TRACE_SLOT_SIZE);     \
        &bp_slot_of_##name;                                          \
    }))
#else
/* In a template, g++ forgets the symbol that a declaration names, so the address is loaded here. */
#if defined(__riscv)
#define BP_TRACE_ADDRESS(symbol) "lla %[slot], " symbol
#elif defined(__AVR__)
#define BP_TRACE_ADDRESS(symbol) "ldi %A[slot], lo8(" symbol ")\n ldi %B[slot], hi8(" symbol ")"
#elif defined(__ARM_ARCH_6M__) || defined(__ARM_ARCH_8M_BASE__)
#define BP_TRACE_ADDRESS(symbol) "ldr %[slot], 1f\n b 2f\n .balign 4\n 1: .word " symbol "\n 2:"
#elif defined(__arm__)
#define BP_TRACE_ADDRESS(symbol) \
    "movw %[slot], #:lower16:" symbol "\n movt %[slot], #:upper16:" symbol
#elif defined(__aarch64__)
#define BP_TRACE_ADDRESS(symbol) "adrp %[slot], " symbol "\n add %[slot], %[slot], :lo12:" symbol
#else
#define BP_TRACE_ADDRESS(symbol) "leaq " symbol "(%%rip), %[slot]"
#endif
#define BP_TRACE_SLOT(name)                                                   \
    (__extension__({                                                          \
        bp_slot_t *bp_slot;                                                   \
        __asm__(BP_TRACE_DEFINE_SLOT(name) BP_TRACE_ADDRESS("bp_slot." #name) \
                : [slot] BP_TRACE_REGISTER(bp_slot)                           \
                : BP_TRACE_SLOT_SIZE);                                        \
        bp_slot;                                                              \
    }))
#endif

/// Values ///

/* How a value is sent: its kind and its 32 bits. */
#ifdef __cplusplus
template <typename type> struct bp_probe {
    static_assert(sizeof(type) <= 4, "BP_VALUE takes integers of up to 32 bits, and float");
    enum { kind = type(-1) < type(0) ? BP_PROBE_I32 : BP_PROBE_U32 };
    static uint32_t bits(type value) {
        return (uint32_t)value;
    }
};
template <> struct bp_probe<float> {
    enum { kind = BP_PROBE_F32 };
    static uint32_t bits(float value) {
        uint32_t bits;
        __builtin_memcpy(&bits, &value, sizeof bits);
        return bits;
    }
};
/* Drops const, references and bit-fields. */
template <typename type> bp_probe<type> bp_probe_of(type);
#define BP_TRACE_KIND(value) (decltype(bp_probe_of(value))::kind)
#define BP_TRACE_BITS(value) (decltype(bp_probe_of(value))::bits(value))
#else
static inline uint32_t bp_float_bits(float value) {
    uint32_t bits;
    __builtin_memcpy(&bits, &value, sizeof bits);
    return bits;
}
static inline uint32_t bp_signed_bits(int32_t value) {
    return (uint32_t)value;
}
static inline uint32_t bp_integer_bits(uint32_t value) {
    return value;
}
/* Unsigned types of fewer bits than int stay unsigned; where int has 16 bits, so do longer ones. */
#define BP_TRACE_KIND(value)       \
    _Generic((value),              \
        float: BP_PROBE_F32,       \
        double: BP_PROBE_F32,      \
        signed char: BP_PROBE_I32, \
        short: BP_PROBE_I32,       \
        int: BP_PROBE_I32,         \
        long: BP_PROBE_I32,        \
        default: BP_PROBE_U32)
#define BP_TRACE_BITS(value)                                                                       \
    (__extension__({                                                                               \
        _Static_assert(sizeof(value) <= 4, "BP_VALUE takes integers of up to 32 bits, and float"); \
        _Generic((value),                                                                          \
            float: bp_float_bits,                                                                  \
            double: bp_float_bits,                                                                 \
            signed char: bp_signed_bits,                                                           \
            short: bp_signed_bits,                                                                 \
            int: bp_signed_bits,                                                                   \
            long: bp_signed_bits,                                                                  \
            default: bp_integer_bits)(value);                                                      \
    }))
#endif

/// Probes ///

/* Something happened. */
#define BP_MARK(name)                                           \
    do {                                                        \
        if ((bp_tracing & (uint32_t)BP_TRACE_EVENTS) != 0) {    \
            bp_trace_mark(BP_TRACE_ID(BP_PROBE_MARK, name, 1)); \
        }                                                       \
    } while (0)

/* A number: an integer of up to 32 bits, or a float. */
#define BP_VALUE(name, value)                                                                 \
    do {                                                                                      \
        if ((bp_tracing & (uint32_t)BP_TRACE_EVENTS) != 0) {                                  \
            bp_trace_value(BP_TRACE_ID(BP_TRACE_KIND(value), name, 1), BP_TRACE_BITS(value)); \
        }                                                                                     \
    } while (0)

/* A range begins and ends; both may be in different functions. Ranges nest. A pass that overlaps
 * another pass of the same range, in a recursion or another task, is in a trace but not in the
 * statistics, which count it as lost. */
#define BP_RANGE_BEGIN(name)                                                          \
    do {                                                                              \
        uint32_t bp_now_tracing = bp_tracing;                                         \
        if (bp_now_tracing != 0) {                                                    \
            bp_range_begin(BP_TRACE_ID(BP_PROBE_RANGE, name, 2), BP_TRACE_SLOT(name), \
                           bp_now_tracing);                                           \
        }                                                                             \
    } while (0)
#define BP_RANGE_END(name)                                                          \
    do {                                                                            \
        uint32_t bp_now_tracing = bp_tracing;                                       \
        if (bp_now_tracing != 0) {                                                  \
            bp_range_end(BP_TRACE_ID(BP_PROBE_RANGE, name, 2), BP_TRACE_SLOT(name), \
                         bp_now_tracing);                                           \
        }                                                                           \
    } while (0)

/* A range from here to the end of the block, however that is left.
 * Example: `BP_RANGE(filter);` */
#define BP_RANGE(name)                                                         \
    __attribute__((cleanup(bp_range_leave))) bp_range_t bp_range_of_##name = { \
        BP_TRACE_ID(BP_PROBE_RANGE, name, 2), BP_TRACE_SLOT(name)};            \
    bp_range_enter(&bp_range_of_##name)

typedef struct {
    uintptr_t id;
    bp_slot_t *slot;
} bp_range_t;

static inline void bp_range_enter(const bp_range_t *range) {
    uint32_t tracing = bp_tracing;
    if (tracing != 0) {
        bp_range_begin(range->id, range->slot, tracing);
    }
}
static inline void bp_range_leave(const bp_range_t *range) {
    uint32_t tracing = bp_tracing;
    if (tracing != 0) {
        bp_range_end(range->id, range->slot, tracing);
    }
}

/* An interrupt handler begins and ends: first and last in it. They replace bp_isr_enter and
 * bp_isr_exit, which they call.
 * Example: `void SysTick_Handler(void) { BP_ISR_ENTER(systick); tick(); BP_ISR_EXIT(systick); }` */
#define BP_ISR_ENTER(name)                                           \
    do {                                                             \
        if ((bp_tracing & (uint32_t)BP_TRACE_EVENTS) != 0) {         \
            bp_trace_mark(BP_TRACE_ID(BP_PROBE_INTERRUPT, name, 2)); \
        }                                                            \
        BP_TRACE_ISR_ENTER();                                        \
    } while (0)
#define BP_ISR_EXIT(name)                                                \
    do {                                                                 \
        BP_TRACE_ISR_EXIT();                                             \
        if ((bp_tracing & (uint32_t)BP_TRACE_EVENTS) != 0) {             \
            bp_trace_mark(BP_TRACE_ID(BP_PROBE_INTERRUPT, name, 2) + 1); \
        }                                                                \
    } while (0)

/* The same for a handler that knows only its number, such as one for all interrupts. */
#define BP_ISR_ENTER_NUMBER(number)                                       \
    do {                                                                  \
        if ((bp_tracing & (uint32_t)BP_TRACE_EVENTS) != 0) {              \
            bp_trace_value(BP_TRACE_INTERRUPT_ENTER, (uint32_t)(number)); \
        }                                                                 \
        BP_TRACE_ISR_ENTER();                                             \
    } while (0)
#define BP_ISR_EXIT_NUMBER()                                 \
    do {                                                     \
        BP_TRACE_ISR_EXIT();                                 \
        if ((bp_tracing & (uint32_t)BP_TRACE_EVENTS) != 0) { \
            bp_trace_mark(BP_TRACE_INTERRUPT_EXIT);          \
        }                                                    \
    } while (0)

/* The operating system switches to a task: any pointer that identifies it; NULL: to the scheduler,
 * or to idle. It replaces bp_task_switched, which it calls. */
#define BP_TASK_SWITCH(task)                                          \
    do {                                                              \
        const void *bp_next_task = (task);                            \
        BP_TRACE_TASK_RUNS(bp_next_task);                             \
        if ((bp_tracing & (uint32_t)BP_TRACE_EVENTS) != 0) {          \
            bp_trace_address(BP_TRACE_TASK, (uintptr_t)bp_next_task); \
        }                                                             \
        BP_TRACE_TASK_SWITCHED(bp_next_task);                         \
    } while (0)

/* Memory was taken from a heap, or given back. BP_ALLOC belongs into the allocating function: it
 * records where that returns to. If that function is inlined, this is where its caller returns to,
 * so declare it __attribute__((noinline)). */
#define BP_ALLOC(block, bytes)                                             \
    do {                                                                   \
        if ((bp_tracing & (uint32_t)BP_TRACE_EVENTS) != 0) {               \
            bp_trace_alloc((block), (bytes), __builtin_return_address(0)); \
        }                                                                  \
    } while (0)
#define BP_FREE(block)                                           \
    do {                                                         \
        if ((bp_tracing & (uint32_t)BP_TRACE_EVENTS) != 0) {     \
            bp_trace_address(BP_TRACE_FREE, (uintptr_t)(block)); \
        }                                                        \
    } while (0)

#else /* without BP_CFG_TRACE; only the hooks of BP_CFG_INTERRUPTS=2 are left */

#define BP_MARK(name) ((void)0)
#define BP_VALUE(name, value) ((void)sizeof(value))
#define BP_RANGE_BEGIN(name) ((void)0)
#define BP_RANGE_END(name) ((void)0)
#define BP_RANGE(name) ((void)0)
#define BP_ISR_ENTER(name) BP_TRACE_ISR_ENTER()
#define BP_ISR_EXIT(name) BP_TRACE_ISR_EXIT()
#define BP_ISR_ENTER_NUMBER(number) ((void)sizeof(number), BP_TRACE_ISR_ENTER())
#define BP_ISR_EXIT_NUMBER() BP_TRACE_ISR_EXIT()
#define BP_TASK_SWITCH(task) BP_TRACE_TASK_SWITCHED(task)
#define BP_ALLOC(block, bytes) ((void)sizeof(block), (void)sizeof(bytes))
#define BP_FREE(block) ((void)sizeof(block))

#endif

#endif
