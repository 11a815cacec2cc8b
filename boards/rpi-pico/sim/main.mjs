// SPDX-License-Identifier: Apache-2.0
// A Raspberry Pi Pico: rp2040js, and beside it what that lacks. Its UART0 is on a TCP connection.
//
//     node main.mjs RP2040JS_FOLDER IMAGE.elf PORT [--record PLAN RECORDER]
//
// The image is in RAM, and starts at its first byte as the boot ROM starts it (RP2040 data sheet,
// 2.8.4). It has one core: core 1 sleeps in the boot ROM until somebody wakes it.
//
// Exit code 0 when the host has closed the connection, with a line that says where the core was.
// Exit code 3, with a line that says why, if the core cannot go on.
//
// With a plan, calls are recorded: device_runtime_c/recorder/bp_node.c.

import {readFileSync} from "node:fs";
import {createRequire} from "node:module";
import {connect} from "node:net";

import {RAM, RAM_BYTES} from "./memory.mjs";
import {hex, Lockup, Processor} from "./processor.mjs";
import {Recording} from "./recording.mjs";

const SLICE = 20000; // instructions between two looks at the connection
const IDLE = 64; // looks of the core at an empty receiver, after which it waits for the host
const IDLE_MS = 20; // at most, then it goes on: it may have other things to do
const CORE_ENDED = 3, USAGE = 2; // exit codes

class Refused extends Error {}

// Copy what is to be loaded into the RAM; returns where it starts.
function load(path, ram) {
    const file = readFileSync(path);
    if (file.length < 52 || file.readUInt32BE(0) !== 0x7f454c46 || file[4] !== 1) {
        throw new Refused(`${path} is not a 32-bit ELF file`);
    }
    const table = file.readUInt32LE(28), size = file.readUInt16LE(42), count = file.readUInt16LE(44);
    for (let at = table; at < table + size * count; at += size) {
        const [type, offset, , address, length] =
            [0, 4, 8, 12, 16].map((field) => file.readUInt32LE(at + field));
        if (type === 1 && length !== 0) { // PT_LOAD
            if (address < RAM || address + length > RAM + RAM_BYTES) {
                throw new Refused(`${path} has something at ${hex(address)}, which is not in RAM`);
            }
            ram.set(file.subarray(offset, offset + length), address - RAM);
        }
    }
    return file.readUInt32LE(24);
}

// The testbench manager (RP2040 data sheet, 2.22). A chip says in PLATFORM that it is one (bit 0).
// This one does not, and has a counter of instructions instead; reading its low word keeps the high
// one (bp_emulated_instructions.c).
class Testbench {
    static PLATFORM = 0x00;
    static LOW = 0x10;
    static HIGH = 0x14;

    constructor(processor) {
        this.processor = processor;
        this.kept = 0;
    }

    readUint32(offset) {
        const {instructions} = this.processor;
        if (offset === Testbench.LOW) {
            this.kept = Math.floor(instructions / 2 ** 32);
            return instructions >>> 0;
        }
        return offset === Testbench.HIGH ? this.kept : 0;
    }

    writeUint32Atomic() {}
}

// Bytes between UART0 and the host.
class Line {
    constructor(uart, port) {
        this.uart = uart;
        this.input = []; // chunks
        this.at = 0; // in the first one
        this.output = [];
        this.looks = 0; // at an empty receiver, since the last byte
        this.isClosed = false;
        this.wake = () => {};
        this.socket = connect(port, "127.0.0.1");
        this.socket.setNoDelay(true);
        this.socket.on("data", (chunk) => {
            this.input.push(chunk);
            this.wake();
        });
        for (const event of ["end", "error", "close"]) {
            this.socket.on(event, () => {
                this.isClosed = true;
                this.wake();
            });
        }
        uart.onByte = (byte) => {
            this.looks = 0;
            this.output.push(byte);
        };
        const read = uart.readUint32.bind(uart);
        uart.readUint32 = (offset) => {
            if (uart.rxFIFO.empty) {
                this.feed();
                this.looks++;
            }
            return read(offset);
        };
    }

    get isIdle() {
        return this.looks >= IDLE;
    }

    feed() {
        while (this.input.length !== 0 && !this.uart.rxFIFO.full) {
            this.looks = 0;
            this.uart.feedByte(this.input[0][this.at++]);
            if (this.at === this.input[0].length) {
                this.input.shift();
                this.at = 0;
            }
        }
    }

    flush() {
        if (this.output.length !== 0 && !this.isClosed) {
            this.socket.write(Uint8Array.from(this.output));
        }
        this.output = [];
    }

    // Wait until the host has sent something, or for `limit_ms`.
    async wait(limit_ms) {
        if (this.input.length === 0 && !this.isClosed) {
            await new Promise((resolve) => {
                const timer = limit_ms === Infinity ? null : setTimeout(resolve, limit_ms);
                this.wake = () => {
                    clearTimeout(timer);
                    resolve();
                };
            });
            this.wake = () => {};
        }
    }
}

async function run(processor, line, recording) {
    const shouldStop = () => line.isIdle;
    while (!line.isClosed) {
        line.feed();
        processor.run(SLICE, shouldStop);
        recording?.flush(); // before the host has the answer
        line.flush();
        if (processor.isAsleep && !processor.sleep()) {
            await line.wait(Infinity);
        } else if (line.isIdle) {
            await line.wait(IDLE_MS);
            line.looks = 0;
        } else {
            await new Promise(setImmediate);
        }
    }
}

// The library says this of an instruction that it does not know. What it says of registers is left
// out: they read as all ones, or as nothing.
function logger(onUnknown) {
    const silent = () => {};
    const warn = (name, text) => {
        if (name === "CortexM0Core" && text.includes("is not implemented yet")) {
            onUnknown();
        }
    };
    return {debug: silent, info: silent, error: silent, warn};
}

async function main([folder, image, port, ...options]) {
    if (port === undefined || ![0, 3].includes(options.length)) {
        throw new Refused("needs RP2040JS_FOLDER IMAGE.elf PORT [--record PLAN RECORDER]");
    }
    const {RP2040} = createRequire(import.meta.url)(folder);
    const chip = new RP2040();
    const processor = new Processor(chip);
    chip.logger = logger(() => chip.onBreak());
    chip.peripherals[0x4006c] = new Testbench(processor);
    processor.memory.onReset = () => {
        throw new Lockup("the program has reset it");
    };
    chip.core.PC = load(image, chip.sram) & ~1;
    chip.core.SP = RAM + RAM_BYTES;
    const recording = options.length === 0 ? null : new Recording(chip, processor, ...options.slice(1));
    const line = new Line(chip.uart[0], Number(port));
    let code = 0;
    try {
        await run(processor, line, recording);
        console.error(`rp2040js: ended at pc ${hex(chip.core.PC)}`);
    } catch (error) {
        if (!(error instanceof Lockup)) {
            throw error;
        }
        // First the reason: the host asks for it as soon as the connection ends.
        console.error(`rp2040js: the core has come to its end: ${error.message}`);
        line.flush(); // what the program printed last
        await new Promise((resolve) => line.socket.end(resolve));
        code = CORE_ENDED;
    }
    recording?.close();
    process.exit(code);
}

main(process.argv.slice(2)).catch((error) => {
    console.error(`rp2040js: ${error instanceof Refused ? error.message : error.stack}`);
    process.exit(error instanceof Refused ? USAGE : 1);
});
