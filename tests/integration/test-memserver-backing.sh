#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# --backing: a memory server that was killed at any time has its slabs and
# volumes after a restart. Memory without an owner is clean. A directory that
# the server cannot use is refused, and left as it is.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"
# shellcheck source=tests/integration/memserver.sh
. "$top_srcdir/tests/integration/memserver.sh"

has_tmpfs || skip "/dev/shm is no tmpfs, or too small"
top=$(mktemp -d /dev/shm/farpage-test.XXXXXX)
cleanup_fn rm -rf "$top"
dir=$top/b

# again: start the server as before, with $size, $lease and $orphan_time.
again ()
{
    rm -f "$tmp/m.addr"
    start_memserver m --listen "unix:$tmp/m.sock" --size "${size:-16M}" --slab 1M \
        --reserve 0 --backing "$dir" --lease "${lease:-30}" \
        --orphan-time "${orphan_time:-0}" --metrics "unix:$tmp/m.metrics"
    tcp=$(head -n1 "$tmp/m.addr")
    unix=unix:$tmp/m.sock
    server_pid=$(cat "$tmp/m.pid")
}
says () { grep -q -e "$2" "$tmp/$1.out" || fail "$1 does not say '$2': $(cat "$tmp/$1.out")"; }
# settled FREE: succeed if FREE slabs are free, and all others are lent.
settled () { server_stat | grep -q "^total=16 free=$1 lent=$((16 - $1)) "; }

# refused TEXT ARG...: check that a server with $size and $slab does not start,
# says TEXT, and changes nothing.
refused ()
{
    local text=$1 before
    shift
    before=$(ls -l -I lock "$dir" 2>&1; cat "$dir"/state "$dir"/volume-* 2>/dev/null | cksum)
    if timeout 60 farpage-memserver --listen "unix:$tmp/refused.sock" --reserve 0 \
               --size "${size:-16M}" --slab "${slab:-1M}" "$@" >"$tmp/refused.log" 2>&1; then fail "it started: $*"; fi
    grep -q -e "$text" "$tmp/refused.log" || fail "not '$text': $(cat "$tmp/refused.log")"
    [ "$before" = "$(ls -l -I lock "$dir" 2>&1; cat "$dir"/state "$dir"/volume-* 2>/dev/null | cksum)" ] ||
        fail "refused, and yet changed: $text"
}

# ---- directories that are refused ----

[ "$(stat -f -c %T "$tmp")" = tmpfs ] || refused 'is not on a tmpfs' --backing "$tmp"
mkdir -m 777 "$top/open"
refused "other users can change" --backing "$top/open"
refused 'No such file' --backing "$top/no/such"
slab=2M refused 'hugepages' --backing "$dir" --hugepages 2M
mkdir -m 700 "$dir"
touch "$dir/slab-3"
refused 'slab-3 and no state' --backing "$dir"
rm -r "$dir"

again
wait_until 30 settled 16 # slabs are populated after 'ready'
refused 'another server has this directory' --backing "$dir"
client "$unix" maker name:vol stripe:3x131072 open:1:c:tcp grant:3 label:7 fill:11 grant:2 \
    members:3:2 map:1:0-2 bye
# memclient does not ask for tails. So the server fills the tails of its slabs
# with 0xff: each region may be dirty. The tails of released slabs are zeros.
wait_until 30 settled 13
said=$(for f in "$dir"/slab-*; do tail -c 4096 "$f" | head -c 256 | od -An -v -tx1 | tr -d ' \n'; echo; done |
    sort | uniq -c | awk '{ print $1, substr($2, 1, 2), gsub(substr($2, 1, 2), "", $2) }' | sort | tr '\n' ,)
[ "$said" = '13 00 256,3 ff 256,' ] || fail "behind the slabs: $said"
client "$tcp" other open:2:c:tcp size:1048576 grant:1
client "$unix" noshm fails:EOPNOTSUPP open:3:c:shm
says noshm 'transport shm is not offered'
kill_9 "$server_pid"

slab=2M refused 'slabs of 1M, not of 2M' --backing "$dir"
size=2M refused 'slab [0-9]* is in use, but --size is for 2 slabs' --backing "$dir"
cp "$dir/state" "$tmp/state"
# spoil FILE OFFSET...: overwrite a byte at each offset. Data that is stored
# twice has two.
spoil ()
{
    local f=$1 at
    shift
    for at; do printf '\377' | dd of="$f" bs=1 seek="$at" conv=notrunc status=none; done
}
for at in 0 '40 90' 4096 '4130 4200'; do
    # shellcheck disable=SC2086 # several offsets
    spoil "$dir/state" $at
    refused 'state: .*nothing was changed' --backing "$dir"
    cp "$tmp/state" "$dir/state"
