#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# farpage keygen writes a different key each time, to a file of mode 600. It
# overwrites nothing and prints no part of a key.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"

# keygen STATUS TEXT ARG...: check its exit status, and that it prints TEXT, or
# nothing if TEXT is empty.
keygen ()
{
    local wanted=$1 text=$2 status=0
    shift 2
    farpage keygen "$@" </dev/null >"$tmp/out" 2>&1 || status=$?
    [ $status = "$wanted" ] || fail "keygen $*: exit $status: $(cat "$tmp/out")"
    if [ -z "$text" ]; then
        [ ! -s "$tmp/out" ] || fail "keygen $* says: $(cat "$tmp/out")"
    else
        grep -q -e "$text" "$tmp/out" || fail "keygen $*: no '$text' in: $(cat "$tmp/out")"
    fi
}

cd "$tmp"
(umask 0; farpage keygen)
[ "$(stat -c %a farpage.psk)" = 600 ] || fail "its mode is $(stat -c %a farpage.psk)"
grep -qxE 'farpage:[0-9a-f]{64}' farpage.psk || fail "no USER:KEY: $(cat farpage.psk)"
cp farpage.psk before
keygen 1 'farpage.psk: exists, and is not overwritten' farpage.psk
keygen 1 'user farpage already has a key' --user farpage
cmp farpage.psk before || fail "it was changed"
keygen 0 '' --user alice
# shellcheck disable=SC2059
printf "$(cat farpage.psk)" >farpage.psk # without a newline at the end
keygen 0 '' --user bob farpage.psk
[ "$(cut -d: -f1 farpage.psk | tr '\n' ' ')" = "farpage alice bob " ] || fail "users: $(cut -d: -f1 farpage.psk)"
[ "$(cut -d: -f2 farpage.psk | sort -u | wc -l)" = 3 ] || fail "a key is there twice"
head -n 1 farpage.psk | cmp - before || fail "the first key was changed"
keygen 0 '' --user 'x.y@z' "$tmp/new"
grep -qxE 'x\.y@z:[0-9a-f]{64}' new || fail "no user x.y@z"

(umask 077; echo nothing >other)
keygen 1 'other: key 1: not USER:KEY' --user alice other
[ "$(cat other)" = nothing ] || fail "it was changed"
chmod 644 new
keygen 1 'new: all users may read' --user alice new
keygen 1 'No such file' no/such/dir
keygen 2 "give one FILE, not 'b' too" a b
for user in a:b 'a b' '' '#6162' a/b; do
    keygen 2 '--user' --user "$user" c
    [ ! -e c ] || fail "user '$user' is taken"
done

# farpage-memserver keygen makes the same files.
farpage-memserver keygen donor
farpage-memserver keygen --user alice donor
grep -cxE '(farpage|alice):[0-9a-f]{64}' donor | grep -qx 2 || fail "users: $(cut -d: -f1 donor)"
[ "$(stat -c %a donor)" = 600 ] || fail "donor has mode $(stat -c %a donor)"
cp donor before
donor_keygen () # STATUS TEXT ARG...
{
    local wanted=$1 text=$2 status=0
    shift 2
    farpage-memserver keygen "$@" </dev/null >"$tmp/out" 2>&1 || status=$?
    [ $status = "$wanted" ] || fail "farpage-memserver keygen $*: exit $status: $(cat "$tmp/out")"
    grep -q -e "$text" "$tmp/out" || fail "farpage-memserver keygen $*: no '$text' in: $(cat "$tmp/out")"
}
donor_keygen 1 'donor: exists, and is not overwritten: give another FILE' donor
donor_keygen 1 'donor: user alice already has a key' --user alice donor
donor_keygen 2 'give one FILE'
donor_keygen 2 'not a valid name' --user encrypt c
donor_keygen 2 'keygen --help' --no-such-option
cmp donor before || fail "donor was changed"

# No server may get a key of volumes. So a file cannot hold keys of both kinds.
keygen 2 'user encrypt: this name marks keys for volumes' --user encrypt c
keygen 0 '' --encrypt volumes
cp volumes before
keygen 1 'volumes: holds a key for volumes' --user alice volumes
cmp volumes before || fail "it was changed"
