#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The guest runner keeps its promises: status and output pass through, and the
# host does not change. A kernel that complains makes the run fail.

# shellcheck source=lib/test.sh
. "$(dirname "$0")/lib/test.sh"
requires_guest
requires mkfs.ext4 fsfreeze

cd "$tmp" || exit 1
mkdir share
# shellcheck disable=SC2016 # for the guest
FARPAGE_TEST='two  words
two lines' claim 42 "the command's status passes through" \
    "$vm/run" --net rxe --timeout 300 --share share -e OTHER=x --cpus 2 bash -c '
        echo to-stdout; echo to-stderr >&2; pwd
        echo "variable:$FARPAGE_TEST:$OTHER:"
        echo from-guest > /share/file
        touch only-in-guest
        modprobe -a nbd rdma_rxe rdma_ucm ib_uverbs nvme-rdma nvmet-rdma \
            nvme-tcp null_blk brd zram && echo modules-loaded
        test -b /dev/nbd0 && echo has-nbd0
        test -c /dev/infiniband/uverbs0 && echo has-uverbs0
        test -w /dev/shm -a -w /tmp && echo has-tmp
        test -d /sys/kernel/config/nvmet && echo has-configfs
        test -d /sys/kernel/debug/block && echo has-debugfs
        test -f /sys/fs/cgroup/cgroup.controllers && echo has-cgroup2
        ip -o addr show lo | grep -q 127.0.0.1 && echo has-lo
        echo "cpus:$(nproc)"
        exit 42'
claim_output '^to-stdout$' "standard output passes through"
claim_output '^to-stderr$' "standard error passes through"
claim_output "^$tmp\$" "the current directory is the caller's"
claim_output '^variable:two  words$' "FARPAGE_ variables pass through"
claim_output '^two lines:x:$' "--env passes a variable"
for line in modules-loaded has-nbd0 has-uverbs0 has-tmp has-configfs \
    has-debugfs has-cgroup2 has-lo cpus:2; do
    claim_output "^$line\$" "the guest has what it should: $line"
done
claim 0 "/share is the host's" grep -q from-guest share/file
claim 1 "nothing else of the host is written" test -e only-in-guest

claim 0 "an argument is passed as it is" \
    "$vm/run" printf '<%s>' "it's  \$HOME" ''
claim_output "^<it's  \\\$HOME><>\$" "blanks and quotes stay"

# Bytes that a terminal would change, and more of them than any buffer holds.
bytes=(bash -c 'printf "a\r\n\t\0\377\n"; seq 100000')
"${bytes[@]}" > expected
claim 0 "a command with much output runs" "$vm/run" "${bytes[@]}"
mv output output.bytes
claim 0 "output passes through byte by byte" cmp expected output.bytes

complain=(sh -c 'echo "WARNING: test" > /dev/kmsg')
claim 126 "WARNING in the kernel log fails the run" \
    "$vm/run" --klog klog "${complain[@]}"
claim_output 'klog: .*WARNING: test' "the bad line is printed"
claim 0 "--klog keeps the log" grep -q 'WARNING: test' klog
claim 0 "--ignore-klog forgives it" \
    "$vm/run" --ignore-klog 'WARNING: test' "${complain[@]}"

# A write to a frozen file system sleeps, and cannot be killed.
claim 126 "a hung task fails the run" \
    "$vm/run" --timeout 300 -M brd bash -c '
        sysctl -n kernel.hung_task_timeout_secs kernel.softlockup_panic
        sysctl -q kernel.hung_task_timeout_secs=3 \
            kernel.hung_task_check_interval_secs=1
        mkfs.ext4 -q /dev/ram0 && mount /dev/ram0 /mnt || exit 1
        fsfreeze -f /mnt
        touch /mnt/file &
        dmesg --follow | timeout 120 grep -q "blocked for more than"'
claim_output '^30$' "hung task detection is on"
claim_output '^1$' "a locked-up processor ends the run"

claim 125 "a crash is a death" "$vm/run" sh -c 'echo c > /proc/sysrq-trigger'
claim_output 'Kernel panic' "the kernel log tells how"
claim 124 "a timeout is told" "$vm/run" --timeout 12 sleep 60
claim 2 "bad usage is told" "$vm/run" --memory none true
claim 2 "no command is bad usage" "$vm/run"
claim 0 "--help works" "$vm/run" --help

finish
