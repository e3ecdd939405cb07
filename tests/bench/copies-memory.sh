#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Measure nbdkit's memory with 1 and with 2 copies. Print its locked (VmLck) and
# resident (RssAnon) memory for a volume of 8 GiB over tcp with 4 connections.
# Also print what each GiB more takes. For that, a second volume is 1024 GiB
# larger: the difference in kB is that in bytes per GiB.
#
#   ./run tests/bench/copies-memory.sh [SLAB...]

set -eu
# shellcheck source=tests/bench/common
. "$(dirname "$0")/common"
slabs=(256M)
if [ $# -gt 0 ]; then slabs=("$@"); fi

# kb PID FIELD: print that field of the process's status, in kB.
kb () { sed -nE "s/^$2:[[:space:]]+([0-9]+) kB$/\1/p" "/proc/$1/status"; }

# locked NAME SLAB COPIES SIZE: print VmLck and RssAnon of nbdkit, in kB.
locked ()
{
    local pid
    start nbdinfo --size "nbd+unix:///?socket=$tmp/$1" -- \
        nbdkit -f -U "$tmp/$1" "$FARPAGE_PLUGIN" "server=$(cat "$tmp/$2.a.addr")" \
        "server=$(cat "$tmp/$2.b.addr")" copies="$3" size="$4" transport=tcp \
        connections=4
    pid=${pids[-1]}
    echo "$(kb "$pid" VmLck) $(kb "$pid" RssAnon)"
    kill "$pid"
    wait "$pid" || :
    unset 'pids[-1]'
}

for slab in "${slabs[@]}"; do
    for name in a b; do
        start test -s "$tmp/$slab.$name.addr" -- farpage-memserver \
            --size "$slab" --slab "$slab" --reserve 0 --insecure \
            --listen 127.0.0.1:0 --address-file "$tmp/$slab.$name.addr"
    done
    for copies in 1 2; do
        locked "$slab$copies" "$slab" $copies 8G >"$tmp/small"
        locked "$slab${copies}large" "$slab" $copies 1032G >"$tmp/large"
        read -r lck rss <"$tmp/small"
        read -r lck_large rss_large <"$tmp/large"
        echo "slabs of $slab, $copies copies: 8 GiB: VmLck $lck kB, RssAnon $rss kB;" \
            "one GiB more: VmLck $((lck_large - lck)) B, RssAnon $((rss_large - rss)) B"
    done
done
