// SPDX-License-Identifier: Apache-2.0
// SysTick, exact to the cycle: rp2040js derives it from rounded nanoseconds.
//
// ARMv6-M ARM (DDI 0419), B3.3: it counts down. The cycle after 0 loads RVR. Counting to 0 sets
// COUNTFLAG, and with TICKINT makes the exception pending. Writing CVR clears it without that.

const CSR = 0x10, RVR = 0x14, CVR = 0x18;
const ENABLE = 1, TICKINT = 2, COUNTFLAG = 1 << 16;
const MASK = 0xffffff;

export class SysTick {
    constructor(core) {
        this.core = core;
        this.due = Infinity; // the cycle at which it next counts to 0
        this.control = 0; // CSR without COUNTFLAG
        this.reached = false; // COUNTFLAG
        this.reload = MASK;
        this.zero = 0; // the cycle at which it is 0: the last one before now, or the next one
        this.stopped = 0; // the value while it is off
    }

    get value() {
        if ((this.control & ENABLE) === 0) {
            return this.stopped;
        }
        const since = this.core.cycles - this.zero;
        return since <= 0 ? -since : this.reload - ((since - 1) % (this.reload + 1));
    }

    set value(value) {
        this.stopped = value;
        this.zero = this.core.cycles + value;
        this.#schedule();
    }

    #schedule() {
        const { cycles } = this.core;
        if ((this.control & ENABLE) === 0) {
            this.due = Infinity;
        } else if (cycles < this.zero) {
            this.due = this.zero;
        } else {
            const period = this.reload + 1; // with RVR 0 it stays 0
            const passed = Math.floor((cycles - this.zero) / period);
            this.due = this.reload === 0 ? Infinity : this.zero + (passed + 1) * period;
        }
    }

    // The core has come to `due`.
    fire() {
        this.reached = true;
        if ((this.control & TICKINT) !== 0) {
            this.core.pendingSystick = true;
            this.core.interruptsUpdated = true;
        }
        this.#schedule();
    }

    // Read a register; undefined: it is not one of SysTick.
    read(offset) {
        switch (offset) {
        case CSR: {
            const value = this.control | (this.reached ? COUNTFLAG : 0);
            this.reached = false;
            return value;
        }
        case RVR:
            return this.reload;
        case CVR:
            return this.value;
        default:
            return undefined;
        }
    }

    // Write a register; false: it is not one of SysTick.
    write(offset, written) {
        const { value } = this;
        switch (offset) {
        case CSR:
            this.control = written & 7;
            this.value = value;
            return true;
        case RVR:
            this.reload = written & MASK; // from the next reload on
            this.value = value;
            return true;
        case CVR:
            this.reached = false;
            this.value = 0;
            return true;
        default:
            return false;
        }
    }
}
