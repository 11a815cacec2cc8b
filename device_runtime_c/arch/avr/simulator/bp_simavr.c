/* SPDX-License-Identifier: Apache-2.0 */
/* Simulates a board with a megaAVR: simavr's core, and its USART0 on a TCP connection.
 *
 *     bp_simavr DEVICE CLOCK_HZ IMAGE.elf PORT [--record PLAN | MARKS_FILE ADDRESS...]
 *
 * Connects to 127.0.0.1:PORT and ends when the other side closes. The line behaves like a real one:
 * a byte takes its time in both directions, and there is no flow control. The receiver keeps three
 * unread bytes, the last of them in its shift register (DS40002061, 20.8.5); further bytes are
 * lost. Time runs as fast as this machine allows, but while the core sleeps, no faster than real
 * time.
 *
 * Exit code 0, with a line that says where the core was. Exit code 3, with a line that says why, if
 * the core cannot continue: its stack has grown into the variables, it has jumped to or accessed an
 * address where nothing is, or nothing can wake it.
 *
 * With a plan, calls are recorded, see recorder/bp_recorder.h: instructions, and as "cycles" those
 * of the simulator. Nothing is pipelined: an instruction has all of its own.
 *
 * With marks: each time the core is about to execute an instruction at one of the addresses (bytes,
 * hexadecimal), a line "ADDRESS CYCLE" goes to the file, with the simulator's own cycle count. */

#define _GNU_SOURCE /* ppoll */

#include <arpa/inet.h>
#include <elf.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <avr_uart.h>
#include <sim_avr.h>
#include <sim_cycle_timers.h>
#include <sim_elf.h>

#include "bp_recorder.h"

enum {
    BP_LINE = 4096,  /* bytes on their way to the board */
    BP_POLL = 16384, /* cycles between two polls of the connection */
    BP_RECEIVER = 3, /* bytes that the USART holds */
    BP_WAIT_MS = 10000,
    BP_FLASH = 262144, /* bytes, at most */
    BP_VECTORS = 57,   /* of interrupts, at most: an ATmega2560's */
    BP_LAP = 128,      /* cycles between two checks of the stack: it can grow some 100 bytes */
    BP_CORE_ENDED = 3, /* exit code */
};

typedef struct {
    avr_t *avr;
    avr_uart_t *uart;
    avr_irq_t *input;
    int socket;
    unsigned variables_end; /* .noinit, and with it the arena, begins there */
    bool overrun;           /* the stack has grown into them */
    bool closed;
    bool sending; /* a byte is on the wire */
    uint8_t line[BP_LINE];
    size_t head, tail;
    uint8_t out[BP_LINE];
    size_t out_length;
} bp_sim_t;

static bp_sim_t bp_sim;
static FILE *bp_marks; /* NULL: no marks */

static _Noreturn void bp_die(const char *what, const char *detail) {
    fprintf(stderr, "bp_simavr: %s: %s\n", what, detail);
    exit(2);
}

/// The line ///

/* Marks first: whoever has an answer then also finds all marks that came before it. */
static void bp_flush(bp_sim_t *s) {
    if (bp_marks != NULL && s->out_length != 0) {
        fflush(bp_marks);
    }
    for (size_t sent = 0; sent < s->out_length && !s->closed;) {
        ssize_t n = send(s->socket, s->out + sent, s->out_length - sent, MSG_NOSIGNAL);
        if (n > 0) {
            sent += (size_t)n;
        } else if (errno == EAGAIN) {
            struct pollfd ready = {.fd = s->socket, .events = POLLOUT};
            (void)poll(&ready, 1, BP_WAIT_MS); /* then try again: the host may be at a breakpoint */
        } else if (errno != EINTR) {
            s->closed = true;
        }
    }
    s->out_length = 0;
}

static void bp_on_output(struct avr_irq_t *irq, uint32_t value, void *context) {
    bp_sim_t *s = context;
    (void)irq;
    s->out[s->out_length++] = (uint8_t)value;
    if (s->out_length == BP_LINE) {
        bp_flush(s);
    }
}

static size_t bp_unread(const avr_uart_t *uart) {
    size_t size = sizeof(uart->input.buffer) / sizeof(uart->input.buffer[0]);
    return (uart->input.write + size - uart->input.read) % size;
}

