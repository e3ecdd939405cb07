#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Other people's programs on the device: nbdcopy of a sparse random disk and
# back, qemu-io, and fio with verify and several connections.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"

requires nbdcopy --version
requires nbdkit sparse-random --version
start_memserver m --listen "unix:$tmp/m.usock" --size 128M --slab 4M
tcp=$(grep -v '^unix:' "$tmp/m.addr")

for server in "unix:$tmp/m.usock" "$tcp"; do
    case $server in unix:*) n=shm ;; *) n=tcp ;; esac
    start_nbdkit $n "$FARPAGE_PLUGIN" "$server" size=96M transport=$n "$MLOCK" \
                 connections=4
    uri="nbd+unix:///?socket=$tmp/$n.sock"

    # Set a run length that gives hundreds of runs. By default sparse-random has
    # some of megabytes, or none. Compare with cmp, as sparse-random itself
    # takes zeros for any data.
    for i in 1 2; do
        # shellcheck disable=SC2016 # for nbdkit
        uri2=$uri tmp=$tmp nbdkit -U - sparse-random 96M seed=$((RANDOM)) \
            percent=40 runlength=100000 --run \
            'nbdcopy "$uri" "$uri2" && nbdcopy "$uri" "$tmp/orig"' ||
            fail "$n: it cannot be copied ($i)"
        nbdcopy "$uri" "$tmp/back"
        cmp "$tmp/orig" "$tmp/back" || fail "$n: the copy came back different ($i)"
        rm "$tmp/orig" "$tmp/back"
    done

    if qemu-io --version >/dev/null 2>&1; then
        qemu-io -f raw "$uri" -c 'write -P 7 4190000 9000' \
            -c 'read -P 7 4190000 9000' -c 'write -z -u 4M 4M' \
            -c 'read -P 0 4M 4M' -c 'aio_write -P 3 8M 16M' -c 'aio_flush' \
            -c 'read -P 3 8M 16M' -c 'discard 8M 16M' -c 'read -P 0 8M 16M' \
            -c 'write -P 9 1M 30M' -c 'write -z 3000000 20M' -c 'read -P 0 3000000 20M' \
            -c 'read -P 9 1M 1951424' -c 'read -P 9 23971520 5m' \
            -c 'flush' >"$tmp/qemu-io.log" || fail "$n: qemu-io"
        # qemu-io exits with 0 even if a pattern differs.
        if grep -i -e failed -e error "$tmp/qemu-io.log"; then fail "$n: qemu-io"; fi
    fi

    if fio --enghelp=nbd >/dev/null 2>&1; then
        fio --name=v --ioengine=nbd --uri="$uri" --thread --numjobs=4 \
            --rw=randwrite --bssplit=512/20:4k/50:60k/20:1m/10 --bs_unaligned=1 \
            --iodepth=8 --size=24M --offset_increment=24M --verify=crc32c \
            --verify_fatal=1 --do_verify=1 --verify_state_save=0 >"$tmp/fio.log" 2>&1 ||
            fail "$n: fio verify"
    fi
    stop "$(cat "$tmp/$n.pid")"
done
