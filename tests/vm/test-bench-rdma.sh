#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# farpage bench on an RDMA device: all rows are there with figures in them.
# FARPAGE_BENCH=yes also checks that one-sided access costs the donor at most a
# tenth of two-sided access.

# shellcheck source=lib/test.sh
. "$(dirname "$0")/lib/test.sh"
requires_guest
requires jq rdma
build=${top_builddir:-$(cd "$vm/../.." && pwd)}
[[ -x $build/run ]] || skip "no build tree at $build: set top_builddir"

json=${tmp:?}/share/bench
mkdir "$tmp/share"
# shellcheck disable=SC2016 # for the guest
claim 0 "farpage bench in a guest with rxe" \
    "$vm/run" --net rxe --timeout 700 --share "$tmp/share" "$build/run" sh -c \
    'farpage bench --layers raw-rdma,two-sided,engine-rdma --size 64M \
         --seconds 0.5 --rounds 2 --json > /share/bench'

holds ()
{
    if jq -e "$2" < "$json" > /dev/null; then pass "$1"; else fail "$1"; fi
}
holds "each layer has its rows" \
    '[.rows | group_by(.layer)[] | "\(.[0].layer) \(length)"] ==
     ["engine-rdma 6", "raw-rdma 8", "two-sided 6"]'
holds "all of them measured something" \
    'all(.rows[]; .iops > 0 and .p50_us > 0 and .p50_us <= .p99_us and
     .p99_us <= .p999_us and .rounds == 2)'
holds "compare-and-swap is among them" \
    '[.rows[] | select(.op == "cas") | .depth] == [1, 32]'
if [[ ${FARPAGE_BENCH:-no} == yes ]]; then
    holds "two-sided costs the donor, and one-sided a tenth of it at most" \
        'def cost(l): [.rows[] | select(.layer == l and .size == 4096) |
             .donor_cpu_ms_per_gib] | add / length;
         cost("two-sided") > 0 and
         cost("raw-rdma") <= cost("two-sided") / 10 and
         cost("engine-rdma") <= cost("two-sided") / 10'
fi

# The engine's probe forks. If its child made objects on a device that this
# process has open, they would stay. So several layers must have no more queue
# pairs than each of them alone.
claim 0 "queue pairs of layers alone and together, in a guest with rxe" \
    "$vm/run" --net rxe --timeout 900 "$build/run" \
    "$vm/guest/bench-objects" raw-rdma engine-rdma raw-rdma,engine-rdma
count () { sed -n "s/^$1: \([0-9]*\)\$/\1/p" "$tmp/output"; }
none=$(count nothing) raw=$(count raw-rdma) engine=$(count engine-rdma)
both=$(count raw-rdma,engine-rdma)
if (( ${both:-0} == ${raw:-0} + ${engine:-0} - ${none:-0} &&
      ${raw:-0} > ${none:-0} && ${engine:-0} > ${none:-0} )); then
    pass "the probe leaves nothing on a device that is open"
else
    fail "queue pairs: $(cat "$tmp/output")"
fi

jq -r '.rows[] | "\(.layer) \(.op) \(.size) x \(.depth): \(.iops)/s, " +
    "p50 \(.p50_us) us, donor \(.donor_cpu_ms_per_gib) ms/GiB"' < "$json"
finish
