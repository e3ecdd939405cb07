#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Two guests reach each other over RDMA, and a test can kill one of them.

# shellcheck source=lib/test.sh
. "$(dirname "$0")/lib/test.sh"
requires_guest
requires ib_read_lat rdma

claim 0 "ib_read_lat between two guests over rxe" \
    "$vm/run-pair" --net rxe --timeout 500 'vm-read-lat serve rxe0' \
    'vm-read-lat client rxe0'
claim_output '^client: +4096 +300 ' "latencies were measured over rxe"
grep -E 't_min|^client: +4096' "$tmp/output"

if "$vm/build-modules" siw >/dev/null 2>&1; then
    claim 0 "ib_read_lat between two guests over siw" \
        "$vm/run-pair" --net siw --timeout 500 'vm-read-lat serve siw0' \
        'vm-read-lat client siw0'
    claim_output '^client: +4096 +300 ' "latencies were measured over siw"
    grep -E 't_min|^client: +4096' "$tmp/output"
else
    echo "SKIP: siw between two guests: the module cannot be built"
fi

# No program listens on that port, so a donor that runs refuses the connection at
# once. If no donor answers, the kernel gives up after a while.
# shellcheck disable=SC2016 # for the guest
script='
reach () {
    case $(timeout 30 bash -c "</dev/tcp/10.0.0.1/1" 2>&1) in
    *refused*) echo "$1: answers" ;;
    *) echo "$1: silent" ;;
    esac
}
ask () {
    touch "/share/$1-donor"
    for _ in $(seq 600); do [ -e "/share/$1-donor" ] || return 0; sleep 0.1; done
    echo "no $1"
}
vm-wait /share/donor-is-up 120
reach alive; ask freeze; reach frozen; ask thaw; reach thawed
ask kill; reach killed
exit 7'
claim 7 "the client outlives the donor, and its status counts" \
    "$vm/run-pair" --net none --timeout 400 'touch /share/donor-is-up; sleep 1000' "$script"
claim_output '^client: alive: answers$' "a donor that runs answers"
claim_output '^client: frozen: silent$' "a frozen donor does not"
claim_output '^client: thawed: answers$' "a thawed donor does again"
claim_output '^client: killed: silent$' "a killed donor does not"

claim 126 "the donor's kernel log counts" \
    "$vm/run-pair" --net none \
    'echo "BUG: test" > /dev/kmsg; touch /share/done' 'vm-wait /share/done 60'
claim_output '^donor: klog: .*BUG: test' "the line tells which guest"
claim 125 "the donor's death ends the run" \
    "$vm/run-pair" --net none 'echo c > /proc/sysrq-trigger' 'sleep 1000'

finish
