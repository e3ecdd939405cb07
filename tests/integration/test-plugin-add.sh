#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Servers are added to an attached volume and removed from it, with and without
# a volume name. Extents are placed on the new server. If nbdkit is killed, the
# next one finds all servers. A change that is not possible is refused and
# changes nothing.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"

[ "$NBDSH" != no ] || skip "no nbdsh (Debian: python3-libnbd)"
server () { # NAME [SLAB]
    rm -f "$tmp/$1.addr"
    start_memserver "$1" --listen "unix:$tmp/$1.usock" --size 32M --slab "${2:-1M}" \
                    --reserve 0 --name "$1"
}
server large 2M
tcp () { grep -v '^unix:' "$tmp/$1.addr"; }

# plugin NAME ARG...: start the plugin as the supervisor of farpage attach does.
plugin ()
{
    local name=$1
    shift
    rm -f "$tmp/$name.sock"
    start_nbdkit "$name" "$FARPAGE_PLUGIN" "$MLOCK" timeout="${timeout:-5000}" connections=2 \
        keep=true status="$tmp/status" members="$tmp/members" "$@"
}

doc () # EXPRESSION: print it; doc is the status document
{
    farpage status --socket "$tmp/status" --json | /usr/bin/python3 -c '
import json, sys
doc = json.load(sys.stdin)
def at(addr): return [s for s in doc["servers"] if s["addr"] == addr][0]
print(eval(sys.argv[1]))' "$1"
}
is () { [ "$(doc "$1")" = "$2" ]; }

# servers add|remove ARG...: run this command, which must succeed.
servers ()
{
    local word=$1
    shift
    timeout 60 farpage servers "$word" "$tmp/status" "$@" >"$tmp/out" 2>"$tmp/err" ||
        fail "servers $word $*: $(cat "$tmp/err")"
}
refused () # TEXT add|remove ARG...
{
    local text=$1 word=$2 status=0 before
    shift 2
    before=$(doc 'sorted(s["addr"] for s in doc["servers"])')
    timeout 60 farpage servers "$word" "$tmp/status" "$@" >"$tmp/out" 2>"$tmp/err" ||
        status=$?
    [ $status = 1 ] || fail "servers $word $*: exit status $status, not 1"
    grep -qF -- "$text" "$tmp/err" ||
        fail "servers $word $*: no '$text' in: $(cat "$tmp/err")"
    is 'sorted(s["addr"] for s in doc["servers"])' "$before" ||
        fail "servers $word $*: refused, and the servers are others: $(doc 'doc["servers"]')"
}
drain ()
{
    timeout 60 farpage drain "$tmp/status" "$1" >"$tmp/out" 2>"$tmp/err" ||
        fail "drain $1: $(cat "$tmp/err")"
}

# extents NAME write|check COUNT: check the data of the first COUNT extents, and
# that the others are zeros. With 'write', fill them first.
extents ()
{
    uri="nbd+unix:///?socket=$tmp/$1.sock" what=$2 n=$3 "$NBDSH" -c - <<'PYTHON' ||
import os
h.connect_uri(os.environ["uri"])
MiB = 1 << 20
what, n = os.environ["what"], int(os.environ["n"])
for i in range(24):
    if what == "write" and i < n:
        h.pwrite(bytes([i + 1]) * MiB, i * MiB)
    want = bytes([i + 1]) if i < n else b"\0"
    assert h.pread(MiB, i * MiB) == want * MiB, i
PYTHON
        fail "$1: $2 $3 extents"
}