/* One byte has gone over the wire; the next begins at once. */
static avr_cycle_count_t bp_on_byte(avr_t *avr, avr_cycle_count_t when, void *context) {
    bp_sim_t *s = context;
    uint8_t byte = s->line[s->tail++ % BP_LINE];
    if (bp_unread(s->uart) < BP_RECEIVER) {
        avr_raise_irq(s->input, byte);
    } else {
        avr_regbit_set(avr, s->uart->dor);
    }
    s->sending = s->head != s->tail;
    return s->sending ? when + s->uart->cycles_per_byte : 0;
}

/* Take what has arrived from the host; wait for it up to `timeout_us`. The core sleeps for `asleep`
 * more cycles: what has arrived goes onto the wire when it has woken up. */
static void bp_look(bp_sim_t *s, uint32_t timeout_us, avr_cycle_count_t asleep) {
    size_t room = BP_LINE - (s->head - s->tail);
    bp_flush(s);
    if (room == 0 || s->closed) {
        return;
    }
    struct pollfd ready = {.fd = s->socket, .events = POLLIN};
    struct timespec limit = {.tv_nsec = (long)timeout_us * 1000};
    if (ppoll(&ready, 1, &limit, NULL) <= 0) {
        return;
    }
    size_t at = s->head % BP_LINE;
    size_t whole = BP_LINE - at < room ? BP_LINE - at : room;
    ssize_t n = recv(s->socket, s->line + at, whole, MSG_DONTWAIT);
    if (n > 0) {
        s->head += (size_t)n;
        if (!s->sending) {
            s->sending = true;
            avr_cycle_timer_register(s->avr, asleep + s->uart->cycles_per_byte, bp_on_byte, s);
        }
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        s->closed = true;
    }
}

static avr_cycle_count_t bp_on_poll(avr_t *avr, avr_cycle_count_t when, void *context) {
    (void)avr;
    bp_look(context, 0, 0);
    return when + BP_POLL;
}

/* The core sleeps for `cycles` cycles at most. */
static void bp_on_sleep(avr_t *avr, avr_cycle_count_t cycles) {
    uint64_t us = cycles * 1000000u / avr->frequency;
    bp_look(&bp_sim, bp_sim.sending ? 0 : (uint32_t)(us < 999999 ? us : 999999), cycles);
}

static int bp_connect(const char *port) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
    int on = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || connect(fd, (const struct sockaddr *)&to, sizeof(to)) != 0) {
        bp_die("cannot connect to the host", strerror(errno));
    }
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    return fd;
}

/// The board ///

static avr_uart_t *bp_find_uart(avr_t *avr) {
    for (avr_io_t *io = avr->io_port; io != NULL; io = io->next) {
        if (strcmp(io->kind, "uart") == 0 && ((avr_uart_t *)io)->name == '0') {
            return (avr_uart_t *)io;
        }
    }
    bp_die(avr->mmcu, "has no USART0");
}

/* simavr handles overruns by itself, but 64 bytes late. Flags 0: do not slow down code that polls.
 */
static void bp_wire(bp_sim_t *s) {
    uint32_t flags = 0;
    s->uart = bp_find_uart(s->avr);
    avr_ioctl(s->avr, AVR_IOCTL_UART_SET_FLAGS('0'), &flags);
    s->input = avr_io_getirq(s->avr, AVR_IOCTL_UART_GETIRQ('0'), UART_IRQ_INPUT);
    avr_irq_t *output = avr_io_getirq(s->avr, AVR_IOCTL_UART_GETIRQ('0'), UART_IRQ_OUTPUT);
    avr_irq_register_notify(output, bp_on_output, s);
    avr_cycle_timer_register(s->avr, BP_POLL, bp_on_poll, s);
    s->avr->sleep = bp_on_sleep;
}

/* simavr loads the sections .text and .data only. Load all that the image has for the flash. */
static void bp_load(avr_t *avr, const char *image) {
    FILE *file = fopen(image, "rb");
    Elf32_Ehdr head;
    if (file == NULL || fread(&head, sizeof head, 1, file) != 1) {
        bp_die(image, "cannot be read");
    }
    for (unsigned i = 0; i < head.e_phnum; i++) {
        Elf32_Phdr part;
        if (fseek(file, (long)(head.e_phoff + i * sizeof part), SEEK_SET) != 0 ||
            fread(&part, sizeof part, 1, file) != 1) {
            bp_die(image, "is truncated");
        }
        bool in_flash =
            part.p_paddr <= avr->flashend && part.p_filesz <= avr->flashend + 1u - part.p_paddr;
        if (part.p_type == PT_LOAD && in_flash &&
            (fseek(file, (long)part.p_offset, SEEK_SET) != 0 ||
             fread(avr->flash + part.p_paddr, 1, part.p_filesz, file) != part.p_filesz)) {
            bp_die(image, "is truncated");
        }
    }
    fclose(file);
}

