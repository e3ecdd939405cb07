#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# If tools/quickstart cannot do its work, it says so in one line and fails,
# before it changes anything.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"

# refused STATUS TEXT ARG...: check status and output, and that it created
# nothing.
refused ()
{
    local want=$1 text=$2 status=0
    shift 2
    HOME=$tmp/home XDG_CACHE_HOME='' "$top_srcdir/tools/quickstart" "$@" \
        >"$tmp/out" 2>&1 </dev/null || status=$?
    [ $status = "$want" ] || { cat "$tmp/out"; fail "$*: exit $status, not $want"; }
    grep -q -e "$text" "$tmp/out" || { cat "$tmp/out"; fail "$*: no '$text'"; }
    [ ! -e "$tmp/home" ] || fail "$*: it made something"
}

"$top_srcdir/tools/quickstart" --help | grep -q '^Usage: ' || fail "no --help"
refused 2 'unknown option --frobnicate' --frobnicate
if [ "$(id -u)" != 0 ]; then
    refused 1 'only root'
elif [ -z "$(ls /sys/class/infiniband 2>/dev/null)" ]; then
    # Without an RDMA device it uses a guest, which cannot be kept.
    refused 1 '^quickstart: --keep cannot be done here: no RDMA device' --keep
    [ "$(wc -l <"$tmp/out")" = 1 ] || fail "more than one line"
fi
