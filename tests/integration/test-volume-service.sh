#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# volume-service, which the services run, turns a file of volumes.d into a
# command. (tests/vm/test-reboot.sh tests the services themselves.)

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"

mkdir -p "$tmp/bin" "$tmp/etc/farpage/volumes.d"
# shellcheck disable=SC2016 # for the script
printf '%s\n' '#!/bin/sh' 'echo "$*"' >"$tmp/bin/farpage"
printf '%s\n' '#!/bin/sh' >"$tmp/bin/modprobe"
chmod +x "$tmp"/bin/*
"$SED" -e "s|@bindir@|$tmp/bin|" -e "s|@sysconfdir@|$tmp/etc|" \
    "$top_srcdir/tools/volume-service.in" >"$tmp/service"
conf=$tmp/etc/farpage/volumes.d/v.conf

# becomes WHAT WORDS: check that 'volume-service WHAT' runs 'farpage WORDS' and
# succeeds.
becomes ()
{
    local said
    said=$(sh "$tmp/service" "$1" v) || fail "$1: status $?"
    [ "$said" = "$2" ] || fail "$1: '$said', not '$2'"
}
refused () # TEXT
{
    local status=0
    sh "$tmp/service" attach v 2>"$tmp/err" || status=$?
    [ $status = 2 ] || fail "$1: status $status"
    grep -qF -e "$1" "$tmp/err" || fail "not '$1': $(cat "$tmp/err")"
}

refused 'cannot be read'
printf '%s\n' '# a comment' '' 'server = a,domain=x' '  server=b' 'size	=	16G  ' >"$conf"
becomes attach 'attach --foreground --name=v server=a,domain=x server=b size=16G volume=v'
printf '%s\n' 'swap = yes' 'nbd-timeout = 40' 'device=/dev/nbd3' 'timeout = 500' 'volume =' >>"$conf"
becomes attach "attach --foreground --name=v --timeout=40 --device=/dev/nbd3 --swap \
server=a,domain=x server=b size=16G timeout=500"
printf '%s' 'priority = 3' >>"$conf" # no newline
becomes attach "attach --foreground --name=v --timeout=40 --device=/dev/nbd3 --swap \
server=a,domain=x server=b size=16G timeout=500"
# Nothing is attached, so there is nothing to take down.
becomes detach ''
becomes swapoff ''
if sh "$tmp/service" swapon v 2>"$tmp/err"; then fail "swapon without a device"; fi
grep -q 'not attached' "$tmp/err" || fail "$(cat "$tmp/err")"
echo 'swap = maybe' >"$conf"
refused 'swap: give yes or no'
echo 'server' >"$conf"
refused 'not NAME = VALUE'
echo 'server = two words' >"$conf"
refused 'has a blank'
