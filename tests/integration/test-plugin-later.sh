#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# swap=true: what nbdkit needs it has at the start. From its first answers to its
# end it is given requests, while a server is silent for a while, one dies, its
# copies are made anew elsewhere, and it comes back; with TLS, too: no thread that I/O waits for
# touches a page for the first time, so that the kernel is asked for none; and what
# is allocated, from memory that is there, is what docs/SWAP.md lists.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"

requires addr2line --version
requires jq --version
[ -z "$SANITIZER_PRELOAD" ] || skip "a sanitizer allocates memory by itself"
[ "$NBDSH" != no ] || skip "no nbdsh (Debian: python3-libnbd)"
[ "$(ulimit -l)" = unlimited ] || [ "$(id -u)" = 0 ] || skip "needs root"
preload=$top_builddir/tests/.libs/count-later.so
[ -e "$preload" ] || fail "no $preload"

# The functions of which one is in each place that allocates: the client's end of
# a connection that is made anew; and what maps a slab of a server on this machine.
# What nbdkit makes for a connection is its own.
bounded='fp_ctl_open|tcp_conn_open|shm_conn_open|shm_import|fp_tls_|threadlocal_buffer'

server () # NAME ADDR
{
    start_memserver "$1" --listen "unix:$tmp/$1.usock" --size 96M --slab 4M --reserve 0 \
                    --name "$1" ${2:+--listen "$2"} "${tls[@]/#tls/--tls}"
}

doc () { farpage status --socket "$tmp/$name.status" --json; }
# all_is EXPRESSION, of the status document
all_is () { doc | jq -e "$1" >/dev/null; }
up () { all_is "[.servers[] | select(.state == \"up\")] | length == $1"; }
whole () { all_is '.volume.pieces_degraded == 0 and .volume.bytes_to_rebuild == 0'; }

# Two connections that write, read and compare, until there is a file "enough".
load ()
{
    uri="nbd+unix:///?socket=$tmp/$name.sock" enough=$tmp/$name.enough "$NBDSH" -c - <<'EOF'
import os, random
import nbd
conns = []
for i in range(2):
    c = nbd.NBD()
    c.connect_uri(os.environ["uri"])
    conns.append(c)
rounds = 0
while not os.path.exists(os.environ["enough"]):
    for size in (4096, 65536, 1 << 20, 12288):
        for c in conns:
            at = random.randrange(0, (16 << 20) - size, 4096)
            data = random.randbytes(512) * (size // 512)
            c.pwrite(data, at)
            assert c.pread(size, at) == data
    rounds += 1
    if rounds == 5:
        open(os.environ["enough"] + ".ready", "w")
print(rounds, "rounds of requests")
EOF
}

# faults: NAME TID COUNT, of each thread for which I/O may wait
faults ()
{
    local task comm
    for task in "/proc/$pid/task/"*; do
        comm=$(<"$task/comm")
        case $comm in
        fp-status | fp-metrics | fp-change) ;;
        *) echo "$comm ${task##*/} $(awk '{ sub(/.*\) /, ""); print $8 + $10 }' "$task/stat")" ;;
        esac
    done | sort
}

# places: each that allocated, with its functions by name, in one line; those of
# the plugin, which are not in its dynamic symbols, by addr2line
places ()
{
    local line offset
    "$SED" -n 's/.*nbdkit-farpage-plugin\.so(+\(0x[0-9a-f]*\)).*/\1/p' "$1" | sort -u >"$tmp/offsets"
    addr2line -f -e "$top_builddir/nbdkit-plugin/.libs/nbdkit-farpage-plugin.so" <"$tmp/offsets" \
        >"$tmp/lines"
    "$SED" -n 'p;n' "$tmp/lines" | paste "$tmp/offsets" - >"$tmp/names"
    while read -r line; do
        offset=${line#*(+} offset=${offset%%)*}
        case $line in
        *' allocations, '*) echo; echo -n "$line:" ;;
        *nbdkit-farpage-plugin.so*) echo -n " $("$SED" -n "s/^$offset\t//p" "$tmp/names")" ;;
        *'('[a-z_]*) line=${line#*(}; echo -n " ${line%%+*}" ;;
        *) echo -n " ?" ;;
        esac
    done <"$1"
    echo
}

