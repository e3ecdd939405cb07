#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# farpage doctor on the machine that this is: it comes to an end, says what the
# man page says it says, and its exit status goes with that. What it finds is the
# matter of unit/test-doctor.c.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"

requires jq --version

# examine ARG...: its exit status is in $status.
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

# The checks of the man page are those that there are.
jq -r '.findings[].check' "$tmp/out" | sort -u >"$tmp/checks"
"$SED" -n '/^=head1 CHECKS/,/^=head1 OPT/s/^=item B<\(.*\)>$/\1/p' \
    "$top_srcdir/tools/farpage-doctor.pod" | sort >"$tmp/pod"
diff "$tmp/checks" "$tmp/pod" || fail "checks (<) and farpage-doctor.pod (>) differ"

# As text: no colour where it is no terminal, whatever TERM is; each line fits.
TERM=xterm examine
if grep -q $'\033' "$tmp/out"; then fail "colour in a file"; fi
if LC_ALL=C grep -qE '^.{80,}$' <(grep -v / "$tmp/out"); then fail "a long line"; fi
grep -q '^[0-9]* problems, [0-9]* warnings, ' "$tmp/out" || fail "no last line"

# One check; one that there is not.
examine kernel
[ "$(grep -c '^[a-z]* *kernel: Linux' "$tmp/out")" = 1 ] || fail "kernel: $(cat "$tmp/out")"
status=0
farpage doctor kernle >"$tmp/out" 2>"$tmp/err" || status=$?
[ $status = 2 ] || fail "an unknown check: exit $status"
grep -q 'kernle: no such check' "$tmp/err" || fail "does not say so: $(cat "$tmp/err")"

# Whoever it is, and with nothing in the environment.
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
    cp "$top_builddir/tools/farpage" "$tmp/farpage"
    chmod 755 "$tmp" "$tmp/farpage"
    timeout 60 setpriv --reuid 65534 --regid 65534 --clear-groups \
        env -i PATH="$PATH" "$tmp/farpage" doctor >"$tmp/out" 2>"$tmp/err" || [ $? = 1 ] ||
        fail "as nobody: $(cat "$tmp/err")"
    grep -q 'root would see more' "$tmp/out" || fail "as nobody: $(cat "$tmp/out")"
fi
