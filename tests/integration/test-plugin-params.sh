#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Bad parameters, through nbdkit, in the foreground and in the background: exit
# status 1, one error line that says why, and nothing left behind.
# (unit/test-params.c has those that params.c refuses by itself.)

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"

start_memserver m --listen "unix:$tmp/m.usock" --size 32M --slab 4M
tcp=$(grep -v '^unix:' "$tmp/m.addr")

# refuse REGEX ARG...: check that nbdkit does not start, with one error that
# matches.
refuse ()
{
    local regex=$1 mode f status
    shift
    for mode in --foreground --newstyle; do # the second is the default
        status=0
        timeout 60 "${nbdkit_cmd[@]}" $mode -U "$tmp/n.sock" -P "$tmp/n.pid" \
            "$FARPAGE_PLUGIN" "$@" "$MLOCK" status="$tmp/n.status" \
            2>"$tmp/err" || status=$?
        [ $status != 124 ] || fail "$*: was accepted"
        [ $status = 1 ] || fail "$*: exit status $status, not 1"
        [ "$(grep -c 'error:' "$tmp/err")" = 1 ] ||
            { cat "$tmp/err"; fail "$*: not one error line"; }
        grep -qE "error: .*$regex" "$tmp/err" ||
            { cat "$tmp/err"; fail "$*: does not say $regex"; }
        for f in n.sock n.pid n.status; do
            [ ! -e "$tmp/$f" ] || fail "$*: left $f behind"
        done
    done
}

refuse "server=ADDR is required" size=1G
refuse "size=SIZE is required" "$tcp"
refuse "unknown parameter 'colour'" "$tcp" size=16M colour=red
refuse "size was given before" "$tcp" size=16M size=16M
refuse "given twice" "$tcp" server="$tcp" size=16M
refuse "multiple of 512" "$tcp" size=1000
refuse "multiple of 512" "$tcp" size=0
refuse "size=lots" "$tcp" size=lots
refuse "server=a:b:c" server=a:b:c size=16M
refuse "transport=pigeon.*auto, rdma, shm or tcp" "$tcp" size=16M transport=pigeon
refuse "needs server=unix:PATH" "$tcp" size=16M transport=shm
refuse "timeout=1" "$tcp" size=16M timeout=1
refuse "2 copies need as many servers, and 1 is given" "$tcp" size=16M copies=2
refuse "2 copies need as many servers, and 1 is given" "$tcp" size=16M copies=2 volume=v
refuse "copies=5" "$tcp" size=16M copies=5 volume=v
refuse "needs volume=NAME" "$tcp" size=16M takeover=true
refuse "needs volume=NAME" "$tcp" size=16M degraded=true
for name in '' a/b "$(printf 'a\033[31m')" 'a b' "$(printf '%0300d' 0)"; do
    refuse "volume=NAME: a name is 1 to 64" "$tcp" size=16M volume="$name"
done
refuse "contradict" "$tcp" size=16M volume=v uuid=01234567-89ab-cdef-0123-456789abcdef
refuse "volume v is gone" "$tcp" size=16M volume=v resume=true
refuse "contradict" "$tcp" size=16M swap=true reserve=thin

# Errors that only a server can tell.
refuse "$tcp.*slab" "$tcp" size=16M slab=8M
refuse "server.*(can )?lend .*(slabs)" "$tcp" size=36M reserve=full
refuse "server.*(can )?lend .*(slabs)" "unix:$tmp/m.usock" size=36M reserve=full
maps=$(cat /proc/sys/vm/max_map_count)
if [ "$maps" -lt 1000000 ]; then
    refuse "shm maps each extent by itself, and $maps .*max_map_count.*larger --slab" \
        "unix:$tmp/m.usock" size=$((maps * 4))M
fi
refuse "unix:$tmp/none.usock" "unix:$tmp/none.usock" size=16M
if [ ! -d /sys/class/infiniband ] || [ -z "$(ls /sys/class/infiniband)" ]; then
    refuse "rdma.*(device|RDMA)" "$tcp" size=16M transport=rdma
fi

# A file in the place of the status socket is refused, and kept.
echo data >"$tmp/file"
status=0
timeout 60 "${nbdkit_cmd[@]}" -f -U "$tmp/n.sock" "$FARPAGE_PLUGIN" "$tcp" \
    size=16M "$MLOCK" status="$tmp/file" 2>"$tmp/err" || status=$?
[ $status = 1 ] || fail "took a file for a socket: exit status $status, not 1"
grep -q 'error: .*is not a socket' "$tmp/err" || fail "does not say that it is no socket"
[ "$(cat "$tmp/file")" = data ] || fail "damaged a file"

# A refused volume leaves no memory in use on the server.
start_nbdkit all "$FARPAGE_PLUGIN" "$tcp" size=32M reserve=full "$MLOCK"
refuse "lend" "$tcp" size=4M reserve=full
