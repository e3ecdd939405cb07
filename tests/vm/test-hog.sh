#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The memory hog swaps, accepts its own contents, and finds a flipped bit. This
# is on zram, which is correct, so that the hog can judge other swap devices.

# shellcheck source=lib/test.sh
. "$(dirname "$0")/lib/test.sh"
requires_guest
requires mkswap swapon
requires_hog

# The cgroup is short of memory long before the machine is.
# shellcheck disable=SC2016 # for the guest
swap_and_run='
echo 320M > /sys/block/zram0/disksize && mkswap /dev/zram0 >/dev/null &&
    swapon /dev/zram0 || exit 9
echo +memory > /sys/fs/cgroup/cgroup.subtree_control
mkdir /sys/fs/cgroup/hog
echo 96M > /sys/fs/cgroup/hog/memory.max
echo $$ > /sys/fs/cgroup/hog/cgroup.procs
"$@"
status=$?
echo $$ > /sys/fs/cgroup/cgroup.procs
swapoff /dev/zram0 || exit 9
exit $status'
in_guest=("$vm/run" --timeout 600 -M zram bash -c "$swap_and_run" hog "$hog")

claim 0 "contents come back from swap as they were" \
    "${in_guest[@]}" --random 500 160
claim_output '^fill: .* out [1-9][0-9]{3,} ' "thousands of pages went out"
claim_output '^fault latency: [1-9][0-9]+ faults' "faults were timed"
claim_output ' 0 bad checks, contents OK$' "the verdict is printed"
grep -E '^(fill|verify|random|fault)' "$tmp/output"
claim 1 "a spoilt bit is found" "${in_guest[@]}" --random 0 --corrupt 160
claim_output '^page 20480 is CORRUPT$' "the page is named"

# The first check finds the bit. One of thousands of touches of 256 pages finds
# it, too, and writes that page again. The second check then finds nothing.
claim 1 "a touch finds it, and makes it good" "$hog" --random 4000 --corrupt 1
claim_output ' 2 bad checks, CORRUPT$' "the first look and the touch count"
claim 1 "touches of others leave it" "$hog" --random 1 --corrupt 1
claim_output ' 2 bad checks, CORRUPT$' "the second look counts"

claim 2 "bad usage is told" "$hog" 0
claim 2 "a number is a number" "$hog" 12x
claim 0 "--help works" "$hog" --help

finish
