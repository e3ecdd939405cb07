#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# --access: which clients may connect, how much they may borrow, which volumes
# they can see and use, and what they may do with them.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"
# shellcheck source=tests/integration/memserver.sh
. "$top_srcdir/tests/integration/memserver.sh"

touch "$tmp/keys"
chmod 600 "$tmp/keys"
for user in alice bob mallory; do
    farpage keygen --user $user "$tmp/$user"
    cat "$tmp/$user" >>"$tmp/keys"
done
me=$(id -u)
other=65534

# access [LINE...]: write the access file with these lines and the usual ones.
access ()
{
    printf '%s\n' "$@" "[uid:$me]" 'admin = yes' 'read-only = ro-*' "[uid:$other]" 'read-only = ro-*' \
        '[alice]' 'quota = 4M' 'volumes = a-* shared golden ro-*' 'delete = yes' 'takeover = yes' >"$tmp/access"
}
bob=('[bob]' 'volumes = b-* shared' 'read-only = golden')
# as USER WORD...: run a client over TLS as USER. Its output is in $said.
n=0
as ()
{
    local who=$1
    shift
    n=$((n + 1))
    said=$tmp/$who$n.out
    MEMCLIENT_PSK=$tmp/$who client "$tcp" "$who$n" "$@"
}
says () { grep -q -- "$1" "$said" || { cat "$said"; fail "does not say '$1'"; }; }
keep ()
{
    local who=$1
    shift
    MEMCLIENT_PSK=$tmp/$who waiting "$tcp" "$@"
}

# ---- a bad file ----

refused ()
{
    local status=0
    timeout 60 farpage-memserver --size 1M --slab 1M --reserve 0 --listen "unix:$tmp/no" --access "$1" 2>"$tmp/err" ||
        status=$?
    [ $status = 2 ] || { cat "$tmp/err"; fail "exit status $status"; }
    grep -q "access: $2" "$tmp/err" || { cat "$tmp/err"; fail "no '$2'"; }
    [ "$(wc -l <"$tmp/err")" = 1 ] || { cat "$tmp/err"; fail "not one line"; }
}
refused "$tmp/none" '.*No such file'
printf '%s\n' '[alice]' 'volume = x' >"$tmp/access"
refused "$tmp/access" '.*: \[alice\] volume: is not one of'

access "${bob[@]}"
reserve=0 serve 20 1 --access "$tmp/access" --tls-psk "$tmp/keys" --metrics "unix:$tmp/m.metrics"

# ---- which clients may connect ----

if farpage servers "$tcp" "tls-psk=$tmp/mallory" >"$tmp/out" 2>&1; then fail "mallory came in"; fi
grep -q 'tls:mallory may not use this server' "$tmp/out" || { cat "$tmp/out"; fail "not the reason"; }
farpage servers "$tcp" "tls-psk=$tmp/bob" >/dev/null || fail "bob"

# ---- how much they may borrow ----

as alice name:a-1 open:1:c:tcp grant:3 label:1 fill:7 map:1:0-2 bye
as alice name:a-2 open:2:c:tcp grant:1 label:1 map:1:0-0 fails:ENOSPC grant:1 bye
says 'the quota of tls:alice is 4M here, and 4M of it is lent, to 2 volumes'
as alice open:3:ce:tcp fails:ENOSPC grant:1 bye
# The server also says so beforehand: it reports no free slab to alice.
as alice ping open:3:ce:tcp grant-all expect-slabs:0 bye
as bob name:b-1 open:11:c:tcp grant:5 label:1 fill:5 map:1:0-4 bye
as alice delete:2 open:3:ce:tcp grant:1 fails:ENOSPC grant:1 discard
kill -USR1 "$server_pid"
wait_until 20 grep -q 'tls:alice: 3M lent to 1 volumes, quota 4M' "$tmp/m.log"
python3 "$top_srcdir/tests/integration/metrics.py" get "unix:$tmp/m.metrics" >"$tmp/page"
grep -qx 'farpage_memserver_identity_bytes{identity="tls:bob"} 5242880' "$tmp/page" || fail "metrics: lent"
grep -qx 'farpage_memserver_identity_quota_bytes{identity="tls:alice"} 4194304' "$tmp/page" || fail "metrics: quota"
if command -v nbdkit >/dev/null && [ "$NBDSH" != no ]; then
    start_nbdkit q "$FARPAGE_PLUGIN" "$tcp" transport=tcp "tls-psk=$tmp/alice" size=8M "$MLOCK" "status=$tmp/q.status"
    "$NBDSH" -u "nbd+unix:///?socket=$tmp/q.sock" -c '
