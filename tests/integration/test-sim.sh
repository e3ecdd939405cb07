#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Simulated clients and memory servers, with faults (tests/sim/simulate.c). The
# seeds are fixed. TEST_SIM_MINUTES=N takes others, for that long.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"

simulate=$top_builddir/tests/sim/simulate
run=$top_srcdir/tests/sim/run
export top_builddir

# The same seed gives the same run, event by event.
for n in 1 2; do
    "$simulate" --seed 7 --ops 300 --mode harsh --trace "$tmp/trace.$n" >"$tmp/line.$n" 2>&1 ||
        fail "seed 7: $(tail -n 2 "$tmp/line.$n")"
done
cmp "$tmp/trace.1" "$tmp/trace.2" || fail "two runs of one seed differ"
[[ $(wc -l <"$tmp/trace.1") -gt 300 ]] || fail "the trace is short"
cmp "$tmp/line.1" "$tmp/line.2" || fail "two runs of one seed say different things"
"$simulate" --seed 8 --ops 300 --mode harsh >"$tmp/line.3" 2>&1 || fail "seed 8: $(tail -n 2 "$tmp/line.3")"
! cmp -s "$tmp/line.1" "$tmp/line.3" || fail "two seeds give one run"

# Without faults no request fails.
"$simulate" --ops 300 --no-faults | grep -q '[1-9][0-9]* requests done, 0 failed' ||
    fail "a request failed without a fault"

if [[ -n ${TEST_SIM_MINUTES-} ]]; then
    "$run" --seed "$(date +%s)" --minutes "$TEST_SIM_MINUTES" --ops 1000 --logs "$tmp" ||
        fail "$(tail -n 40 "$tmp"/seed-*)"
else
    for options in '' --degraded; do
        # shellcheck disable=SC2086 # no option, or one
        "$run" --seeds 25 --jobs 1 --ops 250 --logs "$tmp" -- $options ||
            fail "$(tail -n 40 "$tmp"/seed-*)"
    done
fi
