#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The plugin exports its entry point and its debug flags, and nothing else.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"

if ! ls "$top_srcdir"/nbdkit-plugin/*.c >/dev/null 2>&1; then
    skip "there is no plugin yet"
fi
nm -D --defined-only --format=posix "$FARPAGE_PLUGIN" >"$tmp/symbols"
grep -q '^plugin_init ' "$tmp/symbols" || fail "no plugin_init"
# ASan adds a companion to each variable.
if grep -vE '^(plugin_init|(__odr_asan\.)?[a-z0-9_]+_debug_[a-z0-9_]+) ' "$tmp/symbols"; then
    fail "these symbols are exported too"
fi
