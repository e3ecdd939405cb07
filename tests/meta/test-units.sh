#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# systemd understands the units, and the memory server's sandbox is as tight as
# it was.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"
requires systemd-analyze --version

n=0
for unit in "$top_builddir"/memserver/*.service "$top_builddir"/tools/*.service \
            "$top_builddir"/tools/*.timer; do
    [ -e "$unit" ] || continue
    if grep -n '@[a-z]*@' "$unit"; then fail "$unit: not replaced"; fi
    # The programs and man pages that a unit names are not installed here.
    sed -e 's|^\(Exec[A-Za-z]*=\)\([-:+!|@]*\)/[^ ]*|\1\2/bin/true|' -e '/^Documentation=/d' \
        "$unit" >"$tmp/${unit##*/}"
    n=$((n + 1))
done
[ $n -gt 0 ] || fail "no units in $top_builddir: make"
for unit in "$tmp"/*.service "$tmp"/*.timer; do
    name=${unit##*/}
    case $name in
    *@.*) cp "$unit" "$tmp/${name/@/@test}"; unit=$tmp/${name/@/@test} ;;
    esac
    # systemd-analyze also complains of units of this machine.
    SYSTEMD_UNIT_PATH="$tmp:" systemd-analyze verify --man=no "$unit" 2>&1 |
        grep -F "${name%%[@.]*}" >"$tmp/complaints" || :
    if [ -s "$tmp/complaints" ]; then fail "$(cat "$tmp/complaints")"; fi
done

if [ -e "$tmp/farpage-memserver.service" ] && systemd-analyze --help | grep -q -e --offline; then
    systemd-analyze security --offline=true --threshold=20 \
        "$tmp/farpage-memserver.service" >"$tmp/security" 2>&1 ||
        fail "more exposed than 2.0: $(cat "$tmp/security")"
fi