import errno
h.pwrite(b"x" * 4096, 0)
try:
    h.pwrite(b"x" * 4096, 4 << 20)
    raise SystemExit("more than the quota")
except nbd.Error as e:
    assert e.errnum == errno.ENOSPC, e
' || fail "the plugin"
    stop "$(cat "$tmp/q.pid")"
    if timeout 60 "${nbdkit_cmd[@]}" -U - "$FARPAGE_PLUGIN" "$tcp" transport=tcp "tls-psk=$tmp/alice" size=8M reserve=full \
        "$MLOCK" --run true >"$tmp/out" 2>&1; then fail "reserve=full"; fi
    grep -qi 'size\|room\|free' "$tmp/out" || { cat "$tmp/out"; fail "reserve=full: not the reason"; }
fi

# ---- which volumes they can see and use ----

keep alice theirs open:5:c:tcp grant:1 hold bye
# bob cannot tell a volume of alice from one that does not exist. Volumes 1 and
# 5 are alice's. There is no volume 21.
for id in 1 5 21; do
    name=name:a-$id
    if [ $id = 5 ]; then name=stripe:1x65536; fi
    as bob $name fails:ENOENT open:$id:r:tcp fails:ENOENT lookup-id:$id fails:ENOENT delete:$id \
        fails:ENOENT lookup:a-$id
    "$SED" -e "s/:$id/:N/g" -e "s/a-$id/a-N/g" "$said" >"$tmp/answers.$id"
    if [ $id != 5 ]; then as bob name:a-1 fails:EPERM open:$id:cr:tcp fails:EPERM open:$id:c:tcp; fi
done
cmp "$tmp/answers.1" "$tmp/answers.21" || fail "bob sees that there is a-1"
cmp "$tmp/answers.5" "$tmp/answers.21" || fail "bob sees that there is alice's without a name"
as bob volumes stat
if grep -q 'a-1\|alice' "$said"; then cat "$said"; fail "bob sees what is alice's"; fi
grep -q b-1 "$said" || fail "bob does not see what is his"
farpage volumes "$tcp" "tls-psk=$tmp/bob" >"$tmp/out"
grep -q '^b-1: ' "$tmp/out" || { cat "$tmp/out"; fail "farpage volumes"; }
if grep -q a-1 "$tmp/out"; then fail "farpage volumes shows a-1"; fi
farpage servers "$tcp" "tls-psk=$tmp/bob" >"$tmp/out"
if grep -q 'a-1\|alice' "$tmp/out"; then cat "$tmp/out"; fail "farpage servers shows a-1"; fi
# An admin sees all volumes, but may not use them.
client "$unix" admin volumes stat name:a-1 fails:EPERM open:1:cr:tcp fails:EPERM delete:1
for text in a-1 client=theirs; do
    grep -q -e "$text" "$tmp/admin.out" || { cat "$tmp/admin.out"; fail "admin does not see $text"; }
done
go_on theirs
# Only an admin may drain the server.
status=0
farpage servers drain "$tcp" "tls-psk=$tmp/alice" >"$tmp/out" 2>&1 || status=$?
[ $status = 1 ] || fail "alice drains: $(cat "$tmp/out")"
grep -q 'admin = yes' "$tmp/out" || fail "$(cat "$tmp/out")"
farpage servers drain --cancel "$unix" | grep -q 'lends again' || fail "an admin may not"

# ---- delete, take over ----

as bob fails:EPERM delete:11
says 'volume b-1: tls:bob may not delete it'
as bob name:b-1 open:11:r:tcp list:64 fails:EPERM discard bye
as bob name:b-1 open:11:r:tcp list:64 expect-slabs:5 check:5 bye
# A client that may not delete may discard a volume without data. That is how a
# volume leaves a server.
as bob name:b-2 open:12:c:tcp grant:1 discard
as alice delete:1
MEMCLIENT_PSK=$tmp/bob "$memclient" "$tcp" had name:shared open:8:c:tcp grant:1 label:1 map:1:0-0 wait-end \
    >"$tmp/had.out" 2>&1 &
had=$!
has_shared () { "$memclient" "$unix" asks stat | grep -q 'client=had volume=shared slabs=1 attached=1'; }
wait_until 30 has_shared
as alice name:shared fails:EBUSY open:8:r:tcp open:8:rt:tcp bye
wait $had || { cat "$tmp/had.out"; fail "had"; }
keep alice has name:shared open:8:r:tcp hold ping bye
as bob name:shared fails:EPERM open:8:rt:tcp
says 'may not take it over'
go_on has

