# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2034,SC2154
#
# One guest, from its options to its verdict, for run and run-pair. Sourced
# after cache.sh. A guest has a control directory, which it sees as /run/vm:
#   settings, command, init    written here, read by the guest
#   started, status            written by the guest: uptime, exit status
#   setup-failed               written by the guest instead: the reason
#   klog, qemu.pid             written by QEMU

vm_status_timeout=124
vm_status_died=125
vm_status_klog=126

# Messages of a kernel that has a bug. Left out are allocation failures, the OOM
# killer and RCU stalls, which tell of load. An emulated CPU that waits for the
# host's looks like an RCU stall.
vm_klog_bad='\bBUG:|kernel BUG at|WARNING:|Oops|general protection fault'
vm_klog_bad+='|INFO: task .* blocked|blocked for more than|soft lockup'
vm_klog_bad+='|hard LOCKUP|refcount_t:|KASAN|UBSAN|Kernel panic'

# Parameters of the kernel. A processor that is locked up stays so. The kernel
# prints where all of them are, and ends the guest long before its timeout.
vm_parameters='console=ttyS0 loglevel=5 panic=-1 mitigations=off tsc=reliable'
vm_parameters+=' softlockup_all_cpu_backtrace=1 softlockup_panic=1'
vm_parameters+=${FARPAGE_VM_PARAMETERS:+" $FARPAGE_VM_PARAMETERS"}

vm_options_help ()
{
    cat <<'END'
  -m, --memory MIB         memory of a guest (2048)
  -c, --cpus N             processors of a guest (2)
  -t, --timeout SECONDS    end the run after that time (120)
  -M, --modules "A B"      modules to load before the command
  -e, --env NAME[=VALUE]   a variable for the command; may be repeated.
                           FARPAGE_* of the caller's environment always are
  -s, --share DIR          directory of the host that is /share in the guest,
                           writable (default: a temporary one)
  -k, --klog FILE          keep the kernel log there
  -i, --ignore-klog REGEX  lines of the kernel log that are no failure
                           (extended regular expression); may be repeated
  -q, --qemu "ARGS"        more arguments for QEMU, such as a disk
  -d, --disk FILE          what the guest writes to its root file system is
                           kept in FILE, for the next guest; made if need be
      --systemd            the guest starts as a machine does: systemd is PID 1,
                           COMMAND is run when multi-user.target is reached, and
                           then the guest is shut down (run only)
  -h, --help               show this text

Exit status: the command's, or
  2    bad usage
  124  timeout
  125  no guest could be started, or it died before the command ended
  126  the command ended, but the kernel log has a BUG, WARNING, Oops, hung
       task or the like; the lines are printed
The kernel log is searched, and what is found printed, in all cases.

Environment:
  FARPAGE_VM_CACHE    cache directory ($XDG_CACHE_HOME/farpage-vm)
  FARPAGE_VM_KERNEL   6.1 (default) or 6.12: the newest kernel of that series
                      that apt knows; or a release, such as 6.1.0-56-amd64
  FARPAGE_VM_ACCEL    kvm or tcg (default: kvm if a trial boot works), or
                      icount: the guest's clock counts instructions, a
                      nanosecond each, whatever the host does. One processor,
                      whatever --cpus says; not in run-pair
  FARPAGE_VM_PARAMETERS
                      more parameters of the kernel, such as idle=poll
  FARPAGE_VM_THREADS  multi (default) or single: emulate all processors of a
                      guest by one thread. Slower, but QEMU before 8.1 does not
                      break a kernel that patches itself
END
}

# vm_bad_usage TEXT: print TEXT, and end with status 2.
vm_bad_usage ()
{
    vm_say "$* (see --help)"
    exit 2
}

# vm_number OPTION VALUE: check that VALUE is a number from 1.
vm_number ()
{
    [[ $2 =~ ^[1-9][0-9]*$ ]] || vm_bad_usage "$1: '$2' is not a number"
}

