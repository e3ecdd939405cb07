#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Run the soak (tests/bench/soak.sh) for some seconds. It must work and see no
# error. Growth would take longer to see.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"

[ -z "$SANITIZER_PRELOAD" ] || skip "nbdkit is started without the sanitizer"
command -v jq >/dev/null || skip "no jq"
requires fio --enghelp=nbd
has_tmpfs || skip "/dev/shm is no tmpfs, or too small"
bash "$top_srcdir/tests/bench/soak.sh" tcp "${SOAK_SECONDS:-20}" "${SEED:-$RANDOM}" >"$tmp/soak.log" 2>&1 ||
    fail "the soak failed"
tail -n 3 "$tmp/soak.log"
grep -q ' ok$' "$tmp/soak.log" || fail "it does not say that it is well"
