#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# One command makes a memory server, and one command swaps to two of them, over
# TLS and over a reboot, also if a server starts later than the client. One server
# is a process of this host, the other one a service of the guest, which is the
# client, too. FARPAGE_DEBS is a directory with packages to install instead of the
# build tree.

# shellcheck source=lib/test.sh
. "$(dirname "$0")/lib/test.sh"
requires_reboot
requires etcd etcdctl jq

server=
# shellcheck disable=SC2317 # called by the trap
cleanup ()
{
    if [[ -n $server ]]; then kill "$server"; kill -CONT "$server"; wait "$server"; fi
    rm -rf "$tmp"
}
trap cleanup EXIT

mkdir "$tmp/share" "$tmp/etc"
printf '%s\n' 'slab = 8M' 'reserve = 0' 'hugepages = off' 'listen = 127.0.0.1:0' >"$tmp/etc/memserver.conf"
config=$tmp/etc/memserver.conf
claim 0 "a server on this host is set up" "$build/run" farpage-memserver setup --size 128M --config "$config"
"$build/run" farpage-memserver --config "$config" --listen 127.0.0.1:0 --address-file "$tmp/address" \
    2>"$tmp/server.log" &
server=$!
"$build/run" farpage-memserver token --config "$config" --server --ttl 1h >"$tmp/share/server.token"
"$build/run" farpage-memserver token --config "$config" --user guest --ttl 1h >"$tmp/share/client.token"
put_farpage "$build"
server_address

# boot HALF: boot the guest for that half of setup-cases.
boot ()
{
    claim 0 "$1 boot" "$vm/run" --systemd --disk "$tmp/disk" --net user --memory 1024 \
        --share "$tmp/share" --timeout "${TEST_REBOOT_TIMEOUT:-850}" "$vm/guest/setup-cases" "$1" "$address"
    claim_output "^ok $1\$" "$1"
    return $((failures > 0))
}
boot first
# At the second boot this server is late: it answers when the guest has tried once.
kill -STOP "$server"
boot second &
second=$!
for ((i = 0; i < 8000; i++)); do
    if [[ -e $tmp/share/serve ]] || ! kill -0 $second 2>/dev/null; then break; fi
    sleep 0.1
done
kill -CONT "$server"
wait $second || failures=$((failures + 1))
finish
