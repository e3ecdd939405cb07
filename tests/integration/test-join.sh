#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# farpage-memserver setup and token, farpage join, leave, and swapon DONOR...:
# two memory servers share a key, and a client gets its own with a join token.
# A refused command changes nothing.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"

# says STATUS TEXT CMD ARG...: check the exit status, and that CMD prints TEXT.
says ()
{
    local wanted=$1 text=$2 status=0
    shift 2
    timeout 60 "$@" </dev/null >"$tmp/out" 2>&1 || status=$?
    [ $status = "$wanted" ] || { cat "$tmp/out"; fail "exit $status, not $wanted: $*"; }
    [ -z "$text" ] || grep -q -e "$text" "$tmp/out" || { cat "$tmp/out"; fail "no '$text': $*"; }
}
export FARPAGE_VOLUMES_DIR=$tmp/volumes.d
mkdir "$tmp/a" "$tmp/b" "$FARPAGE_VOLUMES_DIR"
for s in a b; do
    printf '%s\n' 'slab = 4M' 'reserve = 0' 'hugepages = off' "name = $s" >"$tmp/$s/memserver.conf"
done
a=$tmp/a/memserver.conf b=$tmp/b/memserver.conf

# ---- the first memory server ----

says 2 'give how much to lend' farpage-memserver setup --config "$a"
says 2 'not a size' farpage-memserver setup --size much --config "$a"
says 2 'not a percentage from 1% to 90%' farpage-memserver setup --size 100% --config "$a"
says 2 'not a percentage' farpage-memserver setup --size 5%% --config "$a"
says 2 'not a multiple of the slab size, 4M' farpage-memserver setup --size 5M --config "$a"
says 2 'absolute path' farpage-memserver setup --size 64M --config memserver.conf
says 2 "unexpected argument 'x'" farpage-memserver setup --size 64M x
says 2 'needs either --token or' farpage-memserver setup --size 64M --join donor
says 2 'need --join' farpage-memserver setup --size 64M --token x
says 1 'No such file' farpage-memserver setup --size 64M --config "$tmp/none.conf"
says 1 'does not set tls-psk' farpage-memserver token --config "$a"
says 1 'does not fit' farpage-memserver setup --size 1E --config "$a"
says 0 'would write .*a/key: a new master key' farpage-memserver setup --size 64M --config "$a" --dry-run
[ "$(ls "$tmp/a")" = memserver.conf ] || fail "a dry run leaves $(ls "$tmp/a")"

# Without root, setup is refused.
if [ "$(id -u)" = 0 ]; then
    says 0 'is set up to lend 64M' farpage-memserver setup --size 64M --config "$a"
else
    says 1 'needs root' farpage-memserver setup --size 64M --config "$a"
    skip "needs root"
fi
grep -qxE '@all:[0-9a-f]{64}' "$tmp/a/key" || fail "the key: $(cut -c 1-10 "$tmp/a/key")"
case $(stat -c %a "$tmp/a/key") in 600|640) ;; *) fail "its mode is $(stat -c %a "$tmp/a/key")" ;; esac
key=$(cut -d: -f2 "$tmp/a/key")
if grep -q "$key" "$tmp/out"; then fail "the key is printed"; fi
grep -qx 'size = 64M' "$a.d/10-setup.conf" || fail "no size: $(cat "$a.d"/*)"
# A second setup changes nothing.
cp -r "$tmp/a" "$tmp/before"
says 0 'is set up to lend 64M' farpage-memserver setup --size 64M --config "$a"
diff -r "$tmp/a" "$tmp/before" || fail "a second setup changes something"
says 1 'to change that, edit size in' farpage-memserver setup --size 128M --config "$a"
says 0 'is set up to lend 64M' farpage-memserver setup --size 50% --config "$a"
diff -r "$tmp/a" "$tmp/before" || fail "another size changes something"

start_memserver a --config "$a"
first=$(cat "$tmp/a.addr")

