# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2034,SC2154
#
# Cache of the files that a guest boots from: Debian's kernel with its modules,
# an initramfs, and the verdict on KVM. Sourced, never run. Everything in the
# cache is made in a temporary directory and then renamed, so a final name means
# that it is complete. That is done under a lock, so that two runs may start
# with an empty cache at once.
#
# Variables set for the caller:
#   vm_cache    the cache directory
#   vm_release  the kernel's release, such as 6.1.0-56-amd64
#   vm_kernel   the directory with boot/ and lib/modules/ of that release
#   vm_initrd   the initramfs
#   vm_accel    an array: QEMU's options for the accelerator

vm_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
vm_cache=${FARPAGE_VM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/farpage-vm}

# Modules that mounting the root file system needs. All others are loaded from
# there.
vm_boot_modules=(virtio_pci 9p 9pnet_virtio overlay virtio_console)
vm_disk_modules=(virtio_blk ext4) # for --disk

vm_say ()
{
    echo "${0##*/}: $*" >&2
}

# End the script because no guest can run here. The status 125 means that.
vm_die ()
{
    vm_say "$*"
    exit 125
}

# Print one reason why no guest can run here. Return 1 if there is none.
vm_missing ()
{
    local tool

    for tool in qemu-system-x86_64 modprobe depmod cpio flock getopt gzip; do
        if ! command -v "$tool" >/dev/null; then
            echo "$tool is not installed"
            return 0
        fi
    done
    [[ $(uname -m) == x86_64 ]] || {
        echo "the guest's kernel is for x86_64 only"
        return 0
    }
    return 1
}

# vm_locked COMMAND...: run COMMAND while holding the cache's lock.
vm_locked ()
{
    mkdir -p "$vm_cache"
    (
        flock -w 900 9 || vm_die "another run holds $vm_cache/lock"
        # Remove the files that a killed run left behind.
        rm -rf "$vm_cache"/tmp.*
        "$@"
    ) 9>"$vm_cache/lock"
}

# vm_unpack_package DIRECTORY PACKAGE[=VERSION]...: fetch Debian packages and
# unpack them there. Nothing is installed.
vm_unpack_package ()
{
    local into=$1 debs deb
    shift

    debs=$(mktemp -d "$vm_cache/tmp.XXXXXX")
    # Without this option apt complains that its own user cannot write here.
    if ! (cd "$debs" && apt-get -qq -o APT::Sandbox::User="$(id -un)" \
                            download "$@" >&2); then
        rm -rf "$debs"
        vm_say "cannot fetch $* (is apt's index fresh? apt-get update)"
        return 1
    fi
    for deb in "$debs"/*.deb; do
        dpkg -x "$deb" "$into" || return 1
    done
    rm -rf "$debs"
}

# vm_known_release SERIES: print the newest release of a series (6.1, 6.12) that
# apt's index names, if any. The cloud kernel is left out, because it has no
# RDMA.
vm_known_release ()
{
    { apt-cache depends linux-image-amd64 "linux-image-$1-amd64" 2>/dev/null || :; } |
        sed -n "s/.*Depends: linux-image-\(${1//./\\.}\..*-amd64\)\$/\1/p" |
        sort -V | tail -n 1
}

# vm_cached_release SERIES: print the newest release of a series in the cache.
vm_cached_release ()
{
    local cached=()

    shopt -s nullglob
    cached=("$vm_cache/kernel-$1."*-amd64)
    shopt -u nullglob
    printf '%s\n' "${cached[@]##*/kernel-}" | sort -V | tail -n 1
}

# Set vm_release and vm_kernel. Fetch that kernel if the cache does not have it.
# A series stands for its newest release that apt knows. If that cannot be
# fetched, it stands for the newest one in the cache, with a notice.
vm_choose_release ()
{
    local series=${FARPAGE_VM_KERNEL:-6.1} cached

    if [[ ! $series =~ ^[0-9]+\.[0-9]+$ ]]; then
        vm_release=$series
        vm_kernel=$vm_cache/kernel-$vm_release
        [[ -d $vm_kernel ]] || vm_locked vm_make_kernel || vm_die "no kernel $vm_release"
        return
    fi
    vm_release=$(vm_known_release "$series")
    vm_kernel=$vm_cache/kernel-$vm_release
    if [[ -n $vm_release ]] && { [[ -d $vm_kernel ]] || vm_locked vm_make_kernel; }; then
        return
    fi
    cached=$(vm_cached_release "$series")
    [[ -n $cached ]] ||
        vm_die "no kernel $series for the guest: apt knows ${vm_release:-none} (apt-get update)"
    vm_say "kernel ${vm_release:-$series} cannot be fetched: $cached of the cache instead"
    vm_release=$cached
    vm_kernel=$vm_cache/kernel-$vm_release
}

vm_make_kernel ()
{
    local new package=linux-image-$vm_release

    [[ ! -d $vm_kernel ]] || return 0
    vm_say "fetching $package"
    new=$(mktemp -d "$vm_cache/tmp.XXXXXX")
    vm_unpack_package "$new" "$package" || return 1
    # build-modules needs the sources of exactly this version.
    apt-cache show "$package" | sed -n 's/^Version: //p' | head -n 1 \
        > "$new/version"
    depmod -b "$new" "$vm_release" || return 1
    chmod 755 "$new"
    mv -T "$new" "$vm_kernel"
}

vm_make_busybox ()
{
    local new

    [[ ! -d $vm_cache/busybox ]] || return 0
    new=$(mktemp -d "$vm_cache/tmp.XXXXXX")
    vm_unpack_package "$new" busybox-static || vm_die "no busybox-static"
    mv -T "$new" "$vm_cache/busybox"
}

