#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# tools/bench/compare: what it measures, leaves out and refuses.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"

requires fio --enghelp=nbd
requires python3 --version
command -v jq >/dev/null || skip "no jq"
[ -z "$SANITIZER_PRELOAD" ] ||
    skip "tools/bench/compare starts nbdkit without the sanitizer's runtime"
# Put its temporary files where the test sees whether they are removed.
export TMPDIR=$tmp/t
mkdir "$TMPDIR"
compare=$top_srcdir/tools/bench/compare

"$compare" --list >"$tmp/list"
grep -q '^socket  farpage shm$' "$tmp/list" || fail "farpage is no peer"
for bad in '--rounds 0' '--size 1' '--depth 3' '--peer nobody'; do
    status=0
    # shellcheck disable=SC2086 # several words
    "$compare" $bad --out "$tmp/none" 2>"$tmp/err" || status=$?
    if [ $status != 2 ]; then fail "$bad: status $status"; fi
done
if [ -e "$tmp/none" ]; then fail "what was refused left a directory"; fi

# Run two rounds without peers that need a kernel module. A peer that cannot run
# here is left out.
"$compare" --out "$tmp/out" --rounds 2 --seconds 0.3 --size 64 \
    --depth 1 --peer 'nbdkit memory, unix' --peer 'farpage shm' 2>"$tmp/err" >"$tmp/said" ||
    { cat "$tmp/err"; fail "compare failed"; }
jq -e '[.io[] | select(.iops > 0 and .mean_ns > 0 and .machine_us > 0)] | length == 12' \
    "$tmp/out/results.json" >"$tmp/jq" || fail "not 3 peers, 2 jobs, 2 rounds"
jq -e '[.io[] | select(.peer == "farpage shm, 2 copies")] | length == 4' "$tmp/out/results.json" \
    >"$tmp/jq" || fail "no farpage with two copies"
[ "$(find "$tmp/out/raw" -name '*.json' | wc -l)" = 12 ] || fail "fio's own output is not kept"
grep -q '^| farpage shm |' "$tmp/out/report.md" || fail "no farpage in the table"
if command -v gnuplot >/dev/null; then
    grep -q '<svg' "$tmp/out/report.html" || fail "no plot in the page"
fi
[ -z "$(ls -A "$TMPDIR")" ] || fail "left: $(ls -A "$TMPDIR")"
if pgrep -f "farpage-memserver .*$TMPDIR" >/dev/null; then fail "a server is left"; fi

# farpage alone: its layers, and a donor that dies.
"$compare" --own --out "$tmp/own" --rounds 1 --seconds 0.3 --size 64 2>"$tmp/err" >"$tmp/said" ||
    { cat "$tmp/err"; fail "compare --own failed"; }
jq -e '.own | (.layers | length > 4) and .death.died < .death.back and .death.back < .death.whole
    and .death.longest_ms > 0 and ([.death.writes[][1]] | add > 0)
    and ([.death.one_copy[][1]] | max > 0)' "$tmp/own/results.json" >"$tmp/jq" ||
    fail "the death of a donor: $(jq -c '.own.death | del(.writes)' "$tmp/own/results.json")"
# A part that failed is told, and the rest is a report all the same.
status=0
"$compare" --own --donors /dev/null --out "$tmp/none" >"$tmp/said" 2>"$tmp/err" || status=$?
[ $status = 1 ] || fail "no rates: status $status"
grep -q 'farpage alone, donors: FAILED' "$tmp/none/report.md" || fail "what failed is not in the report"
printf '%s\n' '1 write-1M 99' '1 read 2048' '2 read 4096' \
    '4 read 9' {1,2}' write 99' >"$tmp/rates"
status=0
"$compare" --own --donors "$tmp/rates" --out "$tmp/few" >"$tmp/said" 2>"$tmp/err" || status=$?
[ $status = 1 ] || fail "rates of 4 donors are missing: status $status"
echo '4 write 8' >>"$tmp/rates"
"$compare" --own --donors "$tmp/rates" --out "$tmp/donors" || fail "no report of donors"

# Results of several runs and kinds become one report.
mkdir "$tmp/swap"
jq '.kind = "swap" | .io = [] | .swap = [
    {peer: "x", program: "touch and verify", local_percent: 100, seconds: 1},
    {peer: "x", program: "touch and verify", local_percent: 50, seconds: 2,
     samples: 1000, mean: 3, p50: 2, p99: 9},
    {peer: "x", program: "touch and verify", local_percent: 25, note: "no end within 3 s",
     over: 3},
    {peer: "x", program: "sort", local_percent: 100, seconds: 4},
    {peer: "x", program: "sort", local_percent: 25, seconds: 10, samples: 999, mean: 3, p50: 2,
     p99: 9}]' \
    "$tmp/out/results.json" >"$tmp/swap/results.json"
"$compare" --report "$tmp/out/results.json" "$tmp/out/results.json" "$tmp/swap/results.json" \
    "$tmp/own/results.json" "$tmp/donors/results.json" \
    --note 'read this first' --out "$tmp/one" || fail "no report of several runs"
jq -e '.io | length == 24' "$tmp/one/sockets.json" >"$tmp/jq" || fail "rounds are lost"
# The slow-down is against the same program with all its memory. 1000 samples
# have a p99, and 999 do not.
for line in 'read this first' '| 2 | read | 4.0 |' '| 64 MiB | ' '| x | touch and verify | 50 % | 2.0 | 2.00 | 1000 | 3 | 2 | 9 |' \
    '| x | touch and verify | 25 % | no end within 3 s | over 3.00 |  |  |  |  |' \
    '| x | sort | 25 % | 10.0 | 2.50 | 999 | 3 | 2 |  |'; do
    grep -qF "$line" "$tmp/one/report.md" || fail "not in the report: $line"
done
"$compare-all" --help | grep -q '^Usage: compare-all ' || fail "compare-all: no help"
for bad in '' '--rounds 0 x y' '--nonsense'; do
    status=0
    # shellcheck disable=SC2086 # several words
    "$compare-all" $bad >"$tmp/said" 2>"$tmp/err" || status=$?
    if [ $status != 2 ]; then fail "compare-all $bad: status $status"; fi
done
