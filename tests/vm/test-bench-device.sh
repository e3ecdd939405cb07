#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# farpage bench on an attached device: fio's figures become rows. A device that
# is in use, or that holds data, is left alone.

# shellcheck source=lib/test.sh
. "$(dirname "$0")/lib/test.sh"
requires_guest
requires jq fio nbdkit mkfs.ext4
build=${top_builddir:-$(cd "$vm/../.." && pwd)}
[[ -x $build/run ]] || skip "no build tree at $build: set top_builddir"

json=${tmp:?}/share/bench
mkdir "$tmp/share"
claim 0 "farpage bench of a device over shm" \
    "$vm/run" --timeout 900 --share "$tmp/share" \
    "$build/run" "$vm/guest/bench-device-cases" /share/bench
for c in no-fio data mounted swapped overwrite; do
    claim_output "^ok $c\$" "$c"
done

holds ()
{
    if jq -e "$2" < "$json" > /dev/null; then pass "$1"; else fail "$1"; fi
}
holds "the device has its rows" \
    '[.rows[] | "\(.layer) \(.op) \(.size) \(.depth)"] ==
     ["device read 4096 1", "device write 4096 1",
      "device read 4096 32", "device write 4096 32",
      "device read 131072 8", "device write 131072 8"]'
holds "all of them measured something" \
    'all(.rows[]; .iops > 0 and .p50_us > 0 and .p50_us <= .p99_us and
     .p99_us <= .p999_us and .rounds == 2)'
# Rounds of a loaded host differ much, and a median is not a mean. So this
# checks only the units.
holds "latency, rate and depth belong together" \
    'all(.rows[]; .iops * .mean_us / 1e6 / .depth | . > 0.02 and . < 2)'
holds "the donor's processor time is known" \
    'all(.rows[]; has("donor_cpu_ms_per_gib"))'
# On a loaded host a clock tick that hits the donor's process is charged to it.
# So one of the two rows may be off.
if [[ ${FARPAGE_BENCH:-no} == yes ]]; then
    holds "the donor's processor time is next to nothing" \
        '[.rows[] | select(.size == 131072).donor_cpu_ms_per_gib] | min < 1000'
fi
jq -r '.rows[] | "\(.layer) \(.op) \(.size) x \(.depth): \(.iops)/s, " +
    "p50 \(.p50_us) us, donor \(.donor_cpu_ms_per_gib) ms/GiB"' < "$json"
finish
