#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# clang-format would change nothing.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"
# shellcheck source=tests/meta/files.sh
. "$top_srcdir/tests/meta/files.sh"

[ "$CLANG_FORMAT" != no ] || skip "no clang-format-14 (Debian: clang-format-14)"
c_files | xargs "$CLANG_FORMAT" --dry-run -Werror ||
    fail "run: $CLANG_FORMAT -i FILE"