# A client that claims another client's UUID is not taken for that client.
same=$(python3 -c 'import uuid; print(uuid.uuid4())')
MEMCLIENT_UUID=$same keep alice same name:shared open:8:r:tcp hold ping bye
MEMCLIENT_UUID=$same as bob name:shared fails:EBUSY open:8:r:tcp
go_on same

# ---- read only ----

as alice name:golden open:6:c:tcp grant:2 label:1 fill:9 map:1:0-1 bye
as bob name:golden fails:EPERM open:6:r:tcp open:6:ro:tcp list:64 expect-slabs:2 read-only:9 fails:EPERM grant:1 \
    fails:EPERM label:2 fails:EPERM zero:0:4096 fails:EPERM map:0:0-1 fails:EPERM map-write:0:0 \
    fails:EPERM members:9:1 fails:EPERM release fails:EPERM discard read-only:9 ping bye
says '^open:6:r:tcp: volume golden: tls:bob may only read it'
says '^release: volume golden: tls:bob may only read it'
as bob fails:EPERM delete:6
# A reader in between does not lock out the client that wrote before.
MEMCLIENT_UUID=$same as alice name:golden open:6:r:tcp list:64 check:9 bye
as bob name:golden open:6:ro:tcp list:64 read-only:9 bye
MEMCLIENT_UUID=$same as alice name:golden open:6:r:tcp list:64 check:9 bye
as bob name:golden2 fails:EPERM open:22:c:tcp
# A client that may only read never blocks a writer.
keep bob reads name:golden open:6:ro:tcp list:64 hold wait-end
as bob lookup:golden
says 'attached=1'
as alice lookup:golden name:golden open:6:r:tcp list:64 check:9 ping bye
says 'attached=0'
go_on reads
grep -q 'reads: session ends: a client that may write its volume opens it' "$tmp/m.log" || fail "no reason in the log"
# Nor does a reader block a writer with the same UUID, or one that takes over.
same2=$(python3 -c 'import uuid; print(uuid.uuid4())')
MEMCLIENT_UUID=$same2 keep bob reads-same name:golden open:6:ro:tcp hold wait-end
MEMCLIENT_UUID=$same2 as alice name:golden open:6:r:tcp bye
go_on reads-same
keep bob reads-on name:golden open:6:ro:tcp hold wait-end
as alice name:golden open:6:rt:tcp bye
go_on reads-on
# A reader ends no writer and no other reader. A writer does not end a reader
# that may also write.
keep alice writes-golden name:golden open:6:r:tcp hold ping bye
as bob name:golden fails:EBUSY open:6:ro:tcp
go_on writes-golden
keep alice chose name:golden open:6:ro:tcp hold ping bye
as alice lookup:golden name:golden fails:EBUSY open:6:r:tcp
says 'attached=1'
go_on chose
keep bob reads-2 name:golden open:6:ro:tcp hold ping bye
as bob name:golden fails:EBUSY open:6:ro:tcp
go_on reads-2
# A client with more rights may ask for read-only access.
as alice name:golden open:6:ro:tcp list:64 read-only:9 fails:EPERM grant:1 fails:EPERM discard bye
as alice name:a-9 fails:EPERM open:29:co:tcp
as alice name:golden open:6:r:tcp list:64 expect-slabs:2 check:9 expect-map:0:3 bye
keep bob reads-3 name:golden open:6:ro:tcp hold wait-end
as alice delete:6 fails:ENOENT lookup:golden
go_on reads-3
# Read-only access over shm.
as alice name:ro-1 open:7:c:tcp grant:2 label:1 fill:6 map:1:0-1 bye
client "$unix" ro name:ro-1 fails:EPERM open:23:c:shm fails:EPERM open:7:r:shm open:7:ro:shm list-read-only:6 fails:EPERM grant:1 bye
if [ "$me" = 0 ] && command -v setpriv >/dev/null; then
    chmod 711 "$tmp"
    chmod 777 "$tmp/m.sock"
    if setpriv --reuid=$other --clear-groups timeout 60 "$memclient" "$unix" ro2 name:ro-1 open:7:ro:shm \
        list-read-only:6 bye >"$tmp/ro2.out" 2>&1; then
        grep -q again=0 "$tmp/ro2.out" || fail "another user opens it anew, to write"
    elif grep -q 'Permission denied\|No such file' "$tmp/ro2.out"; then
        echo "another user cannot run memclient here"
    else
        cat "$tmp/ro2.out"; fail "ro2"
    fi
    # A data connection must come from the user of its session.
    client "$unix" data open:24:ce:tcp grant:1 fill:1 fails:EPERM data-as:$other fails:EPERM data-as:65533 \
        data-as:"$me" check:1 discard
    # A user who is not in the file is refused.
    if setpriv --reuid=65533 --clear-groups timeout 60 "$memclient" "$unix" ro3 ping >"$tmp/ro3.out" 2>&1; then
        fail "any user may come"
    fi
    grep -q 'uid:65533 may not use this server\|Permission denied' "$tmp/ro3.out" || { cat "$tmp/ro3.out"; fail "uid"; }