farpage keygen "$tmp/key"
for name in tcp shm tls; do
    transport=$name tls=()
    if [ $name = tls ]; then
        grep -q '^#define HAVE_GNUTLS 1' "$top_builddir/config.h" || break
        transport=tcp tls=("tls-psk=$tmp/key")
    fi
    for s in a b c; do rm -f "$tmp/$s.addr"; server $s; done
    servers=()
    for s in a b c; do
        case $transport in
        tcp) servers+=(server="$(grep -v '^unix:' "$tmp/$s.addr")") ;;
        *) servers+=(server="unix:$tmp/$s.usock") ;;
        esac
    done
    printf '\0' >"$tmp/$name.count"
    # As in operation: -v has it say, and allocate, something for each request.
    COUNT_LATER=$tmp/$name.count LD_PRELOAD=$preload nbdkit -f -t 1 -U "$tmp/$name.sock" \
        "$FARPAGE_PLUGIN" transport=$transport swap=true size=16M copies=2 connections=2 \
        timeout=5000 rebuild_delay=0 status="$tmp/$name.status" "${servers[@]}" "${tls[@]}" >"$tmp/$name.log" 2>&1 &
    pid=$!
    cleanup_fn stop $pid
    wait_until 30 nbdinfo --size "nbd+unix:///?socket=$tmp/$name.sock"
    load >"$tmp/$name.load" 2>&1 &
    load=$!
    wait_until 30 test -e "$tmp/$name.enough.ready"
    wait_until 10 up 3

    # From here on.
    faults >"$tmp/$name.before"
    printf '\1' | dd of="$tmp/$name.count" conv=notrunc status=none
    if [ $transport = tcp ]; then
        kill -STOP "$(cat "$tmp/a.pid")"
        wait_until 20 up 2
        kill -CONT "$(cat "$tmp/a.pid")"
        wait_until 20 up 3
    fi
    wait_until 20 whole
    kill_9 "$(cat "$tmp/b.pid")"
    wait_until 20 up 2
    wait_until 30 whole
    addr=$(grep -v '^unix:' "$tmp/b.addr")
    rm -f "$tmp/b.addr" "$tmp/b.usock"
    server b "$addr"
    wait_until 20 up 3
    wait_until 20 whole
    faults >"$tmp/$name.after"
    printf '\2' | dd of="$tmp/$name.count" conv=notrunc status=none
    doc >/dev/null
    wait_until 10 grep -q ', fp-status$' "$tmp/$name.count.txt" # it would see them

    touch "$tmp/$name.enough"
    wait $load || { cat "$tmp/$name.load"; fail "$name: the load failed"; }
    stop "$pid"
    echo "$name: $(cat "$tmp/$name.load")"
    places "$tmp/$name.count.txt" | grep -v ', fp-status:\|, fp-metrics:\|, fp-change:\|^$' \
        >"$tmp/$name.places" || :
    echo "$name: allocations after the start:"
    # GnuTLS has hundreds of places, for each connection and for each record.
    if [ $name = tls ]; then
        grep -cE 'fp_tls_' "$tmp/$name.places"
        grep -vE 'fp_tls_' "$tmp/$name.places" || :
    else
        cat "$tmp/$name.places"
    fi
    if grep -vE "$bounded" "$tmp/$name.places"; then
        fail "$name: these are not among those that there should be"
    fi
    # Memory of another process that is mapped is no new memory; and a kernel that
    # looks which node uses a page takes it away to see that.
    if [ $transport = tcp ] && [ "$(cat /proc/sys/kernel/numa_balancing 2>/dev/null || echo 0)" = 0 ]; then
        # With TLS the mover has been seen to take two; docs/SWAP.md.
        most=0
        [ $name != tls ] || most=8
        diff "$tmp/$name.before" "$tmp/$name.after" >"$tmp/$name.faults" || :
        new=$(awk '$1 == "<" { n -= $4 } $1 == ">" { n += $4 } END { print n + 0 }' "$tmp/$name.faults")
        if [ "$new" -gt $most ]; then
            cat "$tmp/$name.faults"
            fail "$name: $new pages were touched for the first time (thread, id, faults)"
        fi
    fi
    for s in a b c; do stop "$(cat "$tmp/$s.pid")"; rm -f "$tmp/$s.usock"; done
done