static void bp_make(bp_sim_t *s, const char *device, uint32_t clock_hz, const char *image) {
    static elf_firmware_t firmware;
    (void)freopen("/dev/null", "w", stdout); /* the library prints what it loads */
    if (elf_read_firmware(image, &firmware) != 0) {
        bp_die(image, "is no firmware");
    }
    avr_t *avr = avr_make_mcu_by_name(device);
    if (avr == NULL) {
        bp_die(device, "is a device that simavr does not know");
    }
    avr_init(avr);
    avr_load_firmware(avr, &firmware);
    bp_load(avr, image);
    avr->frequency = clock_hz;
    avr->log = LOG_NONE;
    avr->run_cycle_limit = BP_LAP;
    s->avr = avr;
    s->variables_end = avr->ioend + 1u + firmware.datasize + firmware.bsssize;
}

static unsigned bp_stack(const avr_t *avr) {
    return avr->data[R_SPL] | (unsigned)avr->data[R_SPH] << 8;
}

/* Run for a lap; returns whether to go on. If the stack has grown into the agent's variables, no
 * useful result can follow. */
static bool bp_run(bp_sim_t *s) {
    int state = avr_run(s->avr);
    s->overrun = bp_stack(s->avr) < s->variables_end;
    return state != cpu_Done && state != cpu_Crashed && !s->overrun && !s->closed;
}

/// Marks ///

static uint8_t bp_marked[BP_FLASH / 16]; /* a bit for each word of flash */

static void bp_mark(const char *text) {
    unsigned long address = strtoul(text, NULL, 16);
    if (address >= BP_FLASH) {
        bp_die(text, "is beyond the flash");
    }
    bp_marked[address / 16] |= (uint8_t)(1u << address / 2 % 8);
}

static void bp_run_marked(bp_sim_t *s) {
    s->avr->run_cycle_limit = 1; /* one instruction at a time */
    do {
        uint32_t pc = s->avr->pc;
        if (s->avr->state == cpu_Running && (bp_marked[pc / 16] >> pc / 2 % 8 & 1) != 0) {
            fprintf(bp_marks, "%x %llu\n", (unsigned)pc, (unsigned long long)s->avr->cycle);
        }
    } while (bp_run(s));
}

/// Recording ///

/* Opcodes: Atmel's instruction set manual, 0856K. */
static bool bp_is_long(unsigned op) {
    return (op & 0xfe0fu) == 0x940eu || (op & 0xfe0fu) == 0x940fu || /* CALL */
           (op & 0xfe0fu) == 0x940cu || (op & 0xfe0fu) == 0x940du || /* JMP */
           (op & 0xfc0fu) == 0x9000u;                                /* LDS, STS */
}

static bool bp_skips(unsigned op) {
    return (op & 0xfc00u) == 0x1000u || (op & 0xfc08u) == 0xfc00u || /* CPSE; SBRC, SBRS */
           (op & 0xfd00u) == 0x9900u;                                /* SBIC, SBIS */
}

static unsigned bp_opcode(const avr_t *avr, uint32_t pc) {
    return avr->flash[pc] | (unsigned)avr->flash[pc + 1] << 8;
}

/* Sign-extend `bits` bits of words; returns bytes. */
static int32_t bp_offset(unsigned words, unsigned bits) {
    int32_t sign = 1 << (bits - 1);
    return 2 * (int32_t)(((int32_t)words & (2 * sign - 1)) ^ sign) - 2 * sign;
}