change_servers () # KIND ARG...: KIND is for messages, ARG for the plugin
{
    local kind=$1 a b c uuid log
    shift
    for i in a b c; do server $i; done
    a=$(tcp a) b=unix:$tmp/b.usock c=$(tcp c)
    plugin "$kind" "$a" size=24M "$@"
    extents "$kind" write 4
    [ "$(cat "$tmp/members")" = "$a" ] || fail "$kind: says of its servers: $(cat "$tmp/members")"

    refused "already" add "$a"
    refused "is the same server as" add "unix:$tmp/a.usock"
    refused "is the same server as" add "localhost:${a##*:}"
    refused "refused" add 127.0.0.1:1
    refused "slabs of 2M" add "$(tcp large)"
    refused "last server" remove "$a"
    refused "is not a server of this volume" remove "$b"

    servers add "$b",domain=rack2
    grep -qF "$b,domain=rack2: added" "$tmp/out" || fail "says: $(cat "$tmp/out")"
    [ "$(tail -n 1 "$tmp/members")" = "$b,domain=rack2" ] ||
        fail "$kind: $b is not among $(cat "$tmp/members")"
    extents "$kind" write 16
    is "at('$b')['extents'] > 0" True || fail "$kind: nothing is on $b"
    refused "farpage drain" remove "$b"
    farpage status --socket "$tmp/status" | grep -qF "server         $b" ||
        fail "farpage status does not show it"

    # The next nbdkit is told of the first server only.
    uuid=$(doc 'doc["volume"]["uuid"]')
    kill_9 "$(cat "$tmp/$kind.pid")"
    plugin "$kind-2" "$a" size=24M "$@" uuid="$uuid" resume=true
    extents "$kind-2" check 16
    is 'len(doc["servers"])' 2 || fail "$kind: not 2 servers"

    # Move all data to a third server, which replaces the first two.
    farpage servers add --json "$tmp/status" "$c" | grep -q '"done": *true' ||
        fail "servers add --json"
    drain "$a"
    drain "$b"
    servers remove "$a" "$b"
    is '[s["addr"] for s in doc["servers"]]' "['$c']" ||
        fail "$kind: its servers are $(doc '[s["addr"] for s in doc["servers"]]')"
    extents "$kind-2" write 20
    farpage servers "$a" | grep -q ", volume" && fail "$a still knows the volume"
    stop "$(cat "$tmp/a.pid")"
    stop "$(cat "$tmp/b.pid")"
    kill_9 "$(cat "$tmp/$kind-2.pid")"
    plugin "$kind-3" "$a" size=24M "$@" uuid="$uuid" resume=true
    extents "$kind-3" check 20
    is 'doc["volume"]["errors"]' 0 || fail "$kind: there were errors"
    for log in "$kind" "$kind-2"; do
        if grep 'error: .*server' "$tmp/$log.log"; then fail "that is no error"; fi
    done
    grep -qF "farpage: server $b: it joins the volume" "$tmp/$kind.log" ||
        fail "$kind: it is not said that $b joins"
    grep -qF "farpage: server $b: it has left the volume" "$tmp/$kind-2.log" ||
        fail "$kind: it is not said that $b left"
    stop "$(cat "$tmp/$kind-3.pid")"
    stop "$(cat "$tmp/c.pid")"
    rm "$tmp/members"
}

change_servers nameless
change_servers named volume=v

# A server accepts the connection and does not answer. With FARPAGE_BENCH=yes
# the plugin reports it after its timeout. Else the test lets the server go on
# before that.
slow=60000
if [ "${FARPAGE_BENCH:-}" = yes ]; then slow=6000; fi
server a
timeout=$slow plugin slow "$(tcp a)" size=8M
kill -STOP "$(cat "$tmp/large.pid")"
refused "$(tcp large)" add "$(tcp large)" &
adds=$!
# No other client of the status socket waits for that. Nor does it wait for
# clients that say nothing or do not read.
status="$tmp/status" wanted="$(tcp large)" /usr/bin/python3 - <<'PYTHON' || fail "status while a server joins"
import json, os, socket, time
def client():
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(60)
    s.connect(os.environ["status"])
    return s
def ask():
    start, c = time.monotonic(), client()
    c.sendall(b"status\n")
    doc = json.loads(c.makefile().read())
    return doc["changes"], time.monotonic() - start
deadline = time.monotonic() + 60
while not ask()[0]:
    assert time.monotonic() < deadline, "nothing is being added"
    time.sleep(0.02)
others = [client() for i in range(12)]
changes, took = ask()
assert took < 1.5 or os.environ.get("FARPAGE_BENCH") != "yes", "status took %.1f s" % took
assert changes, "it is over: this proves nothing"
assert changes[0]["what"] == "add" and changes[0]["addr"] == os.environ["wanted"], changes
PYTHON
farpage status --socket "$tmp/status" | grep -qE "server +$(tcp large): joining, for [0-9]+ s now" ||
    fail "farpage status does not say that it joins"
if [ "$slow" = 60000 ]; then kill -CONT "$(cat "$tmp/large.pid")"; fi
wait $adds || exit 1
kill -CONT "$(cat "$tmp/large.pid")"

# A server is removed while it does not answer. It comes back with its memory,
# which only this client would find again, and joins as a new one.
memclient="$top_builddir/tests/integration/memclient"
[ -x "$memclient" ] || skip "memclient was not built"
kill_9 "$(cat "$tmp/slow.pid")"
rm "$tmp/members"
for i in x y z; do
    start_memserver $i --listen "unix:$tmp/$i.usock" --size 64M --slab 1M --reserve 0 --lease 5
done
z=$(tcp z)
is_orphan () { "$memclient" "unix:$tmp/z.usock" other fails:ENOENT lookup-id:4; }
healthy () { is '(d := doc["volume"])["extents_degraded"] + d["extents_lost"]' 0; }
plugin back "$(tcp x)" server="$(tcp y)" server="$z" size=24M copies=2 rebuild-delay=0 \
    uuid=05000000-0000-0000-0000-000000000000 client=89abcdef-0123-4567-89ab-cdef01234567
extents back write 24
kill -STOP "$(cat "$tmp/z.pid")"
wait_until 60 is "at('$z')['state'] != 'up'" True
wait_until 60 healthy
servers remove "$z"
kill -CONT "$(cat "$tmp/z.pid")"
wait_until 60 is_orphan
servers add "$z"
extents back check 24
is "at('$z')['state']" up || fail "$z is not up"
