#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Over shm, a client that was stopped for longer than its lease cannot damage
# memory that another client has by then. Nor does it trust the data in its own
# memory.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"
# shellcheck source=tests/integration/memserver.sh
. "$top_srcdir/tests/integration/memserver.sh"

# The lease is as long as a client's work may take on a busy machine.
serve 12 1

ended () { grep -q "$1: session ends" "$tmp/m.log"; }

# Meanwhile another client attached the volume, over shm or over tcp.
for t in "$unix shm" "$tcp tcp"; do
    # shellcheck disable=SC2086
    set -- $t
    waiting "$unix" "sleeper-$2" open:1:c:shm grant:2 label:1 fill:9 hold scribble:7
    wait_until 20 ended "sleeper-$2"
    client "$1" "next-$2" "open:1:r:$2" list:64 expect-slabs:2 check:9 fill:5 bye
    go_on "sleeper-$2"
    client "$1" "last-$2" "open:1:r:$2" list:64 expect-slabs:2 check:5 discard
    grep -q 'copied, as a client' "$tmp/m.log" || fail "nothing was copied"
    wait_until 30 all_free
done

# Or another volume has got all memory of the server.
waiting "$unix" owner open:2:c:shm grant:3 label:1 fill:9 grant:2 hold scribble:7
wait_until 40 all_free
client "$unix" other open:3:c:shm grant-all expect-slabs:16 check:0 label:1 \
    fill:5 bye
go_on owner
client "$unix" other2 open:3:r:shm list:64 expect-slabs:16 check:5 discard
wait_until 30 all_free

# The server ended this session, and the client may not know it yet. No other
# client gets the volume until the client must know.
waiting "$unix" rude open:4:c:shm grant:2 label:1 fill:9 fails:EPROTO open:4:r:shm hold
wait_until 20 ended rude
client "$unix" early fails:EBUSY open:4:r:shm
wait_until 20 "$memclient" "$unix" late open:4:r:shm list:64 expect-slabs:2 \
    check:9 discard
go_on rude
# If a client hung up, it has nothing mapped any more, and no copy is needed.
client "$unix" polite open:5:c:shm grant:2 label:1 fill:9
before=$(grep -c 'copied, as' "$tmp/m.log")
wait_until 20 "$memclient" "$unix" second open:5:r:shm list:64 expect-slabs:2 check:9 discard
[ "$(grep -c 'copied, as' "$tmp/m.log")" = "$before" ] || fail "copied without need"

# The plugin is stopped for too long, while a connection has a request for it.
# Meanwhile another client attaches the volume and writes.
requires qemu-io --version
volume=(size=8M "$MLOCK" uuid=01234567-89ab-cdef-0123-456789abcdef)
start_nbdkit a "$FARPAGE_PLUGIN" "$unix" "${volume[@]}" await=2000
a_pid=$(cat "$tmp/a.pid")
mkfifo "$tmp/asks"
export uri="nbd+unix:///?socket=$tmp/a.sock"
"$NBDSH" -c '
import os, sys
h.connect_uri(os.environ["uri"])
h.pwrite(b"1" * 65536, 0)
print("written", flush=True)
sys.stdin.readline()
buf = nbd.Buffer(4096)
fresh = nbd.Buffer(4096)
read = h.aio_pread(buf, 0)
unwritten = h.aio_pread(fresh, 4 << 20)
write = h.aio_pwrite(b"3" * 4096, 8192)
while h.aio_get_direction() & nbd.AIO_DIRECTION_WRITE:
    h.poll(100)
print("asked", flush=True)
for name, cookie, buf in (("read", read, buf), ("fresh", unwritten, fresh),
                          ("write", write, buf)):
    try:
        while not h.aio_command_completed(cookie):
            h.poll(100)
        print(name, buf.to_bytearray()[:1].decode(), flush=True)
    except nbd.Error as e:
        print(name, e.errno, flush=True)
' <"$tmp/asks" >"$tmp/answers.log" 2>&1 &
asker=$!
cleanup_fn kill -9 $asker
exec 7>"$tmp/asks"
wait_until 30 grep -q written "$tmp/answers.log"
kill -STOP "$a_pid"
cleanup_fn kill -CONT "$a_pid"
wait_until 20 grep -q ":$a_pid: session ends: was silent" "$tmp/m.log"
start_nbdkit b "$FARPAGE_PLUGIN" "$unix" "${volume[@]}" resume=true keep=true
qemu-io -f raw "nbd+unix:///?socket=$tmp/b.sock" -c 'read -P 0x31 0 64k' \
    -c 'write -P 0x32 0 64k' -c 'write -P 0x34 4M 64k' >"$tmp/io.log"
if grep -i -e failed -e error "$tmp/io.log"; then fail "the next one"; fi
echo go >&7
wait_until 30 grep -q asked "$tmp/answers.log"
kill -CONT "$a_pid"
wait $asker || fail "$(cat "$tmp/answers.log")"
cat "$tmp/answers.log"
if grep -q 'read 1' "$tmp/answers.log"; then fail "it read what is no longer there"; fi
# The first client never wrote this extent, but the other one has by then.
grep -q 'fresh EIO' "$tmp/answers.log" || fail "it took for zeros what another has written"
# The other client has the volume, so the first one cannot get it back.
grep -q 'write EIO' "$tmp/answers.log" || fail "a write came to nothing, and was acknowledged"
qemu-io -f raw "nbd+unix:///?socket=$tmp/b.sock" -c 'read -P 0x32 0 64k' >"$tmp/io.log"
if grep -i -e failed -e error "$tmp/io.log"; then fail "the next one was spoilt"; fi
