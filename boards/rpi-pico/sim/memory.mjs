// SPDX-License-Identifier: Apache-2.0
// What rp2040js lacks of the core's bus: accesses that fault, and the memory protection unit.
//
// ARMv6-M ARM (DDI 0419): alignment A3.2, system control B3.2, MPU B3.5. RP2040 data sheet: address
// map 2.2.

export const RAM = 0x20000000, RAM_BYTES = 0x42000;

// Thrown by an access or an instruction that the core answers with a HardFault.
export const FAULT = Symbol("fault");

const HARD_FAULT = 3; // the exception's number; NMI is 2

const PPB_END = 0xe0100000, SCS = 0xe000e000;
const AIRCR = 0xd0c, CCR = 0xd14;
const MPU_TYPE = 0xd90, MPU_CTRL = 0xd94, MPU_RNR = 0xd98, MPU_RBAR = 0xd9c, MPU_RASR = 0xda0;
const MPU_ENABLE = 1, MPU_HFNMIENA = 2;
const REGIONS = 8;
const GRANULE = 32; // bytes: an eighth of the smallest region

const NO_READ = 1, NO_WRITE = 2;

// By AP (B3.5.9), for privileged code.
const DENIED = [NO_READ | NO_WRITE, 0, 0, 0, NO_READ | NO_WRITE, NO_WRITE, NO_WRITE, NO_WRITE];

// The registers of the system control space that rp2040js has: CPUID, ICSR, VTOR, SHPR, NVIC.
function isKnown(offset) {
    return [0xd00, 0xd04, 0xd08, 0xd1c, 0xd20, 0x100, 0x180, 0x200, 0x280].includes(offset) ||
        (offset >= 0x400 && offset < 0x420);
}

export class Memory {
    constructor(chip, systick) {
        this.chip = chip;
        this.systick = systick;
        this.control = 0; // MPU_CTRL
        this.number = 0; // MPU_RNR
        this.regions = Array.from({length: REGIONS}, () => ({base: 0, attributes: 0}));
        this.rights = new Uint8Array(RAM_BYTES / GRANULE); // what is denied of the RAM
        this.isStacking = false; // the core stores registers for an exception
        this.onReset = () => {};
        this.#takeOver();
    }

