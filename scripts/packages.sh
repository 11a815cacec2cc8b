#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs the Debian packages that are missing, or prints their list and stops.
# usage: PYTHON=... scripts/packages.sh demo|check|test, in the checkout's folder
# LINUX_GUEST=0 in the environment leaves out the kernels that linux-arm64, linux-armhf and linux-riscv64 boot in QEMU.
set -eu

MISSING=7 # exit code: something must be installed first
LOG=build/setup-apt.log

# A package and what it is wanted for: a program, or what `works` knows. What is found counts,
# wherever it came from: apt runs only for what is not there.
demo="$("$PYTHON" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])'):ensurepip
gcc:gcc
libc6-dev:stdio.h"
aarch64=gcc-aarch64-linux-gnu aarch64cxx=g++-aarch64-linux-gnu
# Its own compiler is no cross compiler.
[ "$(uname -m)" != aarch64 ] || aarch64=gcc aarch64cxx=g++
check="$demo
git:git
g++:g++"
test="$check
gcc-arm-none-eabi:arm-none-eabi-gcc
gcc-riscv64-unknown-elf:riscv64-unknown-elf-gcc
libnewlib-arm-none-eabi:newlib
libstdc++-arm-none-eabi-dev:cstddef
picolibc-riscv64-unknown-elf:picolibc
$aarch64:aarch64-linux-gnu-gcc
$aarch64cxx:aarch64-linux-gnu-g++
gcc-arm-linux-gnueabihf:arm-linux-gnueabihf-gcc
g++-arm-linux-gnueabihf:arm-linux-gnueabihf-g++
libc6-dev-armhf-cross:stdio.h-armhf
gcc-riscv64-linux-gnu:riscv64-linux-gnu-gcc
g++-riscv64-linux-gnu:riscv64-linux-gnu-g++
libc6-dev-riscv64-cross:stdio.h-riscv64
picolibc-aarch64-linux-gnu:picolibc-aarch64
gcc-avr:avr-gcc
avr-libc:avr/io.h
arduino-core-avr:arduino-core
arduino-builder:arduino-builder
arduino-ctags:arduino-ctags
babeltrace2:babeltrace2
qemu-system-arm:qemu-system-arm
qemu-system-misc:qemu-system-riscv32
qemu-user:qemu-aarch64
clang:clang
chromium:chromium
chromium-driver:chromedriver
cmake:cmake
iproute2:ip
libelf-dev:libelf.h
papi-tools:papi_avail
libsimavr-dev:simavr/sim_avr.h
verilator:verilator
ninja-build:ninja
nodejs:node
npm:npm
openocd:openocd
openssh-client:ssh
openssh-server:sshd
postgresql:initdb
libclang-rt-dev:libfuzzer
spin:spin
valgrind:callgrind_annotate"

# apt knows the release in the names; before apt has any lists, apt-get takes the pattern.
installers=$(apt-cache pkgnames debian-installer- 2>/dev/null || :)
kernels=$(for arch in arm64 armhf riscv64; do
    found=$(echo "$installers" | grep -x "debian-installer-[0-9]*-netboot-$arch" | sort -V | tail -n 1)
    if [ "$arch" = riscv64 ] && [ -z "$found" ]; then # Debian 12 has none; without lists, apt cannot tell
        if [ -n "$installers" ] || grep -q '^VERSION_ID="12"' /etc/os-release; then continue; fi
    fi
    echo "${found:-debian-installer-*-netboot-$arch}:linux-$arch"
done)
[ "${LINUX_GUEST:-1}" = 0 ] || test="$test
$kernels"

# usage: links HEADER COMPILER [FLAG]...
links() {
    header=$1
    shift
    printf '#include <%s>\nint main(void) { return 0; }\n' "$header" |
        "$@" -x c -o /dev/null - 2>/dev/null
}

# libFuzzer brings the main function; clang's own libraries are a package of their own.
fuzzes() {
    echo 'int LLVMFuzzerTestOneInput(const char *data, unsigned long size);
        int LLVMFuzzerTestOneInput(const char *data, unsigned long size) {
            return data == 0 && size != 0;
        }' | clang -fsanitize=fuzzer,address,undefined -x c -o /dev/null - 2>/dev/null
}

