#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A bad command line or file gives exit status 2 and one line that says what is
# wrong with it. If the server cannot get a resource, the status is 1.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"

# refused STATUS TEXT [ARG...]: check that the server does not start, and says
# TEXT.
refused ()
{
    local status=0 expected=$1 text=$2
    shift 2
    timeout 60 farpage-memserver "$@" >"$tmp/out" 2>"$tmp/err" || status=$?
    [ $status = "$expected" ] ||
        { cat "$tmp/err"; fail "exit $status, not $expected: $*"; }
    grep -qF -- "$text" "$tmp/err" ||
        { cat "$tmp/err"; fail "does not say '$text': $*"; }
    [ ! -s "$tmp/out" ] || fail "prints to stdout: $*"
}

refused 2 'how much to lend'
refused 2 "'0x10' is not a size" --size 0x10
refused 2 'how much to lend' --size 0
refused 2 'a value is missing' --size ''
refused 2 'size is given twice' --size 1G --size 1G
refused 2 'not a multiple' --size 300M
refused 2 'not a power of two' --size 300M --slab 3M
refused 2 'not a power of two' --size 32K --slab 32K
refused 2 'use a larger --slab' --size 4096G --slab 1M
refused 2 "'x y'" --size 1G --name 'x y'
refused 2 "'4M' is not one of" --size 1G --hugepages 4M
refused 2 'smaller than a huge page' --size 1G --hugepages 1G
refused 2 'is not a number' --size 1G --numa one
refused 2 'is not a time from 1s to 1d' --size 1G --lease 0
refused 2 'is not one of' --size 1G --log-level loud
refused 2 'did you mean fdstore:?' --size 1G --backing fdstore
refused 2 'unrecognized option' --size 1G --frob
refused 2 "'extra' is not an option" --size 1G extra
refused 2 'listen' --size 1G --listen 'a:b:c'
refused 2 'listen' --size 1G --listen 127.0.0.1:99999
refused 2 'is given twice' --size 1G --listen 127.0.0.1 --listen 127.0.0.1
refused 2 'is given twice' --size 1G --listen "unix:$tmp/s" --listen "unix:$tmp/s"
refused 2 'a port is needed' --size 1G --metrics localhost
refused 2 'a port is needed' --size 1G --metrics '[::1]'
refused 2 "metrics: 'a:b'" --size 1G --metrics a:b
refused 2 'metrics is given twice' --size 1G --metrics a:1 --metrics b:1

refused 1 'would fit' --size 1024T --slab 1G
refused 1 'would fit' --size 256M --reserve 1024T
refused 1 'listen: ' --size 1M --slab 1M --listen "unix:$tmp/no/such/dir"
refused 1 'metrics: ' --size 1M --slab 1M --reserve 0 --listen "unix:$tmp/sock" \
    --metrics "unix:$tmp/no/such/dir"
refused 1 'numa: there is no node 1000' --size 1M --slab 1M --numa 1000
refused 1 'slabs fit in huge pages' --size 64G --slab 1G --hugepages 1G \
    --listen "unix:$tmp/sock"

refused 2 'No such file' --config "$tmp/none"
conf () { printf '%s\n' "$@" >"$tmp/conf"; }
conf 'size = 1G' 'frob = 1'
refused 2 "'frob' is not an option" --config "$tmp/conf"
conf 'size = 1G' 'size = 2G'
refused 2 "'size' is given twice" --config "$tmp/conf"
conf 'size = much'
refused 2 "$tmp/conf" --config "$tmp/conf"
conf '[memory]' 'size = 1G'
refused 2 "'memory.size' is not an option" --config "$tmp/conf"
conf 'nothing'
refused 2 'line 1' --config "$tmp/conf"

# The command line wins over the file.
conf 'size = 1024T' 'slab = 1M' 'lease = 7' "listen = unix:$tmp/file.sock" \
    'reserve = 0' "address-file = $tmp/addr"
farpage-memserver --config "$tmp/conf" --size 2M --name named \
    2>"$tmp/server.log" &
cleanup_fn stop $!
wait_until 20 test -s "$tmp/addr"
grep -qx "unix:$tmp/file.sock" "$tmp/addr" || fail "listens elsewhere"
wait_until 20 grep -q 'ready: 2 slabs of 1M' "$tmp/server.log"
