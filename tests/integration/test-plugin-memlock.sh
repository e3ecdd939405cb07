#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A user who may not lock enough memory is told so before nbdkit forks, and what
# to do. With a sufficient limit, or with mlock=false, it starts.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"

[ "$(id -u)" = 0 ] || skip "needs root, to become somebody else"
[ -z "$SANITIZER_PRELOAD" ] || skip "a sanitizer has too much memory to lock"
requires setpriv --version
start_memserver m --listen "unix:$tmp/m.usock" --size 32M --slab 4M
tcp=$(grep -v '^unix:' "$tmp/m.addr")
mkdir "$tmp/n"
cp "$FARPAGE_PLUGIN" "$tmp/n/farpage.so" # the original may be in a directory closed to others
chmod 755 "$tmp"
chown 65534 "$tmp/n"

# as_nobody KB ARG...: run nbdkit as user 65534, with this limit of locked
# memory.
as_nobody ()
{
    local kb=$1
    shift
    (
        cd "$tmp/n" || exit
        ulimit -l "$kb"
        exec timeout 60 setpriv --reuid=65534 --regid=65534 --clear-groups \
             "${nbdkit_cmd[@]}" -U "$tmp/n/sock" -P "$tmp/n/pid" ./farpage.so \
             "$tcp" size=16M connections=2 "$@"
    )
}

for kb in 0 1024 8192; do
    status=0
    as_nobody $kb 2>"$tmp/err" || status=$?
    [ $status = 1 ] || fail "$kb kB: exit status $status, not 1"
    [ "$(grep -c 'error:' "$tmp/err")" = 1 ] || { cat "$tmp/err"; fail "not one error line"; }
    grep -q 'error: .*RLIMIT_MEMLOCK is .*ulimit -l.*mlock=false' "$tmp/err" ||
        { cat "$tmp/err"; fail "does not say what to do"; }
    [ "$(ls "$tmp/n")" = farpage.so ] || fail "left something behind"
done

if (ulimit -l 131072) 2>/dev/null; then # even root may not be allowed to raise it
    # shellcheck disable=SC2016 # $uri is for nbdkit
    as_nobody 131072 --run 'nbdinfo --size "$uri"' >"$tmp/out" ||
        fail "128 MiB is not enough"
    [ "$(cat "$tmp/out")" = 16777216 ] || fail "$(cat "$tmp/out")"
fi
# shellcheck disable=SC2016
as_nobody 0 mlock=false --run 'nbdinfo --size "$uri"' >"$tmp/out" ||
    fail "mlock=false is refused"