# vm_copy_modules DIRECTORY MODULE...: copy the modules with all that they need.
# Their names are in the order in which they must be loaded.
vm_copy_modules ()
{
    local into=$1 n=10 module path
    shift

    for module; do
        modprobe -d "$vm_kernel" -S "$vm_release" --show-depends "$module"
    done | awk '$1 == "insmod" && !seen[$2]++ { print $2 }' > "$into.list"
    while read -r path; do
        cp "$path" "$into/$n-${path##*/}"
        n=$((n + 1))
    done < "$into.list"
    rm "$into.list"
}

vm_make_initrd ()
{
    local tree

    [[ ! -f $vm_initrd ]] || return 0
    vm_make_busybox
    tree=$(mktemp -d "$vm_cache/tmp.XXXXXX")
    mkdir -p "$tree"/{bin,modules,disk-modules,proc,sys,dev,lower,rw,root}
    cp "$vm_cache/busybox/bin/busybox" "$tree/bin/busybox"
    install -m 755 "$vm_dir/guest/initramfs-init" "$tree/init"
    vm_copy_modules "$tree/modules" "${vm_boot_modules[@]}"
    vm_copy_modules "$tree/disk-modules" "${vm_disk_modules[@]}"
    (cd "$tree" && find . | cpio --quiet -o -H newc | gzip -1) \
        > "$tree.gz" || vm_die "cannot make the initramfs"
    mv "$tree.gz" "$vm_initrd"
    rm -rf "$tree"
}

# Find out if KVM works. Under some hypervisors /dev/kvm exists, but a guest
# hangs in early boot. So boot a guest that only ends itself, with a deadline.
vm_probe_kvm ()
{
    local status=0

    [[ ! -s $vm_kvm_verdict ]] || return 0
    if [[ -r /dev/kvm && -w /dev/kvm ]]; then
        # A subshell, so that its message about an abort is discarded.
        (
            ulimit -c 0
            timeout -s KILL 10 qemu-system-x86_64 -accel kvm -cpu host \
                -m 256 -nodefaults -display none -no-reboot \
                -device isa-debug-exit,iobase=0xf4,iosize=0x04 \
                -kernel "$vm_kernel/boot/vmlinuz-$vm_release" \
                -initrd "$vm_initrd" -append "quiet panic=-1 vm_probe"
            exit
        ) </dev/null >/dev/null 2>&1 || status=$?
    else
        status=1
    fi
    rm -f "$vm_cache"/kvm-*
    # The guest writes 16 to the exit port, which QEMU turns into 33.
    if (( status == 33 )); then
        echo kvm > "$vm_kvm_verdict"
    else
        echo tcg > "$vm_kvm_verdict"
    fi
}

vm_fill_cache ()
{
    vm_make_initrd
    vm_probe_kvm
}

# Fill the cache if needed, and set the variables listed above.
vm_prepare ()
{
    local reason sum verdict

    if reason=$(vm_missing); then
        vm_die "$reason"
    fi
    vm_choose_release
    sum=$(cat "$vm_dir/guest/initramfs-init" "${BASH_SOURCE[0]}" | sha256sum)
    vm_initrd=$vm_cache/initrd-$vm_release-${sum:0:12}.gz
    vm_kvm_verdict=$vm_cache/kvm-$(cat /proc/sys/kernel/random/boot_id)
    if [[ ! -f $vm_initrd || ! -s $vm_kvm_verdict ]]; then
        vm_locked vm_fill_cache
    fi
    verdict=${FARPAGE_VM_ACCEL:-$(cat "$vm_kvm_verdict")}
    case $verdict in
    kvm) vm_accel=(-accel kvm -cpu host) ;;
    # TCG runs 'rep movsb' as a loop over bytes. A kernel that takes it for the
    # fast way copies at a quarter of the speed. TCG runs pclmulqdq as a loop
    # over bits. The checksums of soft-RoCE with it took half of the time of a
    # transfer.
    # In QEMU before 8.1 one thread may translate a page while another thread
    # writes to it. If a guest's kernel patches a static branch there, the
    # breakpoint that it uses for that may stay in QEMU's cache for good, and the
    # guest dies of it (Oops: int3). Most likely that is where each allocation
    # passes. These parameters keep the kernel from patching there when the first
    # memory cgroup is made. Memory of the kernel and of sockets is not charged to
    # cgroups then.
    tcg)
        [[ ${FARPAGE_VM_THREADS:-multi} =~ ^(multi|single)$ ]] ||
            vm_die "FARPAGE_VM_THREADS is '$FARPAGE_VM_THREADS', not multi or single"
        vm_accel=(-accel "tcg,thread=${FARPAGE_VM_THREADS:-multi}"
            -cpu 'max,-erms,-pclmulqdq')
        [[ ${FARPAGE_VM_THREADS:-multi} != multi ]] ||
            vm_parameters+=' cgroup.memory=nokmem,nosocket'
        ;;
    # Guest time is a count of instructions, a nanosecond for each, of one
    # processor. While it is idle, time jumps to the next timer. pclmulqdq is one
    # instruction there, as on a real processor.
    icount)
        # shellcheck disable=SC2034 # for guest.sh
        opt_cpus=1
        vm_accel=(-accel 'tcg,thread=single' -icount 'shift=0,sleep=off'
            -cpu 'max,-erms')
        ;;
    *) vm_die "FARPAGE_VM_ACCEL is '$verdict', not kvm, tcg or icount" ;;
    esac
}
