// SPDX-License-Identifier: Apache-2.0
// Steps rp2040js's core, and mends what its instructions lack: faults, three flags, cycles.
//
// ARMv6-M ARM (DDI 0419): instructions A6.7, exceptions B1.5. Cycles: Cortex-M0+ TRM (DDI 0484C),
// table 3-1 and "interrupt latency", 3.4 (zero wait states).

import {FAULT, Memory, RAM, RAM_BYTES} from "./memory.mjs";
import {SysTick} from "./systick.mjs";

const ENTRY_CYCLES = 15; // of an exception
const HARD_FAULT = 3, NMI = 2;

// Opcodes that need more than rp2040js does.
const PLAIN = 0, PUSH_POP = 1, STM = 2, LDM = 3, SHIFT = 4, ADC = 5, SBC = 6, BLX = 7, SVC = 8;

function kindOf(op) {
    if (op >>> 8 === 0xb5 || op >>> 8 === 0xbd) { // PUSH with LR, POP with PC
        return PUSH_POP;
    }
    if (op >>> 11 === 0x18) {
        return STM;
    }
    if (op >>> 11 === 0x19) {
        return LDM;
    }
    if ([0x102, 0x103, 0x104, 0x107].includes(op >>> 6)) { // LSLS, LSRS, ASRS, RORS by register
        return SHIFT;
    }
    if (op >>> 6 === 0x105) {
        return ADC;
    }
    if (op >>> 6 === 0x106) {
        return SBC;
    }
    if ((op & 0xff87) === 0x4780) {
        return BLX;
    }
    return op >>> 8 === 0xdf ? SVC : PLAIN;
}

const KINDS = Uint8Array.from({length: 65536}, (_, op) => kindOf(op));

// The core cannot go on.
export class Lockup extends Error {}

export class Processor {
    constructor(chip) {
        this.chip = chip;
        this.core = chip.core;
        this.systick = new SysTick(chip.core);
        this.memory = new Memory(chip, this.systick);
        this.instructions = 0; // that were executed to their end
        this.isAsleep = false;
        this.onInstruction = null; // (address, cycles, stack pointer, exception number)
        this.#code = new Uint16Array(chip.sram.buffer);
        this.#cycle_ns = 1e9 / chip.clkSys;
        chip.addClockListener((hz) => {
            this.#cycle_ns = 1e9 / hz;
        });
        chip.onBreak = () => { // BKPT and UDF
            throw FAULT;
        };
        const {core} = chip;
        const branch = core.BXWritePC.bind(core);
        core.BXWritePC = (address) => {
            const isReturn = address >>> 28 === 15 && core.IPSR !== 0;
            this.#isThumb = isReturn || (address & 1) !== 0;
            branch(address);
        };
    }

    #code;
    #cycle_ns;
    #isThumb = true; // false: an even address was the target of a jump
    // As they were before the instruction:
    #pc = 0;
    #stack = 0;
    #base = -1; // LDM's; -1: it is another instruction

    // Execute `count` instructions, or fewer if the core falls asleep or `shouldStop` says so.
    run(count, shouldStop) {
        const end = this.instructions + count;
        while (this.instructions < end && !this.isAsleep && !shouldStop()) {
            try {
                this.#runPlain(end, shouldStop);
            } catch (error) {
                if (error !== FAULT) {
                    throw error;
                }
                this.#fault();
            }
        }
    }

    #runPlain(end, shouldStop) {
        const {chip, core, systick} = this;
        const {clock} = chip;
        while (this.instructions < end && !this.isAsleep && !shouldStop()) {
            const before = core.cycles;
            if (core.interruptsUpdated) {
                this.#takeInterrupts();
            }
            this.#step();
            this.instructions++;
            clock.tick((core.cycles - before) * this.#cycle_ns);
            if (core.cycles >= systick.due) {
                systick.fire();
            }
        }
    }

    #step() {
        const {core} = this;
        const {registers} = core;
        const before = core.cycles;
        const pc = registers[15];
        this.#pc = pc;
        this.#stack = registers[13];
        this.#base = -1;
        if (pc - RAM >>> 0 >= RAM_BYTES || !this.#isThumb) { // devices are not executable
            throw FAULT;
        }
        const exception = core.IPSR;
        const op = this.#code[(pc - RAM) >> 1];
        if (KINDS[op] === PLAIN) {
            core.executeInstruction();
        } else {
            this.#mended(op);
        }
        if (core.waiting) {
            core.waiting = false;
            this.isAsleep = true;
        }
        if (this.onInstruction !== null) {
            this.onInstruction(pc, core.cycles - before, this.#stack, exception);
        }
    }