done
truncate -s 4096 "$dir/state"
refused 'it is truncated' --backing "$dir"
cp "$tmp/state" "$dir/state"
for v in "$dir"/volume-*; do
    cp "$v" "$tmp/volume"
    for at in 0 '80 1360'; do
        # shellcheck disable=SC2086
        spoil "$v" $at
        refused 'it is damaged; nothing was changed' --backing "$dir"
        cp "$tmp/volume" "$v"
    done
    truncate -s 4096 "$v"
    refused 'it is damaged; nothing was changed' --backing "$dir"
    cp "$tmp/volume" "$v"
done
for v in "$dir"/volume-*; do
    grep -q vol "$v" || continue
    mv "$v" "$tmp/volume"
    refused 'it is missing, but slab [0-9]* holds an extent of it; nothing was changed' \
        --backing "$dir"
    mv "$tmp/volume" "$v"
done
mv "$dir/slab-1" "$tmp/slab-1"
refused 'slab-1: it is in use, but cannot be opened' --backing "$dir"
truncate -s 4096 "$dir/slab-1"
refused 'slab-1: it is in use, but its size is wrong' --backing "$dir"
mv "$tmp/slab-1" "$dir/slab-1"

# ---- what a restart finds ----

again
grep -q 'volume vol: found again, with 3 slabs' "$tmp/m.log" || fail "vol was not found again"
client "$tcp" asks lookup:vol
says asks 'id=1 name=vol size=1099511627776 slab=1048576 copies=1 stripe=3x131072 slabs=3 .*ephemeral=0 attached=0 client=maker epoch=1 version=3 members=2'
client "$unix" back name:vol stripe:3x131072 open:1:r:tcp list:64 expect-slabs:3 check:11 expect-map:0:7 \
    members:3:2 fails:EINVAL members:3:1 release grant:1 label:8 fill:12 map:0:1-2 bye
# If the server is told to stop, the volume stays, too. So does a volume without
# a name, for its lease.
export MEMCLIENT_UUID=01234567-89ab-cdef-0123-456789abcdef
client "$tcp" nameless open:5:c:tcp grant:2 label:1 fill:13
stop "$server_pid"
grep -q "volume vol: kept in $dir, with 1 slabs" "$tmp/m.log" || fail "no word of what stays"
again
client "$tcp" back2 name:vol stripe:3x131072 open:1:r:tcp list:64 expect-slabs:1 check:12 expect-map:0:1 bye
client "$tcp" nameless2 open:5:r:tcp list:64 expect-slabs:2 check:13 discard
unset MEMCLIENT_UUID
# A deleted volume does not come back. Memory that other clients had is clean.
client "$tcp" deletes delete:1 fails:ENOENT lookup:vol
kill_9 "$server_pid"
again
wait_until 30 settled 16
client "$tcp" clean fails:ENOENT lookup:vol open:7:ce:tcp grant-all check:0 bye
# (The lease of 'other' still runs.)
[ "$(find "$dir" -name 'volume-*' | wc -l)" = 1 ] || fail "volumes were left"

# Start it with more slabs, and then with as many as before, since the others
# are free.
kill_9 "$server_pid"
size=24M again
client "$tcp" more open:7:ce:tcp grant:20 fill:1 bye
kill_9 "$server_pid"
again
wait_until 30 settled 16
[ ! -e "$dir/slab-20" ] || fail "slab 20 was left"

# After a restart, the lease of a volume without a name starts again. The last
# client is let in at once, another one only after the lease.
kill_9 "$server_pid"
lease=3
again
export MEMCLIENT_UUID=01234567-89ab-cdef-0123-456789abcdef
hanging "$tcp" holds open:5:c:tcp grant:2 label:1 fill:13
hanging "$tcp" holds2 name:n open:6:c:tcp grant:2 label:1 fill:14
kill_9 "$server_pid"
again
client "$tcp" same open:5:r:tcp list:64 expect-slabs:2 check:13
MEMCLIENT_UUID=11234567-89ab-cdef-0123-456789abcdef \
    client "$tcp" stranger name:n fails:EBUSY open:6:rt:tcp
