#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# One memory server, and backup=PATH: it is killed while fio writes and
# verifies. No request fails, the contents are right, and status says where
# they come from. It comes back with nothing, and gets all of it again from the
# backup. Then a disk that is full: the volume goes on with its server.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"

[ "$NBDSH" != no ] || skip "no nbdsh (Debian: python3-libnbd)"
LD_PRELOAD=$SANITIZER_PRELOAD nbdkit --dump-plugin "$FARPAGE_PLUGIN" |
    grep -q '^farpage_backup=yes' || skip "built without liburing"

# status FIELD: of the backup
status ()
{
    python3 - "$tmp/$1.status" "$2" <<'END'
import json
import socket
import sys

s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
d = json.loads(s.makefile().read())
print(eval(sys.argv[2], {"d": d, "b": d["volume"]["backup"]}))
END
}

# Some of fio's requests are done.
busy () { [ "$(status "$1" 'd["volume"]["writes"]')" -gt 200 ]; }
says () { [ "$(status "$1" "$2")" = "$3" ]; }

# fio NAME SECONDS: writes and verifies, until nothing can be older or wrong
verify ()
{
    fio --name=v --ioengine=nbd --uri="nbd+unix:///?socket=$tmp/$1.sock" --rw=randrw --bs=4k,16k \
        --size=48M --iodepth=8 --verify=crc32c --verify_backlog=64 --verify_fatal=1 \
        --time_based --runtime="$2" --randseed=7 >"$tmp/$1.fio" 2>&1
}

for t in tcp shm; do
    start_memserver m$t --listen "unix:$tmp/m$t.usock" --size 96M --slab 4M
    if [ $t = shm ]; then server=unix:$tmp/m$t.usock
    else server=$(grep -v '^unix:' "$tmp/m$t.addr"); fi
    start_nbdkit $t "$FARPAGE_PLUGIN" "$server" size=64M transport=$t \
                 timeout=5000 reserve=full backup="$tmp/$t.disk" backup-lag=4M \
                 status="$tmp/$t.status" "$MLOCK"
    says $t 'b["serving"], b["failed"], b["missing"]' '(False, False, 0)' ||
        fail "$t: $(status $t d)"
    # Nobody else may use it.
    if LD_PRELOAD=$SANITIZER_PRELOAD nbdkit -U - "$FARPAGE_PLUGIN" "$server" size=4M transport=$t \
        backup="$tmp/$t.disk" "$MLOCK" --run true 2>"$tmp/second"; then
        fail "$t: two have one backup"
    fi
    grep -q 'another process uses it' "$tmp/second" || fail "$t: $(cat "$tmp/second")"

    # Part 1 is there before, part 2 is written while it dies.
    uri="nbd+unix:///?socket=$tmp/$t.sock"
    "$NBDSH" -u "$uri" -c 'h.pwrite(bytes(range(256)) * 4096, 60 << 20)' -c 'h.flush()'
    if command -v fio >/dev/null && fio --enghelp=nbd >/dev/null 2>&1; then
        verify $t 6 &
        fio=$!
        wait_until 30 busy $t
        kill -KILL "$(cat "$tmp/m$t.pid")"
        wait $fio || { cat "$tmp/$t.fio"; fail "$t: fio"; }
    else
        kill -KILL "$(cat "$tmp/m$t.pid")"
    fi
    "$NBDSH" -u "$uri" -c '
assert h.pread(1 << 20, 60 << 20) == bytes(range(256)) * 4096
h.pwrite(b"after" * 1000, 12345)
h.zero(100000, 50 << 20)
h.flush()
assert h.pread(5000, 12345) == b"after" * 1000
assert h.pread(100000, 50 << 20) == bytes(100000)
'
    says $t 'b["serving"], b["failed"], b["local"] > 0, d["volume"]["errors"]' '(True, False, True, 0)' ||
        fail "$t: $(status $t d)"
    wait_until 20 grep -q 'SERVING FROM BACKUP' "$tmp/$t.log"
    farpage status --socket "$tmp/$t.status" >"$tmp/$t.text"
    grep -q "SERVING FROM BACKUP: $tmp/$t.disk" "$tmp/$t.text" || { cat "$tmp/$t.text"; fail "$t: status"; }

    # The server is there again, with nothing.
    rm -f "$tmp/m$t.usock"
    start_memserver again$t --listen "${server#server=}" --size 96M --slab 4M
    wait_until 60 says $t 'b["serving"], b["local"], d["volume"]["pieces_lost"]' '(False, 0, 0)'
    reads=$(status $t 'b["reads"]')
    "$NBDSH" -u "$uri" -c '
assert h.pread(1 << 20, 60 << 20) == bytes(range(256)) * 4096
assert h.pread(5000, 12345) == b"after" * 1000
assert h.pread(100000, 50 << 20) == bytes(100000)
'
    says $t 'b["reads"], d["volume"]["errors"]' "($reads, 0)" || fail "$t: $(status $t d)"
    wait_until 20 grep -q 'have all that is in the backup again' "$tmp/$t.log"
    stop "$(cat "$tmp/$t.pid")"
done

# The disk is full: the servers go on alone, and without them nothing is
# answered that is older.
mkdir "$tmp/small"
if [ "$(id -u)" = 0 ] && mount -t tmpfs -o size=12M small "$tmp/small" 2>/dev/null; then
    cleanup_fn umount "$tmp/small"
    start_memserver mfull --size 64M --slab 4M
    server=$(grep -v '^unix:' "$tmp/mfull.addr")
    start_nbdkit full "$FARPAGE_PLUGIN" "$server" size=32M transport=tcp timeout=5000 \
                 backup="$tmp/small/disk" backup-lag=1M status="$tmp/full.status" "$MLOCK"
    # A file that has to be there as a whole is refused at once.
    if LD_PRELOAD=$SANITIZER_PRELOAD nbdkit -U - "$FARPAGE_PLUGIN" "$server" size=20M transport=tcp \
        backup="$tmp/small/other" reserve=full "$MLOCK" --run true 2>"$tmp/refused"; then
        fail "there was no room for it"
    fi
    grep -q 'backup=.*/small/other: needs 21M' "$tmp/refused" || fail "$(cat "$tmp/refused")"
    uri="nbd+unix:///?socket=$tmp/full.sock"
    "$NBDSH" -u "$uri" -c '
for i in range(32):
    h.pwrite(bytes([i]) * (1 << 20), i << 20)
h.flush()
for i in range(32):
    assert h.pread(1 << 20, i << 20) == bytes([i]) * (1 << 20)
'
    says full 'b["failed"], d["volume"]["errors"]' '(True, 0)' || fail "$(status full d)"
    wait_until 20 grep -q 'BACKUP FAILED.*No space left' "$tmp/full.log"
    farpage status --socket "$tmp/full.status" | grep -q 'BACKUP FAILED: .*No space left' ||
        fail "status says nothing of it"
    kill -KILL "$(cat "$tmp/mfull.pid")"
    "$NBDSH" -u "$uri" -c '
try:
    h.pread(4096, 0)
except nbd.Error as e:
    assert e.errno == "EIO", e.errno
else:
    raise SystemExit("the backup that failed was read")
'
    stop "$(cat "$tmp/full.pid")"
else
    echo "cannot mount a tmpfs: not tested with a disk that is full"
fi
