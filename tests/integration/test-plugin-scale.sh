#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Cost of attaching 64 GiB on 64 servers, or a volume with a name and 16384
# extents. The figures are printed. The time limit allows for a busy machine
# that is three times slower. Threads and descriptors depend on servers and
# connections, never on extents. Little memory is locked.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"

[ -z "$SANITIZER_PRELOAD" ] || skip "these are figures, and a sanitizer has its own"
[ "$NBDSH" != no ] || skip "no nbdsh (Debian: python3-libnbd)"
command -v jq >/dev/null || skip "no jq"
# shellcheck source=tests/bench/scale
. "$top_srcdir/tests/bench/scale"

# within_limits WHAT: check the time and the locked memory.
within_limits ()
{
    # shellcheck disable=SC2154 # see attach
    if [ "${FARPAGE_BENCH:-}" = yes ] && [ "$ms" -ge 6000 ]; then fail "$1: $ms ms until the first answer"; fi
    # shellcheck disable=SC2154
    [ "$MLOCK" = mlock=false ] || [ "$locked_kb" -lt 32768 ] || fail "$1: $locked_kb kB are locked"
}

servers 64 2 4M
for t in shm tcp; do
    mapfile -t params < <(parameters $t 64)
    attach "64 servers, $t" OFFSETS="$(at 32 $((2 << 30)))" -- "${params[@]}" size=64G
    within_limits "64 servers, $t"
done
end_servers 64

for n in 1 8; do
    servers $n $((16640 / n)) 64K
    for t in tcp shm; do
        before=
        for extents in 1024 16384; do
            [ $n = 1 ] || [ $extents = 16384 ] || continue
            what="$extents extents on $n servers, $t"
            mapfile -t params < <(parameters $t $n)
            attach "$what, made" OFFSETS=0 -- "${params[@]}" volume=v size=$((extents * 64))K \
                reserve=full
            attach "$what" READS=1 OFFSETS=0 -- "${params[@]}" volume=v
            within_limits "$what"
            # shellcheck disable=SC2154
            have="$threads threads, $descriptors descriptors"
            [ "$have" = "${before:-$have}" ] || fail "$what: $have, and with 1024: $before"
            before=$have
            farpage volumes delete --yes v "${params[0]#server=}"
        done
    done
    end_servers $n
done
