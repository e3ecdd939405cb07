#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The pressure laboratory, with small sizes. A machine that as a whole has too
# little memory swaps to another machine's, and lives. If nothing answers any
# more, the watchdog notices, and shows where every task is. See
# tests/vm/pressure-lab --help and docs/SWAP.md.

# shellcheck source=lib/test.sh
. "$(dirname "$0")/lib/test.sh"
requires_guest
[[ ${TEST_PRESSURE:-no} = yes ]] || skip "takes minutes: set TEST_PRESSURE=yes"
requires jq nbdkit mkswap
build=${top_builddir:-$(cd "$vm/../.." && pwd)}
[[ -x $build/run && -x $build/tests/vm/watchdog ]] ||
    skip "no build tree at $build: set top_builddir"

# Send little over the network, to be quick under emulation.
small=(--random 0 --deadline 500 --transport tcp)
cp "$vm/../../docs/SWAP.md" "$tmp/runs.md"
claim 0 "a whole machine out of memory lives on another one's" \
    "$vm/pressure-lab" "${small[@]}" --logs "$tmp/good" --record "$tmp/runs.md"
cp "$tmp/output" "$tmp/runs"
claim_output 'result=finished .* contents=OK hung=0 oom=0 errors=0 ' "and its contents are right"
claim_output ' out=[1-9][0-9]{3,} in=[1-9][0-9]{3,} ' "pages went, and came back"
claim_output ' reclaim=0 restarts=0$' "without a thread of farpage that had to free memory"
claim 0 "though others had to" grep -E 'lab: reclaim=0 all=[1-9][0-9]* uncounted=0' "$tmp/good/001-tcp-hog.out"
grep '^round' "$tmp/runs"

claim 1 "that nothing goes on is seen" \
    "$vm/pressure-lab" "${small[@]}" --stall 20 --measure freeze=yes --logs "$tmp/stuck"
claim_output 'result=stalled .* contents=unknown ' "and told"
claim_output '  the stacks are in' "with the stacks"
claim 0 "among them that of the program that waits" \
    grep -a -A 30 'task:hog' "$tmp/stuck/001-tcp-hog.stacks"
claim_output 'swap_readpage|swap_writepage|__swap_writepage|rq_qos_wait|blk_mq_get_tag|folio_wait|shrink_|nbd_queue_rq|balance|io_schedule' \
    "in the kernel, for the swap"

claim 0 "the run is in the table" \
    grep -E '^\| [^|]* \| 6\.[0-9]+ \| nbd \| tcp \| hog \| 256, 384 \| 1 \| none \| finished, OK ' "$tmp/runs.md"
claim 2 "bad usage is told" "$vm/pressure-lab" --transport pigeon
claim 2 "a measure has a name" "$vm/pressure-lab" --measure luck=yes
claim 2 "and a value that can be" "$vm/pressure-lab" --measure rt=maybe
claim 2 "a server can be lost if there are two" "$vm/pressure-lab" --lose yes
claim 2 "a disk has no copies" "$vm/pressure-lab" --transport disk --copies 2
claim 2 "and no front end" env FARPAGE_VM_KERNEL=6.12 "$vm/pressure-lab" --transport disk --front ublk
claim_output 'with rdma or tcp only' "which is told"
claim 2 "and no thread of ours" "$vm/pressure-lab" --transport disk --measure rt=no
claim 2 "no run is not a good run" "$vm/pressure-lab" --workload ''
claim 2 "a table is needed to record a run" "$vm/pressure-lab" --record "$tmp/output"
claim 0 "--help works" "$vm/pressure-lab" --help
finish
