#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Verbs work over soft-RoCE in one guest: RDMA READ, timed by perftest.

# shellcheck source=lib/test.sh
. "$(dirname "$0")/lib/test.sh"
requires_guest
requires ib_read_lat rdma

claim 0 "ib_read_lat of 4 KiB over rxe" \
    "$vm/run" --net rxe --timeout 600 vm-read-lat both rxe0
claim_output '^ *4096 +300 ' "latencies were measured"
grep -E 't_min|^ *4096' "$tmp/output"

finish
