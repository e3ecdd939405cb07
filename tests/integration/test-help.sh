#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Every program has --help and --version. With a bad command line it exits with
# status 2.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"

for prog in farpage farpage-memserver; do
    "$prog" --help | grep -q "^Usage: $prog " || fail "$prog --help"
    "$prog" --version | grep -q "^$prog [0-9]" || fail "$prog --version"
    status=0
    "$prog" --no-such-option 2>"$tmp/err" || status=$?
    [ $status = 2 ] || fail "$prog --no-such-option: exit $status, not 2"
    grep -q no-such-option "$tmp/err" || fail "$prog does not name the option"
done

# Each command has a man page and is listed in farpage(8). Its --help, its man
# page and its option table have the same options.
pods=$top_srcdir/tools
# Print the options of each line that begins with one, including those after a
# comma.
options () { grep -oE '^(-[a-zA-Z], )?--[a-z-]+(, --[a-z-]+)?' | grep -oE -e '-[a-zA-Z]\b|--[a-z-]+' | sort -u; }
farpage --help | "$SED" -n 's/^  \([a-z]\{3,\}\) .*/\1/p' | sort >"$tmp/commands"
[ -s "$tmp/commands" ] || fail "--help lists no command"
"$SED" -n 's/^=item L<farpage-\([a-z]*\)(8)>$/\1/p' "$pods/farpage.pod" | sort >"$tmp/listed"
diff "$tmp/commands" "$tmp/listed" || fail "--help (<) and farpage.pod (>) list other commands"
while read -r c; do
    pod=$pods/farpage-$c.pod
    podchecker "$pod" >"$tmp/pod" 2>&1 || { cat "$tmp/pod"; fail "$pod"; }
    farpage "$c" --help | "$SED" 's/^ *//' | options >"$tmp/help.$c"
    "$SED" -n '/^=head1 OPTIONS/,/^=head1 EXIT/s/^=item //p' "$pod" | "$SED" 's/[BF]<\([^>]*\)>/\1/g' |
        options >"$tmp/page"
    diff "$tmp/help.$c" "$tmp/page" || fail "farpage $c --help (<) and $pod (>) differ"
    { echo --help; echo --version
      # A former name is not listed.
      find "$pods" -name "cmd_$c.c" -exec "$SED" '/OPT_OLD/d' {} + |
          "$SED" -nE 's/^  \{ "([a-z-]+)", (no|required)_argument.*/--\1/p'
    } | sort -u >"$tmp/table"
    grep -e "^--" "$tmp/help.$c" | diff - "$tmp/table" ||
        fail "farpage $c --help (<) and cmd_$c.c (>) differ"
done <"$tmp/commands"
for pod in "$top_srcdir"/memserver/*.pod "$pods"/*.conf.pod "$pods"/*.service.pod; do
    podchecker "$pod" >"$tmp/pod" 2>&1 || { cat "$tmp/pod"; fail "$pod"; }
done
for pod in "$pods"/*.pod; do
    c=${pod##*/farpage-}
    case $pod in */farpage.pod|*.service.pod|*.conf.pod) ;; *) grep -qx "${c%.pod}" "$tmp/commands" || fail "$pod: of no command" ;; esac
done

# Without an argument it must not say that no package is missing.
status=0
"$top_srcdir/tests/install-packages" >"$tmp/out" 2>"$tmp/err" || status=$?
[ $status = 2 ] || fail "install-packages without an argument: exit $status"
grep -q '^Usage: install-packages ' "$tmp/err" || fail "install-packages: no usage"
[ ! -s "$tmp/out" ] || fail "install-packages says: $(cat "$tmp/out")"

# In ./run nbdkit finds our plugin by its name, as if it were installed beside
# nbdkit's.
if [ -z "$SANITIZER_PRELOAD" ]; then
    "$top_builddir/run" nbdkit farpage --dump-plugin >"$tmp/dump" || fail "nbdkit farpage"
    grep -q '^farpage_protocol=' "$tmp/dump" || fail "another plugin has the name"
fi
