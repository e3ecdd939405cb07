#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The plugin's parameters are the same in its --help, in its man page (items and
# synopsis), and in its parser.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"

dir=$top_srcdir/nbdkit-plugin
pod=$dir/nbdkit-farpage-plugin.pod

requires nbdkit --version
LD_PRELOAD=$SANITIZER_PRELOAD nbdkit "$FARPAGE_PLUGIN" --help >"$tmp/all"
# Each parameter starts a line. server= is in brackets, as it may be omitted.
sed -nE 's/^(\[?)([a-z_-]+)=\]?[^ ]*( .*)?$/\2/p' "$tmp/all" | sort >"$tmp/help"
sed -nE 's/^=item \[?B<([a-z_-]+)=>.*/\1/p' "$pod" | sort >"$tmp/items"
sed -n '/^=head1 SYNOPSIS/,/^=head1 DESC/p' "$pod" |
    sed 's/,[a-z]*=[A-Z]*//g' | grep -oE '[a-z_-]+=' | tr -d = | sort -u >"$tmp/synopsis"
sed -nE 's/^  \{ "([a-z_-]+)", set_.*/\1/p' "$top_srcdir/lib/front/params.c" | sort >"$tmp/parser"

[ -s "$tmp/parser" ] || fail "found no table in params.c"
for f in help items synopsis; do
    diff "$tmp/parser" "$tmp/$f" || fail "params.c (<) and the $f (>) differ"
done
podchecker "$pod" >"$tmp/pod" 2>&1 || { cat "$tmp/pod"; fail "$pod"; }
