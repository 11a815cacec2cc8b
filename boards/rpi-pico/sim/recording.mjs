// SPDX-License-Identifier: Apache-2.0
// Hands what the core executes to the recorder, device_runtime_c/recorder/bp_node.c.

import {readFileSync} from "node:fs";

import {RAM} from "./memory.mjs";

const WORDS = 4, ENTRIES = 16384;

export class Recording {
    constructor(chip, processor, plan, recorder) {
        const native = {exports: {}};
        process.dlopen(native, recorder);
        this.recorder = native.exports;
        // If the plan names costs, the host tells them. Otherwise they are the cycles counted here.
        const isTold = readFileSync(plan, "utf8").includes("\ncost ");
        this.recorder.open(plan, chip.sram, RAM, isTold ? 0 : 1);
        const entries = new Uint32Array(WORDS * ENTRIES);
        this.entries = entries;
        this.used = 0;
        processor.onInstruction = (address, cycles, stack, exception) => {
            const at = this.used;
            entries[at] = address;
            entries[at + 1] = cycles;
            entries[at + 2] = stack;
            entries[at + 3] = exception;
            this.used = at + WORDS;
            if (this.used === entries.length) {
                this.flush();
            }
        };
    }

    flush() {
        this.recorder.take(this.entries, this.used / WORDS);
        this.used = 0;
    }

    close() {
        this.flush();
        this.recorder.close();
    }
}