# Parse the options that run and run-pair share into opt_*, and put the rest
# into vm_rest. The caller defines usage and opt_net, and lists in vm_networks
# the values of --net.
vm_parse_options ()
{
    local parsed

    opt_memory=2048 opt_cpus=2 opt_timeout=120 opt_modules='' opt_share=''
    opt_disk='' opt_lan='' opt_donor_memory='' opt_init=command opt_klog='' opt_env=() opt_ignore=() opt_qemu=()
    parsed=$(getopt -n "${0##*/}" -o +m:c:t:n:M:e:s:k:i:q:d:h -l \
memory:,cpus:,timeout:,net:,modules:,env:,share:,klog:,ignore-klog:,qemu:,disk:,lan:,donor-memory:,systemd,help \
        -- "$@") || exit 2
    eval set -- "$parsed"
    while :; do
        case $1 in
        -m | --memory) vm_number "$1" "$2"; opt_memory=$2 ;;
        -c | --cpus) vm_number "$1" "$2"; opt_cpus=$2 ;;
        -t | --timeout) vm_number "$1" "$2"; opt_timeout=$2 ;;
        -n | --net)
            [[ " $vm_networks " == *" $2 "* ]] ||
                vm_bad_usage "$1: '$2' is none of: $vm_networks"
            opt_net=$2
            ;;
        -M | --modules) opt_modules+=" $2" ;;
        -e | --env)
            [[ $2 =~ ^[A-Za-z_][A-Za-z_0-9]*(=|$) ]] ||
                vm_bad_usage "$1: '$2' is not NAME or NAME=VALUE"
            opt_env+=("$2")
            ;;
        -s | --share)
            [[ -d $2 && -w $2 ]] ||
                vm_bad_usage "$1: '$2' is not a writable directory"
            opt_share=$(cd "$2" && pwd)
            ;;
        -k | --klog) opt_klog=$2 ;;
        -d | --disk) opt_disk=$2 ;;
        --lan) opt_lan=$2 ;;
        --donor-memory) vm_number "$1" "$2"; opt_donor_memory=$2 ;;
        --systemd) opt_init=systemd; shift; continue ;;
        -i | --ignore-klog)
            # grep exits with 2 if the expression is bad.
            grep -E -e "$2" </dev/null || (( $? == 1 )) ||
                vm_bad_usage "$1: bad regular expression '$2'"
            opt_ignore+=("$2")
            ;;
        -q | --qemu) read -r -a opt_qemu <<<"${opt_qemu[*]-} $2" ;;
        -h | --help) usage; exit 0 ;;
        --) shift; break ;;
        esac
        shift 2
    done
    # shellcheck disable=SC2034 # for the caller
    vm_rest=("$@")
}

# vm_write_guest CONTROL NAME NET RDMA ADDRESS STAY: write the guest's settings,
# and its command. The command comes on standard input, as shell text.
vm_write_guest ()
{
    local control=$1 name variable

    mkdir "$control"
    cp "$vm_dir/guest/init" "$control/init"
    {
        printf 'vm_name=%q vm_net=%q vm_rdma=%q vm_address=%q vm_stay=%q\n' \
            "${@:2}"
        printf 'vm_modules=%q vm_cwd=%q vm_bin=%q vm_init=%q vm_timeout=%q\n' \
            "$opt_modules" "$PWD" "$vm_dir/guest/bin" "$opt_init" "$opt_timeout"
    } > "$control/settings"
    {
        for name in $(compgen -e FARPAGE_); do
            printf 'export %s=%q\n' "$name" "${!name}"
        done
        for variable in "${opt_env[@]}"; do
            name=${variable%%=*}
            if [[ $variable == *=* ]]; then
                printf 'export %s=%q\n' "$name" "${variable#*=}"
            elif [[ -n ${!name+set} ]]; then
                printf 'export %s=%q\n' "$name" "${!name}"
            fi
        done
        cat
    } > "$control/command"
}

# Print the kernel's parameter for the frequency of the time stamp counter. An
# emulated guest has the host's counter. If it measures the frequency itself on
# a busy host, it is wrong by factors. Then its clock is wrong, too, and all its
# deadlines pass too soon. If the host cannot tell a processor's current
# frequency (no aperfmperf), /proc/cpuinfo has that of the counter.
vm_tsc ()
{
    [[ ${vm_accel[1]} == tcg* ]] || return 0
    if [[ ${vm_accel[2]} == -icount ]]; then
        echo tsc_early_khz=1000000 # it counts nanoseconds
        return
    fi
    awk '/^flags/ { known = !/ aperfmperf/ && / constant_tsc/ }
        /^cpu MHz/ { mhz = $4 }
        known && mhz { printf "tsc_early_khz=%d", mhz * 1000; exit }' \
        /proc/cpuinfo
}