    // Put the checks in front of the core's accesses. RAM has a short way.
    #takeOver() {
        const {chip, rights} = this;
        const {core, sramView: ram} = chip;
        core.readUint32 = (address) => {
            const at = (address - RAM) >>> 0;
            const plain = at < RAM_BYTES && (at & 3) === 0 && (rights[at >>> 5] & NO_READ) === 0;
            return plain ? ram.getUint32(at, true) : this.#read(address >>> 0, 4);
        };
        core.readUint16 = (address) => {
            const at = (address - RAM) >>> 0;
            const plain = at < RAM_BYTES && (at & 1) === 0 && (rights[at >>> 5] & NO_READ) === 0;
            return plain ? ram.getUint16(at, true) : this.#read(address >>> 0, 2);
        };
        core.readUint8 = (address) => {
            const at = (address - RAM) >>> 0;
            const plain = at < RAM_BYTES && (rights[at >>> 5] & NO_READ) === 0;
            return plain ? ram.getUint8(at) : this.#read(address >>> 0, 1);
        };
        core.writeUint32 = (address, value) => {
            const at = (address - RAM) >>> 0;
            if (at < RAM_BYTES && (at & 3) === 0 && (rights[at >>> 5] & NO_WRITE) === 0) {
                ram.setUint32(at, value, true);
            } else {
                this.#write(address >>> 0, 4, value);
            }
        };
        core.writeUint16 = (address, value) => {
            const at = (address - RAM) >>> 0;
            if (at < RAM_BYTES && (at & 1) === 0 && (rights[at >>> 5] & NO_WRITE) === 0) {
                ram.setUint16(at, value, true);
            } else {
                this.#write(address >>> 0, 2, value);
            }
        };
        core.writeUint8 = (address, value) => {
            const at = (address - RAM) >>> 0;
            if (at < RAM_BYTES && (rights[at >>> 5] & NO_WRITE) === 0) {
                ram.setUint8(at, value);
            } else {
                this.#write(address >>> 0, 1, value);
            }
        };
        const {ppb} = chip;
        const read = ppb.readUint32.bind(ppb), write = ppb.writeUint32.bind(ppb);
        ppb.readUint32 = (offset) => this.#readSystem(offset, read);
        ppb.writeUint32 = (offset, value) => this.#writeSystem(offset, value, write);
    }

    #read(address, bytes) {
        if (!this.#isAllowed(address, bytes, NO_READ)) {
            if (this.isStacking) {
                return 0;
            }
            throw FAULT;
        }
        if (address >>> 20 === PPB_END - 1 >>> 20 && address >>> 12 !== SCS >>> 12) {
            return 0; // reserved: reads as zero
        }
        const {chip} = this;
        return bytes === 4 ? chip.readUint32(address)
            : bytes === 2 ? chip.readUint16(address) : chip.readUint8(address);
    }

    #write(address, bytes, value) {
        if (!this.#isAllowed(address, bytes, NO_WRITE)) {
            if (this.isStacking) {
                return;
            }
            throw FAULT;
        }
        if (address >>> 20 === PPB_END - 1 >>> 20 && address >>> 12 !== SCS >>> 12) {
            return;
        }
        const {chip} = this;
        if (bytes === 4) {
            chip.writeUint32(address, value);
        } else if (bytes === 2) {
            chip.writeUint16(address, value);
        } else {
            chip.writeUint8(address, value);
        }
    }

    #isAllowed(address, bytes, denial) {
        return address % bytes === 0 && this.#isThere(address) &&
            (this.#denied(address) & denial) === 0;
    }

    // Boot ROM and flash are empty in the emulator, so they fault, too.
    #isThere(address) {
        if (address >= RAM && address < RAM + RAM_BYTES) {
            return true;
        }
        if (address >= 0x40000000 && address < 0x60000000) {
            const isUsb = address >= 0x50100000 && address < 0x50101000;
            return isUsb || this.chip.findPeripheral(address) !== undefined;
        }
        return address >= 0xd0000000 && address < PPB_END;
    }

    // The MPU's rules do not hold for the core's own registers, nor in HardFault and NMI.
    #denied(address) {
        const {core} = this.chip;
        const isExempt = core.IPSR === 2 || core.IPSR === HARD_FAULT || this.isStacking;
        if ((this.control & MPU_ENABLE) === 0 || address >= 0xe0000000 ||
            (isExempt && (this.control & MPU_HFNMIENA) === 0)) {
            return 0;
        }
        return this.#denials(address);
    }

    // What the highest region at an address denies. Outside of all regions, privileged code may do
    // what it likes: PRIVDEFENA is taken as set.
    #denials(address) {
        for (let i = REGIONS - 1; i >= 0; i--) {
            const {base, attributes} = this.regions[i];
            const log = ((attributes >>> 1) & 31) + 1;
            const offset = (address - base) >>> 0;
            const isIn = log === 32 || offset < 2 ** log;
            if ((attributes & 1) !== 0 && log >= 8 && isIn &&
                (attributes & (1 << (8 + Math.floor(offset / 2 ** (log - 3))))) === 0) {
                return DENIED[(attributes >>> 24) & 7];
            }
        }
        return 0;
    }

    #protect() {
        const isOn = (this.control & MPU_ENABLE) !== 0;
        for (let i = 0; i < this.rights.length; i++) {
            this.rights[i] = isOn ? this.#denials(RAM + i * GRANULE) : 0;
        }
    }

    #readSystem(offset, other) {
        const region = this.regions[this.number];
        const found = this.systick.read(offset);
        if (found !== undefined) {
            return found;
        }
        switch (offset) {
        case CCR:
            return 0x208; // STKALIGN, UNALIGN_TRP
        case MPU_TYPE:
            return REGIONS << 8;
        case MPU_CTRL:
            return this.control;
        case MPU_RNR:
            return this.number;
        case MPU_RBAR:
            return (region.base | this.number) >>> 0;
        case MPU_RASR:
            return region.attributes;
        default:
            return isKnown(offset) ? other(offset) : 0;
        }
    }

    #writeSystem(offset, value, other) {
        if (this.systick.write(offset, value)) {
            return;
        }
        switch (offset) {
        case AIRCR:
            if (((value & 0xffff0004) >>> 0) === 0x05fa0004) { // VECTKEY, SYSRESETREQ
                this.onReset();
            }
            break;
        case MPU_CTRL:
            this.control = value & 7;
            this.#protect();
            break;
        case MPU_RNR:
            this.number = value & (REGIONS - 1);
            break;
        case MPU_RBAR:
            if ((value & 16) !== 0) { // VALID
                this.number = value & (REGIONS - 1);
            }
            this.regions[this.number].base = (value & ~255) >>> 0;
            this.#protect();
            break;
        case MPU_RASR:
            this.regions[this.number].attributes = value >>> 0;
            this.#protect();
            break;
        default:
            if (isKnown(offset)) {
                other(offset, value);
            }
        }
    }
}
