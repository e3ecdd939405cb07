#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The linter finds nothing in any shell script.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"
# shellcheck source=tests/meta/files.sh
. "$top_srcdir/tests/meta/files.sh"

[ "$SHELLCHECK" != no ] || skip "no shellcheck (Debian: shellcheck)"
shell_scripts >"$tmp/scripts"
grep -qx run.in "$tmp/scripts" || fail "found no scripts"
xargs "$SHELLCHECK" -x -P SCRIPTDIR <"$tmp/scripts" || fail "see above"