works() {
    case $1 in
    ensurepip) "$PYTHON" -c 'import ensurepip, venv' 2>/dev/null ;;
    stdio.h | libelf.h | simavr/sim_avr.h) links "$1" gcc ;;
    stdio.h-armhf) links stdio.h arm-linux-gnueabihf-gcc ;;
    stdio.h-riscv64) links stdio.h riscv64-linux-gnu-gcc ;;
    cstddef) # freestanding C++ is enough
        echo '#include <cstddef>' | arm-none-eabi-g++ -x c++ -S -o /dev/null - 2>/dev/null ;;
    newlib) links string.h arm-none-eabi-gcc --specs=nosys.specs ;;
    picolibc) links string.h riscv64-unknown-elf-gcc --specs=picolibc.specs ;;
    picolibc-aarch64) # -S: it need not link, there is no port of it yet
        links string.h aarch64-linux-gnu-gcc -S \
            --specs=/usr/lib/picolibc/aarch64-linux-gnu/picolibc.specs ;;
    arduino-core) [ -e /usr/share/arduino/hardware/arduino/avr/platform.txt ] ;;
    avr/io.h) links "$1" avr-gcc -mmcu=atmega2560 ;;
    libfuzzer) fuzzes ;;
    initdb) # Debian keeps it off PATH
        command -v initdb >/dev/null || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 ;;
    sshd) command -v sshd >/dev/null || [ -x /usr/sbin/sshd ] ;; # /usr/sbin may not be on PATH
    linux-arm64 | linux-armhf | linux-riscv64) # their kernels: linux and vmlinuz
        ls /usr/lib/debian-installer/images/*/"${1#linux-}"/text/debian-installer/"${1#linux-}"/*linu[xz] \
            >/dev/null 2>&1 ;;
    *) command -v "$1" >/dev/null ;;
    esac
}

# Prints those of the list that are missing, as "package:program" lines.
missing() {
    for entry in $wanted; do
        works "${entry#*:}" || echo "$entry"
    done
}

# Prints the packages of "package:program" lines on one line.
packages() {
    echo "$1" | sed 's/:.*//' | tr '\n' ' ' | sed 's/ $//'
}

# Prints the list for a person to install, and why we do not; then stops.
give_up() {
    {
        echo "$2"
        echo "make ${part} needs what is in these Debian packages:"
        echo "$1" | sed 's/\(.*\):\(.*\)/\1 \2/' | while read -r package program; do
            printf '  %-24s for %s\n' "$package" "$program"
        done
        echo "On Debian, as root: apt-get install --no-install-recommends $(packages "$1")"
        echo "Elsewhere, install what gives these programs. Then run the same command again."
    } >&2
    exit $MISSING
}

part=$1
case $part in
demo) wanted=$demo ;;
check) wanted=$check ;;
test) wanted=$test ;;
esac

lacking=$(missing)
[ -n "$lacking" ] || exit 0

if ! [ -f /etc/debian_version ] || ! command -v apt-get >/dev/null; then
    give_up "$lacking" "This is not Debian with apt-get on PATH, so nothing was installed."
fi
if [ "$(id -u)" -eq 0 ]; then
    as_root=
elif command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
    as_root=sudo # on a terminal it may ask for the password
else
    give_up "$lacking" "This is neither root nor someone who may use sudo, so nothing was installed."
fi

apt() {
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y \
        -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 "$@" >>"$LOG" 2>&1
}

mkdir -p build
: >"$LOG"
echo "Installing Debian packages: $(packages "$lacking") (log: $LOG) ..."
case $lacking in
*-netboot-*) echo "Some are large: Linux for linux-arm64 (127 MB), linux-armhf (33 MB) and linux-riscv64 (52 MB). LINUX_GUEST=0 leaves them out." ;;
esac
# shellcheck disable=SC2046 # the packages are words
if ! { apt update || :; apt install --no-install-recommends $(packages "$lacking"); }; then
    tail -n 20 "$LOG" >&2
    give_up "$lacking" "apt-get failed: see above, and all of it in $LOG."
fi
lacking=$(missing)
[ -z "$lacking" ] || give_up "$lacking" "apt-get has installed them, but something is still missing."
