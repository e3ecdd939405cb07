#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# swap=true: at the start, nbdkit gets all memory that it needs. It is given
# requests while one server is silent for a while and another dies. The copies
# of the dead server are rebuilt elsewhere, and it comes back. The same is done
# with TLS. No thread that I/O waits for touches a page for the first time, so
# that none asks the kernel for memory. Only the allocations that docs/SWAP.md
# lists are made, from memory that is there.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"

requires addr2line --version
requires jq --version
[ -z "$SANITIZER_PRELOAD" ] || skip "a sanitizer allocates memory by itself"
[ "$NBDSH" != no ] || skip "no nbdsh (Debian: python3-libnbd)"
[ "$(ulimit -l)" = unlimited ] || [ "$(id -u)" = 0 ] || skip "needs root"
preload=$top_builddir/tests/count-later.so
[ -e "$preload" ] || fail "no $preload"

# Each place that allocates must have one of these functions on its stack. They
# reconnect the client, or map a slab of a server on this machine. The last one
# is nbdkit's own, for a connection.
bounded='fp_ctl_open|tcp_conn_open|shm_conn_open|shm_import|fp_tls_|threadlocal_buffer'

server () # NAME ADDR
{
    start_memserver "$1" --listen "unix:$tmp/$1.usock" --size 96M --slab 4M --reserve 0 \
                    --name "$1" ${2:+--listen "$2"} "${tls[@]/#tls/--tls}"
}

doc () { farpage status --socket "$tmp/$name.status" --json; }
# all_is EXPRESSION: succeed if jq finds it true of the status document.
all_is () { doc | jq -e "$1" >/dev/null; }
up () { all_is "[.servers[] | select(.state == \"up\")] | length == $1"; }
whole () { all_is '.volume.extents_degraded == 0 and .volume.bytes_to_resync == 0'; }

# Write, read and compare on two connections, until the file "enough" exists.
load ()
{
    uri="nbd+unix:///?socket=$tmp/$name.sock" enough=$tmp/$name.enough "$NBDSH" -c - <<'EOF'
import os, random, time
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
    time.sleep(0.01)  # leave the processors to the servers
    if rounds == 5:
        open(os.environ["enough"] + ".ready", "w")
print(rounds, "rounds of requests")
EOF
}

# faults: print NAME TID COUNT for each thread that I/O may wait for.
faults ()
{
    local task comm
    for task in "/proc/$pid/task/"*; do
        comm=$(<"$task/comm")
        case $comm in
        fp-status | fp-change) ;;
        *) echo "$comm ${task##*/} $(awk '{ sub(/.*\) /, ""); print $8 + $10 }' "$task/stat")" ;;
        esac
    done | sort
}

# places FILE: print each place that allocated, with the names of its functions,
# on one line. The plugin's dynamic symbols lack most of its functions, so
# addr2line names them.
places ()
{
    "$SED" -n 's/.*nbdkit-farpage-plugin\.so(+\(0x[0-9a-f]*\)).*/\1/p' "$1" | sort -u >"$tmp/offsets"
    addr2line -f -e "$top_builddir/nbdkit-plugin/nbdkit-farpage-plugin.so" <"$tmp/offsets" \
        >"$tmp/lines"
    "$SED" -n 'p;n' "$tmp/lines" | paste "$tmp/offsets" - >"$tmp/names"
    # shellcheck disable=SC2016 # awk's
    awk -F '\t' '
        NR == FNR { name[$1] = $2; next }
        / allocations, / { printf "\n%s:", $0; next }
        { at = substr($0, index($0, "(") + 1) }
        /nbdkit-farpage-plugin\.so/ { sub(/^\+/, "", at); sub(/\).*/, "", at); printf " %s", name[at]; next }
        /\([a-z_]/ { sub(/\+.*/, "", at); printf " %s", at; next }
        { printf " ?" }
        END { print "" }' "$tmp/names" "$1"
}

farpage keygen "$tmp/key"
for name in tcp shm tls; do
    transport=$name tls=()
    if [ $name = tls ]; then
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
    # Run it as in operation. With -v it logs, and allocates, for each request.
    COUNT_LATER=$tmp/$name.count LD_PRELOAD=$preload nbdkit -f -t 1 -U "$tmp/$name.sock" \
        "$FARPAGE_PLUGIN" transport=$transport swap=true size=16M copies=2 connections=2 \
        timeout=5000 rebuild-delay=0 status="$tmp/$name.status" "${servers[@]}" "${tls[@]}" >"$tmp/$name.log" 2>&1 &
    pid=$!
    cleanup_fn stop $pid
    wait_until 30 nbdinfo --size "nbd+unix:///?socket=$tmp/$name.sock"
    load >"$tmp/$name.load" 2>&1 &
    load=$!
    wait_until 30 test -e "$tmp/$name.enough.ready"
    wait_until 10 up 3

    # Count from here on.
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
    wait_until 10 grep -q ', fp-status$' "$tmp/$name.count.txt" # counting works

    touch "$tmp/$name.enough"
    wait $load || { cat "$tmp/$name.load"; fail "$name: the load failed"; }
    stop "$pid"
    echo "$name: $(cat "$tmp/$name.load")"
    places "$tmp/$name.count.txt" | grep -v ', fp-status:\|, fp-change:\|^$' \
        >"$tmp/$name.places" || :
    echo "$name: allocations after the start:"
    # GnuTLS allocates in hundreds of places, for each connection and each
    # record.
    if [ $name = tls ]; then
        grep -cE 'fp_tls_' "$tmp/$name.places"
        grep -vE 'fp_tls_' "$tmp/$name.places" || :
    else
        cat "$tmp/$name.places"
    fi
    if grep -vE "$bounded" "$tmp/$name.places"; then
        fail "$name: these are not among those that there should be"
    fi
    # Mapping memory of another process causes faults, but takes no new memory.
    # If NUMA balancing is on, the kernel unmaps pages to see which node uses
    # them.
    if [ $transport = tcp ] && [ "$(cat /proc/sys/kernel/numa_balancing 2>/dev/null || echo 0)" = 0 ]; then
        # With TLS the migration thread has been seen to touch two pages (docs/SWAP.md).
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
