#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# A guest has one volume mounted, and pages swapped out to another one. Its
# shutdown is in order, without an error, and in time. After the next boot it
# has both again. The memory server is a process of this host. FARPAGE_DEBS is a
# directory with packages to install instead of the build tree.

# shellcheck source=lib/test.sh
. "$(dirname "$0")/lib/test.sh"
requires_reboot
requires jq mkfs.ext4

server=
# shellcheck disable=SC2317 # called by the trap
cleanup ()
{
    if [[ -n $server ]]; then kill "$server"; wait "$server"; fi
    rm -rf "$tmp"
}
trap cleanup EXIT

"$build/run" farpage-memserver --size 256M --slab 16M --reserve 0 --hugepages off \
    --listen 127.0.0.1:0 --address-file "$tmp/address" 2>"$tmp/server.log" &
server=$!
put_farpage "$build"
server_address

# shut_down NAME: check in the kernel log that the shutdown was clean and in
# order.
shut_down ()
{
    local bad log=$tmp/$1.klog before after
    if bad=$(grep -aiE 'I/O error|EXT4-fs (error|warning)|Failed unmounting|swap-device|nbd[0-9]+: (Connection timed out|Possible stuck)|farpage.*(Failed|timed out)|marked to be excluded' "$log")
    then fail "$1: not clean: $bad"; else pass "$1: no error"; fi
    if grep -aq 'reboot: Restarting system' "$log"; then pass "$1: it came to its end"
    else fail "$1: no end: $(tail -n 20 "$log")"; fi
    while read -r before after; do
        if awk -v a="$before" -v b="$after" \
            'index ($0, a) { first = NR } index ($0, b) { second = NR }
             END { exit !(first && second && first < second) }' \
            <(grep -aE 'systemd\[1\]: (Stopped|Unmounted) ' "$log")
        then pass "$1: $before goes before $after"
        else fail "$1: $before goes before $after: $(grep -aE 'Stopped|Unmounted|Stopping' "$log")"; fi
    done <<END
farpage-swap@far.service farpage@far.service
farpage@far.service vm-network.service
srv-data.mount farpage@data.service
farpage@data.service vm-network.service
END
}

# boot NAME: boot the guest for that half of reboot-cases, and check its
# shutdown.
boot ()
{
    claim 0 "$1 boot" "$vm/run" --systemd --disk "$tmp/disk" --net user --memory 1024 \
        --share "$tmp/share" --klog "$tmp/$1.klog" --timeout "${TEST_REBOOT_TIMEOUT:-850}" "$vm/guest/reboot-cases" "$1" "$address"
    claim_output "^ok $1\$" "$1"
    if [[ -s $tmp/$1.klog ]]; then shut_down "$1"; fi
}
boot first
boot second
finish