# A size that is no whole number of GiB is written so that it can be read.
mkdir "$tmp/d"
printf '%s\n' 'slab = 4M' 'reserve = 0' 'hugepages = off' >"$tmp/d/memserver.conf"
(umask 077; farpage-memserver setup --size 1028M --config "$tmp/d/memserver.conf" >"$tmp/out")
grep -qx 'size = 1028M' "$tmp/d/memserver.conf.d/10-setup.conf" || fail "$(cat "$tmp/d/memserver.conf.d"/*)"
[ "$(stat -c %a "$tmp/d/memserver.conf.d")" = 755 ] || fail "the service cannot read the drop-ins"
farpage-memserver token --config "$tmp/d/memserver.conf" >/dev/null || fail "the drop-in cannot be read"
# Settings that let clients in without TLS are not changed, but refused.
for line in 'insecure = true' 'tls = on' 'tls = off' "tls-certificates = $tmp"; do
    printf '%s\n' 'slab = 4M' 'reserve = 0' "$line" >"$tmp/d/memserver.conf"
    rm -rf "$tmp/d/memserver.conf.d"
    says 1 "sets ${line%% =*}, " farpage-memserver setup --size 64M --config "$tmp/d/memserver.conf"
done
printf '%s\n' 'slab = 0' >"$tmp/d/memserver.conf"
says 1 'slab: 0B is not a power of two' farpage-memserver setup --size 64M --config "$tmp/d/memserver.conf"
# With an access file, a client must be one of its users.
printf '%s\n' '[zoe]' 'quota = 1G' >"$tmp/access"
printf '%s\n' 'slab = 4M' 'reserve = 0' "access = $tmp/access" >"$tmp/d/memserver.conf"
says 0 'token --user NAME' farpage-memserver setup --size 64M --config "$tmp/d/memserver.conf"
says 1 'give one with --user NAME' farpage-memserver token --config "$tmp/d/memserver.conf"

# ---- join tokens ----

says 2 'not a time from 1s to 7d' farpage-memserver token --config "$a" --ttl 8d
says 2 "'@all' is reserved" farpage-memserver token --config "$a" --user @all
says 2 'give only one of' farpage-memserver token --config "$a" --user x --server
says 1 'not the name of a user' farpage-memserver token --config "$a" --user 'a b'
farpage keygen "$tmp/lone"
says 1 'has no master key' farpage-memserver token --tls-psk "$tmp/lone"
farpage-memserver token --config "$a" --user zoe >"$tmp/token"
token=$(cat "$tmp/token")
server_token=$(farpage-memserver token --config "$a" --server)

# ---- the second memory server ----

says 1 'is for a client' farpage-memserver setup --size 64M --config "$b" --join "$first" --token "$token"
says 1 'does not accept the join token' farpage-memserver setup --size 64M --config "$b" --join "$first" \
    --token "${server_token%?????}00000"
says 1 'not a join token' farpage-memserver setup --size 64M --config "$b" --join "$first" --token "$key"
[ "$(ls "$tmp/b")" = memserver.conf ] || fail "a refused join leaves $(ls "$tmp/b")"
printf '%s\n' "$server_token" >"$tmp/server.token"
says 0 "the master key of $first" farpage-memserver setup --size 64M --config "$b" --join "$first" \
    --token-file "$tmp/server.token"
cmp "$tmp/a/key" "$tmp/b/key" || fail "the servers have different keys"
start_memserver b --config "$b"
second=$(cat "$tmp/b.addr")
mkdir "$tmp/c"
cp "$b" "$tmp/c"
farpage keygen --user @all "$tmp/c/key"
says 1 'its master key is not that of' farpage-memserver setup --size 64M --config "$tmp/c/memserver.conf" \
    --join "$first" --token "$server_token"
# setup adds the master key to an existing key file.
rm "$tmp/c/key"
farpage keygen "$tmp/c/key"
says 0 'writing .*c/key: a new master key' farpage-memserver setup --size 64M --config "$tmp/c/memserver.conf"
cut -d: -f1 "$tmp/c/key" | paste -s -d ' ' | grep -qx 'farpage @all' || fail "users: $(cut -d: -f1 "$tmp/c/key")"

# ---- a client ----

mine=$tmp/client.key
says 2 'give one or more memory servers' farpage join --token "$token"
says 2 'give one of --token and' farpage join "$first"
says 1 'is for a memory server' farpage join "$first" --token "$server_token" --key "$mine"
says 1 'a Unix socket does not have' farpage join "unix:$tmp/x" --token "$token" --key "$mine"
says 1 'No such file' farpage join "$first" --token-file "$tmp/none" --key "$mine"
# This one expired in 1970. (test_all_users of unit/test-tls has one with a right
# key.)
says 1 'the join token has expired' farpage join "$first" --key "$mine" \
    --token join.zoe.00000001.00112233445566778899aabbccddeeff
