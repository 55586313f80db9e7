#!/usr/bin/env bash
# `xtask claims nfs` in a virtual machine with a kernel of Debian, for hosts whose kernel has no NFS.
#
#     machine.sh [RUNS [LANES [SECONDS]]]
#
# Needs Debian as root with qemu-system-x86, cpio, kmod, iproute2 and e2fsprogs, and the programs that `cargo xtask claims`
# builds. Downloads the kernel and the programs of NFS. The machine sees the files of this one, and changes none:
# its own writes stay in its memory, and the exported folder is on a disk of its own. Without support by the
# processor it runs in emulation, so the times of jobs are those of a slow machine.
set -euo pipefail
root="$(cd "$(dirname "$0")/../../.." && pwd)"
target="${CARGO_TARGET_DIR:-$root/target}"
place="$target/claims/machine"
mkdir -p "$place/kernel" "$place/programs" "$place/start/bin"
cd "$place"

if [ ! -e kernel/boot ]; then
    image="$(apt-cache depends linux-image-amd64 | sed -n 's/.*Depends: \(linux-image-.*\)/\1/p' | head -1)"
    apt-get download "$image" busybox-static
    apt-get download nfs-kernel-server nfs-common keyutils libkeyutils1 libnfsidmap1 libtirpc3 libevent-core-2.1-7 libwrap0
    for package in *.deb; do
        case "$package" in
        linux-image-*) dpkg-deb -x "$package" kernel ;;
        *) dpkg-deb -x "$package" programs ;;
        esac
    done
fi
version="$(basename "$(echo kernel/lib/modules/*)")"
depmod -b kernel "$version"

# The first files of the machine: enough to mount the files of this host.
modules="start/lib/modules/$version"
rm -rf start/lib && mkdir -p "$modules" start/low start/up start/new start/proc start/sys start/dev
cp kernel/lib/modules/"$version"/modules.* "$modules"
for name in virtio_pci 9p 9pnet_virtio overlay virtio_blk ext4 crc32c_generic; do
    modprobe -d kernel -S "$version" --show-depends "$name" | sed -n 's/^insmod \([^ ]*\).*/\1/p' | while read -r file; do
        own="start/lib/${file#*kernel/lib/}"
        mkdir -p "$(dirname "$own")"
        cp "$file" "$own"
    done
done
cp programs/bin/busybox start/bin/
cat >start/init <<'END'
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
for name in virtio_pci 9pnet_virtio 9p overlay virtio_blk crc32c_generic ext4; do modprobe $name; done
mount -t 9p -o trans=virtio,version=9p2000.L,msize=1048576,ro,cache=loose root /low
mount -t tmpfs up /up && mkdir /up/u /up/w
mount -t overlay -o lowerdir=/low,upperdir=/up/u,workdir=/up/w over /new
for name in proc sys dev; do mkdir -p /new/$name && mount --move /$name /new/$name; done
mount -t tmpfs tmp /new/tmp && mount -t tmpfs run /new/run
exec switch_root /new /bin/bash "$(sed -n 's/.*script=\([^ ]*\).*/\1/p' /new/proc/cmdline)"
END
chmod +x start/init
(cd start && find . | cpio --quiet -o -H newc | gzip -1) >first

cat >script.sh <<END
mkdir -p /lib/modules && ln -sfn "$place/kernel/lib/modules/$version" "/lib/modules/$version"
export PATH="$place/programs/usr/sbin:$place/programs/sbin:/usr/sbin:/usr/bin:/sbin:/bin"
export LD_LIBRARY_PATH="$place/programs/usr/lib/x86_64-linux-gnu" CARGO_TARGET_DIR="$target"
for name in nfsd nfsv4 veth; do modprobe \$name; done
ip link set lo up
mkfs.ext4 -q /dev/vda && mkdir -p /export && mount /dev/vda /export
timeout ${3:-3600} "$target/debug/xtask" claims nfs /export ${1:-20} ${2:-1}
umount /export; sync; echo o >/proc/sysrq-trigger; read -r _ </dev/console
END

rm -f disk && truncate -s 3G disk
qemu-system-x86_64 -accel tcg,thread=multi -cpu max -smp 2 -m 3072 -nographic -no-reboot -nic none \
    -kernel "kernel/boot/vmlinuz-$version" -initrd first -append "console=ttyS0 quiet panic=-1 script=$place/script.sh" \
    -fsdev local,id=root,path=/,security_model=none,readonly=on,multidevs=remap \
    -device virtio-9p-pci,fsdev=root,mount_tag=root -drive file=disk,if=virtio,format=raw,cache=unsafe </dev/null