fi
as alice name:ro-1 open:7:r:tcp list:64 expect-slabs:2 check:6 bye

# ---- SIGHUP ----

# hup TEXT: send SIGHUP, and wait for TEXT in the log.
hup ()
{
    kill -HUP "$server_pid"
    wait_until 20 grep -q "$1" "$tmp/m.log"
}
keep alice stays name:ro-1 open:7:r:tcp hold ping bye
keep bob goes name:shared open:8:r:tcp hold wait-end
echo nonsense >>"$tmp/access"
hup 'SIGHUP: the access rules are unchanged: access: .*: line'
as bob ping
access '[bob]' 'volumes = b-*'
hup 'goes: session ends: it may no longer use its volume'
go_on goes
go_on stays
as bob fails:ENOENT lookup:shared
keep alice writes name:ro-1 open:7:r:tcp hold wait-end
keep bob gone hold wait-end
printf '%s\n' '[alice]' 'read-only = yes' 'volumes = ro-*' >"$tmp/access"
hup 'writes: session ends: it may now only read its volume'
hup 'SIGHUP: read .*: 1 identities'
go_on gone
go_on writes
as alice lookup:ro-1 fails:EPERM delete:7
# If the owner of a volume is no longer in the file, the volume counts for its
# next writer. It does not count for a reader.
pays ()
{
    python3 "$top_srcdir/tests/integration/metrics.py" get "unix:$tmp/m.metrics" >"$tmp/page"
    grep -qx "farpage_memserver_identity_bytes{identity=\"tls:$1\"} $2" "$tmp/page" ||
        { grep identity_bytes "$tmp/page"; fail "$1 does not pay for $2 bytes"; }
}
printf '%s\n' '[bob]' 'volumes = b-*' 'read-only = ro-*' >"$tmp/access"
kill -HUP "$server_pid"
may ()
{
    MEMCLIENT_PSK=$tmp/bob "$memclient" "$tcp" bob name:ro-1 "open:7:$1:tcp" list:64 expect-slabs:2 check:6 bye \
        >/dev/null 2>&1
}
wait_until 20 may ro
pays bob 6291456 # b-1, and shared
printf '%s\n' '[bob]' 'volumes = *' >"$tmp/access"
kill -HUP "$server_pid"
wait_until 20 may r
pays bob 8388608
access "${bob[@]}"
hup 'identities'
stop "$server_pid"

# ---- a restarted server knows the owners ----

has_tmpfs || { echo "/dev/shm is no tmpfs, or too small: no --backing"; exit 0; }
backing=$(mktemp -d /dev/shm/farpage-test.XXXXXX)
cleanup_fn rm -rf "$backing"
again ()
{
    rm -f "$tmp/m.addr"
    serve 20 1 --access "$tmp/access" --tls-psk "$tmp/keys" --backing "$backing/b"
}
again
as alice name:a-1 open:1:c:tcp grant:3 label:1 fill:7 map:1:0-2 bye
keep alice left open:5:c:tcp grant:1 label:1 hold
stop "$server_pid"
go_on left
rm -f "$tmp/m.addr"
start_memserver m --listen "unix:$tmp/m.sock" --size 16M --slab 1M --lease 20 --reserve 0 \
    --access "$tmp/access" --tls-psk "$tmp/keys" --backing "$backing/b"
tcp=$(head -n1 "$tmp/m.addr")
as alice name:a-2 open:2:c:tcp fails:ENOSPC grant:1 bye
says 'the quota of tls:alice is 4M here, and 4M of it is lent, to 3 volumes'
as bob fails:ENOENT lookup-id:5