says stranger 'may not know yet that it has lost it'
let_in ()
{
    MEMCLIENT_UUID=11234567-89ab-cdef-0123-456789abcdef \
        timeout 60 "$memclient" "$tcp" stranger name:n open:6:rt:tcp list:64 \
        expect-slabs:2 check:14 >"$tmp/stranger.out" 2>&1
}
wait_until 30 let_in
kill_9 "$server_pid"
again
client "$tcp" former name:n fails:EPERM open:6:r:tcp
unset MEMCLIENT_UUID
gone () { ! "$memclient" "$unix" asks lookup-id:5 >"$tmp/gone.log" 2>&1; }
wait_until 30 gone
wait_until 10 settled 14
client "$tcp" deletes delete:6

# ---- an orphan stays an orphan ----

orphan_time=600
orphan_slabs_are ()
{
    [ "$(python3 "$top_srcdir/tests/integration/metrics.py" value "unix:$tmp/m.metrics" \
        farpage_memserver_orphan_slabs)" = "$1" ]
}
if python3 --version >/dev/null; then
    kill_9 "$server_pid"
    lease=1
    again
    export MEMCLIENT_UUID=31234567-89ab-cdef-0123-456789abcdef
    client "$tcp" sleeps open:5:c:tcp grant:4 label:1 fill:15 reset
    wait_until 30 orphan_slabs_are 4
    kill_9 "$server_pid"
    again
    orphan_slabs_are 4 || fail "the orphan was taken for a volume that was left just now"
    (unset MEMCLIENT_UUID; client "$tcp" other fails:ENOENT lookup-id:5)
    client "$tcp" wakes open:5:r:tcp list:64 expect-slabs:4 check:15 discard
    unset MEMCLIENT_UUID
    wait_until 30 settled 16
    lease=3
fi
orphan_time=0

# ---- killed at any time ----

export MEMCLIENT_UUID=21234567-89ab-cdef-0123-456789abcdef
rounds=${ROUNDS:-25}
seed=${SEED:-$RANDOM}
echo "seed=$seed rounds=$rounds"
RANDOM=$seed
wait_until 30 settled 16
client "$tcp" base name:base open:0:c:tcp grant:2 label:1 fill:99 map:1:0-1 bye
for ((i = 1; i <= rounds; i++)); do
    # The first two end by themselves, and then their data must be there. The
    # third goes on until it is killed.
    "$memclient" "$tcp" first name:first open:1:c:tcp grant:3 label:5 fill:21 \
        map:1:0-2 bye >"$tmp/first.out" 2>&1 &
    first=$!
    "$memclient" "$tcp" second name:second open:2:c:tcp grant:3 label:5 fill:22 \
        release grant:1 label:6 fill:23 map:1:0-0 bye >"$tmp/second.out" 2>&1 &
    second=$!
    "$memclient" "$tcp" dirty open:3:c:tcp grant:2 fill:66 label:1 release grant:2 fill:67 \
        hang >"$tmp/dirty.out" 2>&1 &
    dirty=$!
    sleep "0.0$((RANDOM % 60 + 10))"
    kill_9 "$server_pid"
    first_done=yes second_done=yes
    wait $first || first_done=no
    wait $second || second_done=no
    kill -9 $dirty 2>/dev/null || :
    wait $dirty 2>/dev/null || :
    again
    client "$tcp" base name:base open:0:r:tcp list:64 expect-slabs:2 check:99 expect-map:0:3 bye
    if [ $first_done = yes ]; then
        client "$tcp" check1 name:first open:1:r:tcp list:64 expect-slabs:3 check:21 \
            expect-map:0:7 bye
    fi
    if [ $second_done = yes ]; then
        client "$tcp" check2 name:second open:2:r:tcp list:64 expect-slabs:1 check:23 \
            expect-map:0:1 bye
    fi
    for id in 1 2; do
        "$memclient" "$tcp" deletes delete:$id >"$tmp/deletes.out" 2>&1 ||
            grep -q 'No such' "$tmp/deletes.out" || fail "$(cat "$tmp/deletes.out")"
    done
    # (The volume of 'dirty' may exist until its lease ends, with a slab or
    # two.)
    if "$memclient" "$tcp" dirty open:3:r:tcp discard >"$tmp/dirty.out" 2>&1; then :; fi
    wait_until 30 settled 14
    client "$tcp" clean open:4:ce:tcp grant:14 check:0 bye
    wait_until 30 settled 14
done
stop "$server_pid"
