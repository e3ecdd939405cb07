#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The plugin's memory is locked, in the foreground and in the background. An 8
# GiB volume with 4 connections in use locks less than 32 MiB, or 48 MiB.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"

[ -z "$SANITIZER_PRELOAD" ] || skip "a sanitizer has too much memory to lock"
[ "$NBDSH" != no ] || skip "no nbdsh (Debian: python3-libnbd)"
[ "$(ulimit -l)" = unlimited ] || [ "$(id -u)" = 0 ] || skip "needs root"

start_memserver m --listen "unix:$tmp/m.usock" --size 64M --slab 4M
kb () { sed -nE "s/^$2:[[:space:]]+([0-9]+) kB$/\1/p" "/proc/$1/$3"; }

# use PID SOCKET: read and write on four connections, and print VmLck (kB)
# meanwhile.
use ()
{
    pid=$1 uri="nbd+unix:///?socket=$2" "$NBDSH" -c - <<'EOF'
import os
import nbd
conns = []
for i in range(4):
    c = nbd.NBD()
    c.connect_uri(os.environ["uri"])
    c.pwrite(bytes([i + 1]) * (1 << 20), i << 22)
    conns.append(c)
for c in conns:
    assert c.pread(8, 0) == b"\1" * 8
with open("/proc/%s/status" % os.environ["pid"]) as f:
    print([l.split()[1] for l in f if l.startswith("VmLck")][0])
EOF
}

# Recent releases of nbdkit start all threads of a connection at once, each with a
# stack of 256 KiB that counts as locked and is hardly touched.
most=32768
minor=$(nbdkit --version | sed -E 's/^nbdkit [0-9]+\.([0-9]+).*/\1/')
if [ "$minor" -gt 32 ]; then most=49152; fi

for server in "unix:$tmp/m.usock" "$(grep -v '^unix:' "$tmp/m.addr")"; do
    for mode in foreground background; do
        sock=$tmp/$mode.sock
        rm -f "$sock"
        if [ $mode = foreground ]; then
            start_nbdkit $mode "$FARPAGE_PLUGIN" "$server" size=8G connections=4
            pid=$(cat "$tmp/$mode.pid")
        else
            "${nbdkit_cmd[@]}" -U "$sock" -P "$tmp/$mode.pid" "$FARPAGE_PLUGIN" \
                "$server" size=8G connections=4
            wait_until 10 nbdinfo --size "nbd+unix:///?socket=$sock"
            pid=$(pid_in "$tmp/$mode.pid")
            cleanup_fn stop "$pid"
        fi
        locked=$(use "$pid" "$sock")
        echo "$server, $mode: VmLck $locked kB with 4 connections in use"
        [ "$locked" -gt 4096 ] || fail "$mode: only $locked kB are locked"
        [ "$locked" -lt $most ] || fail "$mode: $locked kB are locked"
        # All anonymous memory that is present is locked. Unused buffers of
        # nbdkit are not present. The state of the vDSO's getrandom (dp, from glibc 2.41
        # and Linux 6.11) cannot be locked. It is never swapped.
        unlocked=$(awk '/^[0-9a-f]+-/ { rw = $2 ~ /^rw-p/ }
            /^Anonymous:/ && rw { a = $2 } /^VmFlags:/ && rw && !/ (lo|dp) / { s += a }
            END { print s + 0 }' "/proc/$pid/smaps")
        [ "$unlocked" = 0 ] || fail "$mode: $unlocked kB of anonymous memory are not locked"
        # The code is present, too, and not only locked once it is read from a
        # disk.
        absent=$(awk '/^[0-9a-f]+-/ { x = $2 == "r-xp" && $6 ~ /^\// }
            x && /^Size:/ { s += $2 } x && /^Rss:/ { s -= $2 }
            END { print s + 0 }' "/proc/$pid/smaps")
        [ "$absent" = 0 ] || fail "$mode: $absent kB of code are not in memory"
        stop "$pid"
    done
done

# With mlock=false nothing is locked.
start_nbdkit not "$FARPAGE_PLUGIN" "unix:$tmp/m.usock" size=8G mlock=false
[ "$(kb "$(cat "$tmp/not.pid")" VmLck status)" = 0 ] || fail "mlock=false locks"

# anonymous NAME ARG...: set $anon to the kB in memory before the first request.
anonymous ()
{
    local name=$1
    shift
    start_nbdkit "$name" "$FARPAGE_PLUGIN" "unix:$tmp/m.usock" size=64M connections=4 "$@"
    anon=$(kb "$(cat "$tmp/$name.pid")" RssAnon status)
    stop "$(cat "$tmp/$name.pid")"
}

# The buffers of encryption, 3 MiB for each connection, are in memory before the
# first write. Touching one later may need memory while the host has none.
anonymous plain
plain=$anon
anonymous sealed encrypt=ephemeral
echo "RssAnon before the first request: $plain kB, with encryption $anon kB"
[ $((anon - plain)) -ge $((4 * 3072)) ] || fail "the buffers of encryption are not in memory"