[ ! -e "$mine" ] || fail "a refused join leaves a key"
farpage join "$first" "$second" --token-file - --key "$mine" <"$tmp/token" >"$tmp/out" || fail "farpage join"
grep -q "joined as user zoe: the key is in $mine" "$tmp/out" || fail "it says: $(cat "$tmp/out")"
grep -qxE 'zoe:[0-9a-f]{64}' "$mine" || fail "the key: $(cut -c 1-10 "$mine")"
[ "$(stat -c %a "$mine")" = 600 ] || fail "its mode is $(stat -c %a "$mine")"
grep -q 'joined as user zoe' "$tmp/a.log" || fail "the server does not log the user"
says 0 'joined as user zoe' farpage join "$first" --token "$token" --key "$mine"
# Both servers accept the key as zoe's.
farpage servers "$first" "$second" "tls-psk=$mine" | grep -c 'in slabs of 4M' | grep -qx 2 || fail "farpage servers"

# Another user's token does not replace the key, nor is a token a key.
says 1 'joined already, as user zoe' farpage join "$first" --key "$mine" \
    --token "$(farpage-memserver token --config "$a" --user eve)"
printf '%s:%s\n' "${token%.*}" "${token##*.}" >"$tmp/as.key"
chmod 600 "$tmp/as.key"
says 1 'not USER:KEY' farpage servers "$first" "tls-psk=$tmp/as.key"

# The server lets a join token do nothing but fetch the key, and a key not do
# that.
memclient=$top_builddir/tests/integration/memclient
says 1 'HELLO: .*a join token can only fetch a key' env "MEMCLIENT_TOKEN=$token" "$memclient" "$first" eve
says 0 '' env "MEMCLIENT_TOKEN=$token" MEMCLIENT_JOIN=yes "$memclient" "$first" eve
says 1 'JOIN: .*JOIN needs a join token' env "MEMCLIENT_PSK=$mine" MEMCLIENT_JOIN=yes "$memclient" "$first" eve
says 1 'requires TLS' env MEMCLIENT_JOIN=yes "$memclient" "$first" eve

# ---- swapon DONOR... ----

says 0 '32M of swap, two copies of each page; there is room for 64M' farpage swapon --dry-run "$first" "$second" --key "$mine"
grep -qx "tls-psk = $mine" "$tmp/out" || fail "no key in the volume file"
# As 'farpage cluster choose' prints servers.
says 0 'two copies of each page' farpage swapon --dry-run "$first,domain=r1" "$second,domain=r2" --key "$mine"
says 1 'give two servers, or accept that' farpage swapon --dry-run "$first" --key "$mine"
says 0 'one copy of each page' farpage swapon --dry-run --single-copy --size 8M "$first" --key "$mine"
says 1 'room for 64M with two copies' farpage swapon --dry-run --size 1G "$first" "$second" --key "$mine"
says 1 'are the same memory server' farpage swapon --dry-run "$first" "$first" --key "$mine"
says 1 'no key .*farpage-memserver token' farpage swapon --dry-run "$first" "$second" --key "$tmp/none"
says 2 'is not a size' farpage swapon --size x "$first"
says 2 'are only for memory servers' farpage swapon --dry-run /dev/nbd0
says 2 '--force is only for a DEVICE' farpage swapon --force "$first"
says 1 'not the name of a volume file' farpage swapon --dry-run --name a/b "$first" "$second" --key "$mine"
touch "$FARPAGE_VOLUMES_DIR/swap0.conf"
says 0 '^swap1: ' farpage swapon --dry-run "$first" "$second" --key "$mine"
says 1 'swap0.conf exists' farpage swapon --dry-run --name swap0 "$first" "$second" --key "$mine"
says 1 "did not write .*swap0.conf" farpage swapoff swap0
says 1 'there is no volume file' farpage swapoff swap7
# With a join token, a dry run fetches the key, but does not store it.
says 0 '^swap1: ' farpage swapon --dry-run "$first" "$second" --token "$token" --key "$tmp/second.key"
[ ! -e "$tmp/second.key" ] || fail "a dry run stores a key"

# ---- mount ----

