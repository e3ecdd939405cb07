#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Three guests in a network, as in "Swap to two donors" of README: one command on
# each of two memory servers, and one on a client. Then each of the three is
# rebooted in turn. FARPAGE_DEBS is a directory with packages to install instead
# of the build tree. TEST_TRANSCRIPT is a directory for what the guests print.

# shellcheck source=lib/test.sh
. "$(dirname "$0")/lib/test.sh"
requires_reboot

put_farpage "$build"
# shellcheck disable=SC2317 # called by the trap
cleanup ()
{
    local pids
    mapfile -t pids < <(jobs -p)
    if (( ${#pids[@]} > 0 )); then pkill -P "$(IFS=,; echo "${pids[*]}")"; fi
    wait
    rm -rf "$tmp"
}
trap cleanup EXIT
transcripts=${TEST_TRANSCRIPT:-$tmp}
group=239.$((RANDOM % 256)).$((RANDOM % 256)).$((RANDOM % 256)):$((20000 + RANDOM % 10000))

# guest NAME N: boot the guest twice.
guest ()
{
    local i

    for i in 1 2; do
        "$vm/run" --systemd --disk "$tmp/$1.disk" --net lan --lan "$1,$2,$group" --memory 1280 --cpus 1 \
            --share "$tmp/share" --timeout "${TEST_REBOOT_TIMEOUT:-1500}" "$vm/guest/lan-cases" "$1" $i && continue
        touch "$tmp/share/failed"
        return 1
    done >"$transcripts/$1.out" 2>&1
    # The client swaps in from the memory servers when it is shut down.
    [[ $1 != client ]] || echo yes >"$tmp/share/end"
}
names=(donor1 donor2 client)
for n in 1 2 3; do
    guest "${names[n - 1]}" $n &
    pids[n]=$!
done
for n in 1 2 3; do claim 0 "${names[n - 1]}" wait "${pids[n]}"; done
if (( failures > 0 )); then
    for n in "${names[@]}"; do sed "s/^/    $n: /" "$transcripts/$n.out"; done
fi
finish
