#!/usr/bin/env bash
# `xtask claims nfs` in Linux as a program (user mode Linux), for hosts whose kernel has no NFS.
#
#     machine.sh [RUNS [LANES [SECONDS [ROWS [READS]]]]]
#
# Needs Debian as root with iproute2, kmod and e2fsprogs, and the programs that `cargo xtask claims` builds. Downloads
# the kernel and the programs of NFS. The machine sees the files of this one, and changes none: its own writes stay in
# its memory, and the exported folder is on a disk of its own. The machine has one processor, and starts programs slowly.
set -euo pipefail
root="$(cd "$(dirname "$0")/../../.." && pwd)"
target="${CARGO_TARGET_DIR:-$root/target}"
place="$target/claims/machine"
mkdir -p "$place/programs" "$place/memory"
cd "$place"

if [ ! -e programs/usr/bin/linux.uml ]; then
    apt-get download user-mode-linux nfs-kernel-server nfs-common keyutils libkeyutils1 libnfsidmap1 libtirpc3 \
        libevent-core-2.1-7 libwrap0
    for package in *.deb; do dpkg-deb -x "$package" programs; done
    # The place where modprobe looks.
    mkdir -p programs/lib && ln -s ../usr/lib/uml/modules programs/lib/modules
fi
version="$(basename "$(echo programs/lib/modules/*)")"

# The first program of the machine: a root folder whose changes stay in memory.
cat >start.sh <<END
#!/bin/bash
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
mount -t proc proc /proc
modprobe -d "$place/programs" overlay
mount -t tmpfs memory "$place/memory" && cd "$place/memory" && mkdir changes work new
mount -t overlay -o lowerdir=/,upperdir=changes,workdir=work over new
mount -t proc proc new/proc; mount -t sysfs sys new/sys; mount -t tmpfs tmp new/tmp; mount -t tmpfs run new/run
mount -t devtmpfs dev new/dev
cd new && mkdir old && pivot_root . old && exec chroot . /bin/bash "$place/claims.sh"
END
cat >claims.sh <<END
export PATH="$place/programs/usr/sbin:$place/programs/sbin:/usr/sbin:/usr/bin:/sbin:/bin"
export LD_LIBRARY_PATH="$place/programs/usr/lib/x86_64-linux-gnu" CARGO_TARGET_DIR="$target"
for name in nfsd nfsv4 veth ext4; do modprobe -d "$place/programs" \$name; done
ip link set lo up
mkfs.ext4 -q /dev/ubda && mkdir -p /export && mount /dev/ubda /export
timeout ${3:-3600} "$target/debug/xtask" claims nfs /export ${1:-20} ${2:-1} ${4:-1000} ${5:-100}
umount /export; sync; echo o >/proc/sysrq-trigger; sleep 60
END
chmod +x start.sh

rm -f disk && truncate -s 3G disk
programs/usr/bin/linux.uml mem=3G ubd0=disk root=/dev/root rootfstype=hostfs rootflags=/ ro quiet panic=1 \
    init="$place/start.sh" con=null con0=fd:0,fd:1 </dev/null