# vm_boot CONTROL SHARE SECONDS QEMU-ARGUMENT...: replace this process by QEMU
# with the guest. Run it in the background. The guest's console is standard
# output.
vm_boot ()
{
    local control=$1 share=$2 seconds=$3 disk=()
    shift 3

    if [[ -n $opt_disk ]]; then
        if [[ ! -e $opt_disk ]]; then
            truncate -s 2G "$opt_disk"
            mkfs.ext4 -q -O ^has_journal "$opt_disk"
        fi
        disk=(-drive "file=${opt_disk//,/,,},if=virtio,format=raw,cache=unsafe")
    fi
    exec timeout -k 5 "$seconds" qemu-system-x86_64 "${vm_accel[@]}" \
        -m "$opt_memory" -smp "$opt_cpus" -nodefaults -display none \
        -no-reboot -pidfile "$control/qemu.pid" \
        -kernel "$vm_kernel/boot/vmlinuz-$vm_release" -initrd "$vm_initrd" \
        -append "$vm_parameters $(vm_tsc)" \
        -serial "file:$control/klog" \
        -device virtio-serial-pci -chardev stdio,id=out,signal=off \
        -device virtconsole,chardev=out \
        -device isa-debug-exit,iobase=0xf4,iosize=0x04 \
        -virtfs "$(vm_virtfs rootfs /),readonly=on" \
        -virtfs "$(vm_virtfs modules \
                       "$vm_kernel/lib/modules/$vm_release"),readonly=on" \
        -virtfs "$(vm_virtfs control "$control")" \
        -virtfs "$(vm_virtfs share "$share")" \
        "${disk[@]}" "${opt_qemu[@]}" "$@" </dev/null
}

# vm_virtfs TAG PATH: print QEMU's option. A comma in a path is doubled for
# QEMU.
vm_virtfs ()
{
    echo "local,path=${2//,/,,},mount_tag=$1,security_model=none,multidevs=remap"
}

# vm_bad_lines KLOG: print the lines of the kernel log that are a failure.
# Return 1 if there are none.
vm_bad_lines ()
{
    local klog=$1 ignore args=()

    for ignore in "${opt_ignore[@]}"; do
        args+=(-e "$ignore")
    done
    if (( ${#args[@]} > 0 )); then
        tr -d '\r' < "$klog" | grep -a -v -E "${args[@]}"
    else
        tr -d '\r' < "$klog"
    fi | grep -a -E "$vm_klog_bad"
}

# vm_judge_klog CONTROL NAME: print the bad lines of the kernel log on standard
# error. Set vm_klog_is_bad to yes or no.
vm_judge_klog ()
{
    local control=$1 name=$2 bad line

    vm_klog_is_bad=no
    if [[ -f $control/klog ]] && bad=$(vm_bad_lines "$control/klog"); then
        vm_klog_is_bad=yes
        vm_say "$name: bad lines in the kernel log:"
        while IFS= read -r line; do
            echo "$name: klog: $line" >&2
        done <<<"$bad"
    fi
}

# vm_say_klog CONTROL: print the kernel log on standard error, from its first bad
# line on, for that is what the others come from. Print its end if none is bad.
vm_say_klog ()
{
    local first

    [[ -f $1/klog ]] || return 0
    first=$(tr -d '\r' < "$1/klog" | grep -a -n -m 1 -E "$vm_klog_bad" | cut -d: -f1) || true
    if [[ -n $first ]]; then
        vm_say "its kernel log from the first bad line:"
        sed -n "$first,$((first + 199))p" "$1/klog" >&2
    else
        vm_say "the end of its kernel log:"
        tail -n 25 "$1/klog" >&2
    fi
}

# vm_judge CONTROL NAME QEMU-STATUS: set vm_verdict to the exit status for a
# guest that has ended. Print on standard error what went wrong, unless it was
# the command.
vm_judge ()
{
    local control=$1 name=$2 qemu_status=$3

    if [[ $opt_init == systemd ]] && (( qemu_status != 0 )) && [[ -s $control/status ]]; then
        vm_say "$name: the command has ended, but the guest was not shut down in time"
        vm_verdict=$vm_status_timeout
    elif [[ -s $control/status ]]; then
        vm_verdict=$(<"$control/status")
    elif [[ -s $control/setup-failed ]]; then
        vm_say "$name: set-up failed: $(<"$control/setup-failed")"
        vm_verdict=$vm_status_died
    elif (( qemu_status == 124 || qemu_status == 137 )); then
        vm_say "$name: timeout"
        vm_say_klog "$control"
        vm_verdict=$vm_status_timeout
    else
        vm_say "$name: guest died"
        vm_say_klog "$control"
        vm_verdict=$vm_status_died
    fi
    vm_judge_klog "$control" "$name"
    if [[ $vm_klog_is_bad == yes && -s $control/status ]]; then
        vm_say "$name: the command itself ended with status $vm_verdict"
        vm_verdict=$vm_status_klog
    fi
}

# vm_keep_klog CONTROL FILE: copy the kernel log to FILE, for a person to read.
vm_keep_klog ()
{
    if [[ -f $1/klog ]]; then
        tr -d '\r' < "$1/klog" > "$2"
    fi
}