static bp_insn_t bp_decode(const avr_t *avr, uint32_t pc) {
    unsigned op = bp_opcode(avr, pc);
    bp_insn_t insn = {.address = pc, .length = bp_is_long(op) ? 4 : 2};
    uint32_t next = pc + insn.length;
    uint32_t far = ((op & 0x1f0u) << 13 | (op & 1u) << 16 | bp_opcode(avr, pc + 2)) * 2;
    if ((op & 0xfe0eu) == 0x940eu) {
        insn.flow = BP_FLOW_CALL;
        insn.target = far;
    } else if ((op & 0xf000u) == 0xd000u) { /* RCALL */
        insn.flow = BP_FLOW_CALL;
        insn.target = next + (uint32_t)bp_offset(op, 12);
    } else if (op == 0x9509u || op == 0x9519u) { /* ICALL, EICALL */
        insn.flow = BP_FLOW_CALL;
    } else if ((op & 0xfe0eu) == 0x940cu) {
        insn.flow = BP_FLOW_BRANCH;
        insn.target = far;
    } else if ((op & 0xf000u) == 0xc000u) { /* RJMP */
        insn.flow = BP_FLOW_BRANCH;
        insn.target = next + (uint32_t)bp_offset(op, 12);
    } else if (op == 0x9409u || op == 0x9419u) { /* IJMP, EIJMP */
        insn.flow = BP_FLOW_INDIRECT;
    } else if (op == 0x9508u) {
        insn.flow = BP_FLOW_RETURN;
    } else if (op == 0x9518u) {
        insn.flow = BP_FLOW_RESUME;
    } else if ((op & 0xf800u) == 0xf000u) { /* branches */
        insn.flow = BP_FLOW_BRANCH;
        insn.target = next + (uint32_t)bp_offset(op >> 3, 7);
    } else if (bp_skips(op)) {
        insn.flow = BP_FLOW_BRANCH;
        insn.target = next + (bp_is_long(bp_opcode(avr, next)) ? 4 : 2);
    }
    return insn;
}

static uint64_t bp_stack_now(void) {
    return bp_stack(bp_sim.avr);
}

static void bp_run_recorded(bp_sim_t *s, const char *plan) {
    static const char *const columns[] = {"cycles", NULL};
    static bp_block_t *blocks[BP_FLASH / 2];
    bp_recorder_t *recorder = bp_recorder_open(plan, columns);
    if (recorder == NULL) {
        exit(2);
    }
    for (unsigned i = 0; i < BP_VECTORS; i++) {
        bp_recorder_interrupt(recorder, (uint64_t)i * s->avr->vector_size); /* in bytes */
    }
    bp_recorder_core(recorder, (bp_core_t){.stack = bp_stack_now, .pushed = s->avr->address_size});
    s->avr->run_cycle_limit = 1; /* one instruction at a time */
    bool goes_on = true;
    while (goes_on) {
        uint32_t pc = s->avr->pc;
        avr_cycle_count_t before = s->avr->cycle;
        bool runs = s->avr->state == cpu_Running;
        if (runs && pc < BP_FLASH) {
            if (blocks[pc / 2] == NULL) {
                bp_insn_t insn = bp_decode(s->avr, pc);
                blocks[pc / 2] = bp_recorder_block(recorder, &insn, 1);
            }
            bp_recorder_arrive(recorder, blocks[pc / 2], 1);
        }
        goes_on = bp_run(s);
        bp_recorder_charge(recorder, 0, s->avr->cycle - before);
    }
    bp_recorder_close(recorder);
}

/// The end ///

/* Returns the exit code. */
static int bp_end(const bp_sim_t *s) {
    const avr_t *avr = s->avr;
    if (s->closed) {
        fprintf(stderr, "bp_simavr: ended at pc 0x%x\n", (unsigned)avr->pc);
        return 0;
    }
    fprintf(stderr, "bp_simavr: the core has come to its end at pc 0x%x: ", (unsigned)avr->pc);
    if (s->overrun) {
        fprintf(stderr, "its stack, at 0x%x, has grown into the variables, which end at 0x%x\n",
                bp_stack(avr), s->variables_end);
    } else if (avr->state == cpu_Done) {
        fputs("it sleeps, and its interrupts are off\n", stderr);
    } else {
        fputs("a jump or an access that leads nowhere\n", stderr);
    }
    return BP_CORE_ENDED;
}

int main(int argc, char **argv) {
    if (argc < 5) {
        bp_die("needs", "DEVICE CLOCK_HZ IMAGE.elf PORT [--record PLAN | MARKS_FILE ADDRESS...]");
    }
    bp_make(&bp_sim, argv[1], (uint32_t)strtoul(argv[2], NULL, 10), argv[3]);
    bp_sim.socket = bp_connect(argv[4]);
    bp_wire(&bp_sim);
    if (argc == 7 && strcmp(argv[5], "--record") == 0) {
        bp_run_recorded(&bp_sim, argv[6]);
        return bp_end(&bp_sim);
    }
    if (argc > 5) {
        bp_marks = fopen(argv[5], "w");
        if (bp_marks == NULL) {
            bp_die(argv[5], strerror(errno));
        }
        for (int i = 6; i < argc; i++) {
            bp_mark(argv[i]);
        }
        bp_run_marked(&bp_sim);
        return bp_end(&bp_sim);
    }
    while (bp_run(&bp_sim)) {
    }
    return bp_end(&bp_sim);
}
