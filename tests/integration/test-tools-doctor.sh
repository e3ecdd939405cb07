#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# farpage doctor on this machine ends, says what the man page promises, and has
# the exit status that belongs to it. (unit/test-doctor.c tests its findings.)

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"

requires jq --version

# examine ARG...: run it, and set $status to its exit status.
examine ()
{
    status=0
    timeout 60 farpage doctor "$@" >"$tmp/out" 2>"$tmp/err" || status=$?
    [ ! -s "$tmp/err" ] || fail "doctor $*: $(cat "$tmp/err")"
}

examine --json
wanted=$(jq 'if .result == "problem" then 1 else 0 end' "$tmp/out")
[ "$status" = "$wanted" ] || fail "exit $status: $(cat "$tmp/out")"
jq -e '.version == 1 and .ok + .unknown + .warning + .problem == (.findings | length)
    and (.findings | all(.title != "" and .what != "" and
        ([.result] | inside(["ok", "unknown", "warning", "problem"])) and
        (.remedy == "") == ([.result] | inside(["ok"])) or .result == "unknown"))' \
    "$tmp/out" >/dev/null || fail "not as the man page says: $(cat "$tmp/out")"

# The man page lists exactly the checks that exist.
jq -r '.findings[].check' "$tmp/out" | sort -u >"$tmp/checks"
"$SED" -n '/^=head1 CHECKS/,/^=head1 OPT/s/^=item B<\(.*\)>$/\1/p' \
    "$top_srcdir/tools/farpage-doctor.pod" | sort >"$tmp/pod"
diff "$tmp/checks" "$tmp/pod" || fail "checks (<) and farpage-doctor.pod (>) differ"

# Text: no colour in a file, whatever TERM is, and each line fits.
TERM=xterm examine
if grep -q $'\033' "$tmp/out"; then fail "colour in a file"; fi
if LC_ALL=C grep -qE '^.{80,}$' <(grep -v / "$tmp/out"); then fail "a long line"; fi
grep -q '^[0-9]* problems, [0-9]* warnings, ' "$tmp/out" || fail "no last line"

# One check alone, and an unknown one.
examine kernel
[ "$(grep -c '^[a-z]* *kernel: Linux' "$tmp/out")" = 1 ] || fail "kernel: $(cat "$tmp/out")"
status=0
farpage doctor kernle >"$tmp/out" 2>"$tmp/err" || status=$?
[ $status = 2 ] || fail "an unknown check: exit $status"
grep -q 'kernle: no such check' "$tmp/err" || fail "does not say so: $(cat "$tmp/err")"

# Another user, with an empty environment, can run it, too.
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
    cp "$top_builddir/tools/farpage" "$tmp/farpage"
    chmod 755 "$tmp" "$tmp/farpage"
    timeout 60 setpriv --reuid 65534 --regid 65534 --clear-groups \
        env -i PATH="$PATH" "$tmp/farpage" doctor >"$tmp/out" 2>"$tmp/err" || [ $? = 1 ] ||
        fail "as nobody: $(cat "$tmp/err")"
    grep -q 'run as root to see more' "$tmp/out" || fail "as nobody: $(cat "$tmp/out")"
fi
