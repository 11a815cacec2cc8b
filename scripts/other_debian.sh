#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs the README's two commands on another release of Debian, in a chroot made for it.
# usage: scripts/other_debian.sh [COMMAND [ARGUMENT]...]
#
# Without a command it makes the chroot anew, clones the last commit into it, runs `make demo` and
# `make test` there, prints how long each took, and removes the chroot if both pass. With a command it
# runs only that, in the chroot that is there, and keeps it.
#
# RELEASE names the release: by default the other one of bookworm and trixie, whose packages come from where
# this machine has its own, if it is a Debian; or another one that debootstrap knows, such as sid, or noble of Ubuntu.
#
# All mounts and processes of the chroot are in namespaces of this script and end with it.
set -eu
cd "$(dirname "$0")/.."

MISSING=7 # exit code: something must be installed first

fail() {
    status=$1
    shift
    printf '%s\n' "$@" >&2
    exit "$status"
}

. /etc/os-release
case ${VERSION_CODENAME:-} in
trixie) other=bookworm ;;
*) other=trixie ;;
esac
RELEASE=${RELEASE:-$other}
folder=$PWD/build/other-debian/$RELEASE

[ "$(id -u)" -eq 0 ] || fail $MISSING "make other-debian makes a chroot, which only root may do. Try: sudo make other-debian"
command -v debootstrap >/dev/null || fail $MISSING "make other-debian needs debootstrap. Try: apt-get install debootstrap"

# The namespaces are made once: this script then runs again within them.
if [ "${IN_NAMESPACES:-}" != yes ]; then
    [ $# -gt 0 ] || rm -rf "$folder"
    status=0
    IN_NAMESPACES=yes RELEASE=$RELEASE unshare --mount --propagation private --pid --fork --kill-child \
        sh scripts/other_debian.sh "$@" || status=$?
    [ $# -gt 0 ] || [ $status -ne 0 ] || rm -rf "$folder"
    exit $status
fi

# The machine's sources of packages, as lines of sources.list for the other release.
sources() {
    apt-get indextargets --format "\$(REPO_URI) \$(RELEASE) \$(COMPONENT)" "Created-By: Packages" |
        awk -v here="$VERSION_CODENAME" -v there="$RELEASE" \
            'index($2, here) == 1 { print "deb", $1, there substr($2, length(here) + 1), $3 }'
}

# Folders that pip's configuration names. The files of a local index lie beside its pages.
pip_folders() {
    python3 -m pip config list 2>/dev/null | grep -oE "(file://)?/[^ ',]+" |
        sed -E 's,^file://(.*)/[^/]*$,\1,' | while read -r path; do [ ! -d "$path" ] || echo "$path"; done
}

make_chroot() {
    mirror= components=main,universe # debootstrap knows where they are
    case $ID:$RELEASE in
    debian:bookworm | debian:trixie) mirror=$(sources | awk '{ print $2; exit }') components=main ;;
    esac
    rm -rf "$folder"
    mkdir -p "$folder"
    echo "Making a chroot of $RELEASE (log: $folder.log) ..."
    # shellcheck disable=SC2086 # without a mirror there is no argument
    debootstrap --variant=minbase --components=$components \
        --include=ca-certificates,git,make,python3,python3-venv \
        "$RELEASE" "$folder" $mirror >"$folder.log" 2>&1 || fail 1 "$(tail -n 5 "$folder.log")" \
        "debootstrap failed: see above, and all of it in $folder.log."
    [ -z "$mirror" ] || sources >"$folder/etc/apt/sources.list"
    for name in apt.conf apt.conf.d auth.conf.d; do
        [ ! -e "/etc/apt/$name" ] || cp -rL "/etc/apt/$name" "$folder/etc/apt/"
    done
    for path in /etc/pip.conf /etc/xdg/pip "$HOME/.config/pip" "$HOME/.pip" /usr/local/share/ca-certificates; do
        [ ! -e "$path" ] || { mkdir -p "$(dirname "$folder$path")" && cp -rLT "$path" "$folder$path"; }
    done
    chroot "$folder" update-ca-certificates >>"$folder.log" 2>&1
    mkdir -p "$folder$HOME"
    git clone --quiet "file://$PWD" "$folder/src"
}

# Mounts what a program expects, in the namespace alone.
mount_all() {
    mount -t proc proc "$folder/proc"
    mount --rbind /sys "$folder/sys"
    mount --rbind /dev "$folder/dev"
    pip_folders | while read -r path; do
        mkdir -p "$folder$path"
        mount --bind -o ro "$path" "$folder$path"
    done
}

# usage: inside COMMAND [ARGUMENT]...; pip's settings come with the environment
# The root is changed by pivot_root: in a chroot, no program may make a user namespace.
inside() {
    unshare --mount --propagation private sh -c '
        mount --rbind "$0" "$0" && cd "$0" && pivot_root . . && umount --lazy . && cd /src && exec env \
            -u IN_NAMESPACES -u RELEASE -u MAKEFLAGS -u MAKELEVEL \
            PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"' "$folder" "$@"
}

# The clone is made last: a chroot without it was interrupted.
[ -d "$folder/src/.git" ] || make_chroot
mount_all
if [ $# -gt 0 ]; then
    inside "$@"
    exit
fi

failed=
for name in demo test; do
    echo "== make $name on $RELEASE"
    began=$(date +%s)
    inside make "$name" || failed="$failed make $name"
    took="${took:-}
make $name on $RELEASE: $(($(date +%s) - began)) s"
done
echo "$took"
[ -z "$failed" ] || fail 1 "Failed on $RELEASE:$failed. To look into it:" \
    "RELEASE=$RELEASE scripts/other_debian.sh bash"
