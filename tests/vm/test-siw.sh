#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Verbs work over soft-iWARP in one guest: RDMA READ, timed by perftest.

# shellcheck source=lib/test.sh
. "$(dirname "$0")/lib/test.sh"
requires_guest
requires_module siw
requires ib_read_lat rdma

claim 0 "ib_read_lat of 4 KiB over siw" \
    "$vm/run" --net siw --timeout 600 vm-read-lat both siw0
claim_output '^ *4096 +300 ' "latencies were measured"
grep -E 't_min|^ *4096' "$tmp/output"

finish
