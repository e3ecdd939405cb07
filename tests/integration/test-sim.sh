#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Simulated clients and memory servers, with faults (tests/sim/simulate.c). The
# seeds are fixed. TEST_SIM_MINUTES=N runs new seeds for N minutes instead.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"

# The unit tests of the engine are on virtual time, too, and run there.
if [[ $SANITIZER_PRELOAD == *tsan* ]]; then
    skip "threads of the simulated network and card take turns, which ThreadSanitizer does not see"
fi
simulate=$top_builddir/tests/sim/simulate
run=$top_srcdir/tests/sim/run
scenarios=$top_srcdir/tests/sim/scenarios
export top_builddir

# The same seed gives the same run, event by event.
for n in 1 2; do
    "$simulate" --seed 7 --ops 300 --mode harsh --pause 1000 --trace "$tmp/trace.$n" >"$tmp/line.$n" 2>&1 ||
        fail "seed 7: $(tail -n 2 "$tmp/line.$n")"
done
cmp "$tmp/trace.1" "$tmp/trace.2" || fail "two runs of one seed differ"
[[ $(wc -l <"$tmp/trace.1") -gt 300 ]] || fail "the trace is short"
cmp "$tmp/line.1" "$tmp/line.2" || fail "two runs of one seed print different results"
"$simulate" --seed 8 --ops 300 --mode harsh --pause 1000 >"$tmp/line.3" 2>&1 ||
    fail "seed 8: $(tail -n 2 "$tmp/line.3")"
! cmp -s "$tmp/line.1" "$tmp/line.3" || fail "two seeds give one run"

# Without faults no request fails.
"$simulate" --ops 300 --no-faults | grep -q '[1-9][0-9]* requests done, 0 failed' ||
    fail "a request failed without a fault"

# A scenario that does not exist, or names an unknown fault, is refused.
for wrong in "$scenarios:none" "$tmp/none:none" "$tmp/bad:bad"; do
    printf '[bad] a typing error\n1 2 donor kiled 0\n' >"$tmp/bad"
    if "$simulate" --scenario "$wrong" >"$tmp/out" 2>&1; then fail "--scenario $wrong is accepted"; fi
    grep -q '^simulate: --scenario: ' "$tmp/out" || fail "--scenario $wrong: $(cat "$tmp/out")"
done

if [[ -n ${TEST_SIM_MINUTES-} ]]; then
    "$run" --seed "$(date +%s)" --minutes "$TEST_SIM_MINUTES" --ops 1000 --logs "$tmp/logs" ||
        fail "$(tail -n 40 "$tmp"/logs/*)"
    exit 0
fi
for options in '' --degraded; do
    # shellcheck disable=SC2086 # no option, or one
    "$run" --seeds 8 --jobs 1 --ops 250 --logs "$tmp/logs" -- --faults 20 $options ||
        fail "$(tail -n 40 "$tmp"/logs/*)"
done
"$run" --scenarios "$scenarios" --seeds 1 --jobs 1 --logs "$tmp/logs" -- --pause 200 ||
    fail "$(tail -n 40 "$tmp"/logs/*)"
