# SPDX-License-Identifier: BSD-3-Clause
# Sourced by the test-memserver-*.sh scripts after functions.sh. Starts a memory
# server on a TCP and a Unix socket ($tcp, $unix), asks for its state, and runs
# clients of it.

# shellcheck shell=bash disable=SC2034,SC2154 # used by the scripts that source this

memclient="$top_builddir/tests/integration/memclient"
[ -x "$memclient" ] || skip "memclient was not built"

# serve LEASE MIB [ARG...]: start a server with 16 slabs of MIB MiB. It leaves
# $reserve (0) to the host. It keeps what a client left for $orphan_time (0)
# after the lease.
serve ()
{
    local lease=$1 mib=$2
    shift 2
    start_memserver m --listen "unix:$tmp/m.sock" --size "$((16 * mib))M" --slab "${mib}M" \
        --lease "$lease" --orphan-time "${orphan_time:-0}" --reserve "${reserve:-0}" "$@"
    tcp=$(head -n1 "$tmp/m.addr")
    unix=unix:$tmp/m.sock
    server_pid=$(cat "$tmp/m.pid")
    wait_until 30 all_free
}

# client ADDR NAME WORD...: run memclient and wait for its end. Its output is in
# $tmp/NAME.out.
client ()
{
    local name=$2
    timeout 180 "$memclient" "$@" >"$tmp/$name.out" 2>"$tmp/$name.err" || {
        cat "$tmp/$name.out" "$tmp/$name.err"
        fail "memclient $*"
    }
}

# Print the totals of the server's STAT reply, one line.
server_stat () { "$memclient" "$unix" stat ping stat | grep '^total='; }
all_free () { server_stat | grep -q '^total=16 free=16 '; }

# Print how many file descriptors and threads the server has.
server_resources ()
{
    echo "$(find "/proc/$server_pid/fd" -mindepth 1 | wc -l)" \
        "$(find "/proc/$server_pid/task" -mindepth 1 -maxdepth 1 | wc -l)"
}

# resources_are TEXT: succeed if server_resources prints TEXT.
resources_are () { [ "$(server_resources)" = "$1" ]; }

# holding ADDR NAME BYTE: start a client that fills its two slabs with BYTE over
# shm, and then waits.
# kept NAME: let the client check that the slabs still hold BYTE, whatever the
# server did.
holding ()
{
    local name=$2
    mkfifo "$tmp/$name.fifo"
    "$memclient" "$1" "$name" open:8:c:shm grant:2 label:1 "fill:$3" hold "kept:$3" \
        <"$tmp/$name.fifo" >"$tmp/$name.out" 2>"$tmp/$name.err" &
    holding_pid=$!
    cleanup_fn kill -9 $holding_pid
    exec 8>"$tmp/$name.fifo"
    wait_until 30 grep -q hanging "$tmp/$name.out"
}
kept ()
{
    exec 8>&-
    wait "$holding_pid" || fail "what $1 had mapped: $(cat "$tmp/$1.err")"
}

# hanging ADDR NAME WORD...: start a client that obeys the words and then waits.
# Its pid is in $hanging_pid.
hanging ()
{
    local name=$2
    "$memclient" "$@" hang >"$tmp/$name.out" 2>"$tmp/$name.err" &
    hanging_pid=$!
    cleanup_fn kill -9 $hanging_pid
    wait_until 30 grep -q hanging "$tmp/$name.out"
}

# waiting ADDR NAME WORD...: start a client that waits at the word 'hold'.
# 'go_on NAME' lets it do the rest, and returns when it has ended.
declare -A pids fifos
waiting ()
{
    local addr=$1 name=$2 fd
    shift 2
    mkfifo "$tmp/$name.fifo"
    "$memclient" "$addr" "$name" "$@" <"$tmp/$name.fifo" >"$tmp/$name.out" \
        2>"$tmp/$name.err" &
    pids[$name]=$!
    cleanup_fn kill -9 $!
    exec {fd}>"$tmp/$name.fifo"
    fifos[$name]=$fd
    wait_until 30 grep -q hanging "$tmp/$name.out"
}
go_on ()
{
    local fd=${fifos[$1]}
    exec {fd}>&-
    wait "${pids[$1]}" || fail "$1: $(cat "$tmp/$1.err")"
}
