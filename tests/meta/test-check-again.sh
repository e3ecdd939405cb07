#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# tests/check-again: a test that fails once is flaky. A test that fails twice,
# or that a sanitizer reported, has failed. A makefile stands in for automake's.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"

# The make that runs this test may have been given TESTS=.
unset MAKEFLAGS MAKEOVERRIDES MFLAGS
mkdir "$tmp/build" "$tmp/build/tests" "$tmp/build/tests/unit" "$tmp/build/tests/integration"
printf '#!/bin/sh\nexec "$@"\n' >"$tmp/build/run"
chmod +x "$tmp/build/run"
# The file NAME.runs lists the results of the runs of a test, one a line.
cat >"$tmp/build/tests/Makefile" <<'END'
TESTS = $(ALL)
check-some check:
	@echo "$(TESTS)" >>runs; bad=0; for t in $(TESTS); do \
	    log=$${t%.sh}.log; trs=$${t%.sh}.trs; \
	    r=$$(head -n 1 $$t.runs); sed -i 1d $$t.runs; \
	    echo "the output of $$t" >$$log; \
	    e=1; case $$r in REPORT) echo 'ERROR: AddressSanitizer: x' >>$$log; r=FAIL ;; \
	        CRASH) e=139; r=FAIL ;; BREAK) exit 1 ;; esac; \
	    echo "$$r $$t (exit status: $$e)" >>$$log; echo ":test-result: $$r" >$$trs; \
	    echo "$$r: $$t"; case $$r in FAIL|ERROR) bad=1 ;; esac; \
	done; echo >test-suite.log; exit $$bad
END

# run STATUS 'NAME RESULT...'...: run check-again for these tests, and check its
# exit status.
run ()
{
    local wanted=$1 all='' t name status=0
    shift
    rm -rf "$tmp/first" "$tmp/build/tests/runs"
    mkdir "$tmp/first"
    find "$tmp/build/tests" -name 'test-*' -delete
    for t; do
        name=${t%% *}
        all="$all $name"
        printf '%s\n' "${t#* }" | tr ' ' '\n' >"$tmp/build/tests/$name.runs"
    done
    ALL=$all "$top_srcdir/tests/check-again" "$tmp/build" check-some 2 "$tmp/first" \
        3>"$tmp/told" >"$tmp/out" || status=$?
    [ $status = "$wanted" ] || { cat "$tmp/out"; fail "$*: exit status $status, not $wanted"; }
}
flaky () { cat "$tmp/first/flaky" 2>/dev/null || :; }
ran () { [ "$(paste -sd, "$tmp/build/tests/runs")" = "$1" ] || { cat "$tmp/build/tests/runs"; fail "not run: $1"; }; }

run 0 'unit/test-a PASS' 'integration/test-a.sh SKIP'
[ -z "$(flaky)" ] || fail "flaky: $(flaky)"
ran ' unit/test-a integration/test-a.sh'

run 0 'unit/test-a FAIL PASS' 'integration/test-a.sh FAIL PASS' 'unit/test-b PASS'
[ "$(flaky)" = "integration/test-a: $tmp/first/integration-test-a.log
unit/test-a: $tmp/first/unit-test-a.log" ] || fail "flaky: $(flaky)"
grep -q '^FAIL unit/test-a' "$tmp/first/unit-test-a.log" || fail "the first log is not kept"
# Each of them runs again alone, after the others.
ran ' unit/test-a integration/test-a.sh unit/test-b,integration/test-a.sh,unit/test-a'
grep -q 'FAIL unit/test-a$' "$tmp/told" || fail "nothing was told at once"
grep -q 'the output of unit/test-a$' "$tmp/told" || fail "no log was shown"

run 2 'unit/test-a FAIL FAIL' 'unit/test-b FAIL PASS'
[ "$(flaky)" = "unit/test-b: $tmp/first/unit-test-b.log" ] || fail "flaky: $(flaky)"
grep -qx ':test-result: FAIL' "$tmp/build/tests/unit/test-a.trs" || fail "it has not failed"

# A test that is skipped the second time has not passed.
run 2 'unit/test-a FAIL SKIP'
grep -qx ':test-result: FAIL' "$tmp/build/tests/unit/test-a.trs" || fail "a skip hides a failure"

run 2 'unit/test-a REPORT PASS' 'unit/test-b ERROR PASS'
ran ' unit/test-a unit/test-b'

run 2 'unit/test-a CRASH PASS' 'unit/test-b PASS'
ran ' unit/test-a unit/test-b'

# If make stops early, it has not run all tests.
run 2 'unit/test-a FAIL PASS' 'unit/test-b BREAK' 'unit/test-c PASS'
ran ' unit/test-a unit/test-b unit/test-c'

run 2 'unit/test-'{1..9}' FAIL PASS'
[ -z "$(flaky)" ] || fail "nine failures were taken for an accident"

# If make cannot run, that is not a failed test.
rm "$tmp/build/tests/Makefile"
run 2 'unit/test-a PASS'