    #mended(op) {
        const {core} = this;
        const {registers} = core;
        switch (KINDS[op]) {
        case PUSH_POP:
            core.executeInstruction();
            core.cycles++; // 1 + N and 3 + N: LR and PC are among the N
            break;
        case STM: {
            const number = (op >> 8) & 7, base = registers[number];
            core.executeInstruction();
            if ((op & (1 << number)) !== 0) { // it is written back nevertheless (A6.7.58)
                let count = 0;
                for (let list = op & 255; list !== 0; list &= list - 1) {
                    count++;
                }
                registers[number] = base + 4 * count;
            }
            break;
        }
        case LDM:
            this.#base = registers[(op >> 8) & 7];
            core.executeInstruction();
            break;
        case SHIFT: { // by 0: the carry stays; to the left by more than 32: it is 0
            const amount = registers[(op >> 3) & 7] & 255, carry = core.C;
            core.executeInstruction();
            if (amount === 0) {
                core.C = carry;
            } else if (amount > 32 && op >> 6 === 0x102) {
                core.C = false;
            }
            break;
        }
        case ADC:
        case SBC: { // the overflow of the sum of three
            const a = registers[op & 7], b = registers[(op >> 3) & 7];
            const other = KINDS[op] === ADC ? b : ~b;
            core.executeInstruction();
            const sum = registers[op & 7];
            core.V = ((a ^ sum) & (other ^ sum)) < 0;
            break;
        }
        case BLX: { // LR may be the register
            const target = registers[(op >> 3) & 15];
            core.executeInstruction();
            registers[15] = target & ~1;
            this.#isThumb = (target & 1) !== 0;
            break;
        }
        default: // SVC
            if (core.PM || core.IPSR === HARD_FAULT || core.IPSR === NMI) {
                throw FAULT; // it cannot be taken (B1.5.4)
            }
            core.executeInstruction();
        }
    }

    #takeInterrupts() {
        const {core, memory} = this;
        memory.isStacking = true;
        while (core.interruptsUpdated && core.checkForInterrupts()) {
            core.cycles += ENTRY_CYCLES;
        }
        memory.isStacking = false;
    }

    #fault() {
        const {core, memory, chip} = this;
        core.registers[15] = this.#pc;
        core.registers[13] = this.#stack;
        if (this.#base >= 0) {
            core.registers[(this.#code[(this.#pc - RAM) >> 1] >> 8) & 7] = this.#base;
        }
        if (core.IPSR === HARD_FAULT || core.IPSR === NMI) {
            throw new Lockup(`a fault in the handler of faults, at pc ${hex(this.#pc)}`);
        }
        memory.isStacking = true;
        const before = core.cycles;
        core.exceptionEntry(HARD_FAULT);
        if (!this.#isThumb) { // the stacked T bit shows it
            const frame = (core.LR & 4) !== 0 ? core.SPprocess : core.SPmain;
            core.writeUint32(frame + 28, core.readUint32(frame + 28) & ~(1 << 24));
            this.#isThumb = true;
        }
        memory.isStacking = false;
        core.cycles += ENTRY_CYCLES;
        chip.clock.tick((core.cycles - before) * this.#cycle_ns);
    }

    // Let time pass while the core sleeps, up to the next event of a timer. Returns whether there
    // was one, or the core is awake.
    sleep() {
        const {core, chip, systick} = this;
        const isPending = () => (core.pendingInterrupts & core.enabledInterrupts) !== 0 ||
            core.pendingSystick || core.pendingPendSV || core.pendingNMI;
        if (!isPending()) {
            const alarm_ns = chip.clock.nextAlarm === null ? Infinity : chip.clock.nanosToNextAlarm;
            const alarm = Math.max(1, Math.ceil(alarm_ns / this.#cycle_ns));
            const cycles = Math.min(alarm, systick.due - core.cycles);
            if (cycles === Infinity) {
                return false;
            }
            core.cycles += cycles;
            chip.clock.tick(cycles * this.#cycle_ns);
            if (core.cycles >= systick.due) {
                systick.fire();
            }
        }
        this.isAsleep = !isPending();
        return true;
    }
}

export function hex(number) {
    return `0x${(number >>> 0).toString(16)}`;
}