says 2 'give a name, memory servers and a directory' farpage mount data "$first"
says 2 "with a '/' at its beginning" farpage mount data "$first" "$second"
says 2 'is not a size' farpage mount --size x data "$first" /mnt
says 2 'give one name or directory' farpage umount
says 1 "use no '+'" farpage mount --dry-run a=b "$first" "$tmp/at" --key "$mine"
says 1 'swap0.conf exists' farpage mount --dry-run swap0 "$first" "$tmp/at" --key "$mine"
if command -v systemd-escape >/dev/null; then
    says 0 '32M of ext2, two copies of each page' farpage mount --dry-run data "$first" "$second" "$tmp/at" \
        --key "$mine" --type ext2
    for line in '# Mounted at .*/at' 'size = 32M' 'copies = 2' "tls-psk = $mine" 'What=/dev/farpage/data' \
        'Where=/.*/at' 'Requires=farpage@data.service' 'WantedBy=dev-farpage-data.device'; do
        grep -qx "$line" "$tmp/out" || { cat "$tmp/out"; fail "no '$line'"; }
    done
    says 1 'give two servers, or accept that' farpage mount --dry-run data "$first" "$tmp/at" --key "$mine"
    says 1 'mkfs.none is not installed' farpage mount --dry-run data "$first" "$tmp/at" --key "$mine" --type none
    says 1 'Not a directory' farpage mount --dry-run data "$first" "$mine" --key "$mine"
    says 1 'No such file' farpage mount --dry-run data "$first" "$tmp/none/at" --key "$mine"
    says 1 'use another directory' farpage mount --dry-run data "$first" / --key "$mine"
    ln -s nowhere "$tmp/dangling"
    says 1 'No such file' farpage mount --dry-run data "$first" "$tmp/dangling" --key "$mine"
    says 1 'a name cannot be a UUID' farpage mount --dry-run 00112233-4455-6677-8899-aabbccddeeff "$first" "$tmp/at" --key "$mine"
    says 1 "can have no '%'" farpage mount --dry-run data "$first" "$tmp/at"$'\r' --key "$mine"
    says 1 "can have no '%'" farpage mount --dry-run data "$first" "$tmp/5%" --key "$mine"
    # A volume that exists is used as it is, also if a server does not answer.
    says 0 '' "${nbdkit_cmd[@]}" -U "$tmp/n.sock" "$FARPAGE_PLUGIN" "$MLOCK" "server=$first" "server=$second" \
        "tls-psk=$mine" size=16M volume=data timeout=20000 --run true
    says 0 'existing volume of 16M, mounted as it is' farpage mount --dry-run data "unix:$tmp/none" "$first" "$tmp/at" --key "$mine"
    if grep -q '^size' "$tmp/out"; then fail "the volume may be made again"; fi
    says 1 'exists, and its size is 16M: leave --size out' farpage mount --dry-run data "$first" "$tmp/at" --key "$mine" --size 8M
fi
if [ "$(id -u)" = 0 ]; then
    says 1 'there is no volume file' farpage umount data
    says 1 "'farpage mount' did not write" farpage umount swap0
    says 1 'did not mount it' farpage umount "$tmp/at"
fi

# ---- leave ----

printf '%s\n' "server = $first" 'size = 4M' "tls-psk = $mine" >"$FARPAGE_VOLUMES_DIR/far.conf"
says 1 'far uses this key' farpage leave --key "$mine"
says 1 'far uses this key' farpage leave --key "$tmp/./client.key"
says 1 'is not a key file with one user' farpage leave --key "$tmp/a/key"
says 1 'all users may read' farpage leave --key "$FARPAGE_VOLUMES_DIR/far.conf"
rm "$FARPAGE_VOLUMES_DIR/far.conf"
says 0 "removed $mine" farpage leave --key "$mine"
says 1 'No such file' farpage leave --key "$mine"

# A line of zoe's own revokes her derived key, and the token that fetched it.
farpage join "$first" --token "$token" --key "$mine" >/dev/null
farpage keygen --user zoe "$tmp/a/key"
kill -HUP "$(cat "$tmp/a.pid")"
wait_until 30 grep -q 'SIGHUP' "$tmp/a.log"
says 1 'another key, or not know the user' farpage servers "$first" "tls-psk=$mine"
says 1 'does not accept the join token' farpage join "$first" --token "$token" --key "$tmp/again"
says 1 'user zoe has a line with a key' farpage-memserver token --config "$a" --user zoe
farpage servers "$second" "tls-psk=$mine" | grep -q 'in slabs of 4M' || fail "the other server no longer accepts zoe's key"
