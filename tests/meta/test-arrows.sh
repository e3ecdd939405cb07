#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Each part includes only what the arrows of the design let it see.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"
# shellcheck source=tests/meta/files.sh
. "$top_srcdir/tests/meta/files.sh"

# directory      what its includes may start with, besides its own headers
rules='
lib/base         base/
lib/proto        base/ proto/
lib/transport    base/ proto/ transport/
lib/volume       base/ proto/ transport/ volume/
nbdkit-plugin    base/ proto/ transport/ volume/
memserver        base/ proto/ transport/
tools            base/ proto/ transport/ volume/ ublk/
'
bad=0
complain () { echo "$*"; bad=1; }

# allowed FILE HEADER: by the rule of the directory that FILE is in.
allowed ()
{
    local dir prefixes p
    while read -r dir prefixes; do
        case $1 in "${dir:-none}"/*) ;; *) continue ;; esac
        case $2 in
        */*) ;;
        *) [ -e "$(dirname "$1")/$2" ] || [ -e "$dir/$2" ]; return ;;
        esac
        for p in $prefixes; do
            case $2 in *..*) return 1 ;; "$p"*) return 0 ;; esac
        done
        return 1
    done <<<"$rules"
    return 1 # code in a directory that has no rule
}

n=0
while IFS= read -r f; do
    case $f in tests/*) continue ;; esac # may include anything
    n=$((n + 1))
    while read -r header; do
        case $header in
        \"*)
            header=${header//\"/}
            allowed "$f" "$header" || complain "$f may not include $header" ;;
        '<'base/*|'<'proto/*|'<'transport/*|'<'volume/*|'<'memserver/*|'<'tests/*)
            complain "$f: our own headers go in quotes: $header" ;;
        '<nbdkit'*)
            case $f in nbdkit-plugin/*) ;; *)
                complain "only nbdkit-plugin/ may include $header: $f" ;;
            esac ;;
        '<infiniband/'*|'<rdma/'*)
            case $f in lib/transport/verbs_*) ;; *)
                complain "only lib/transport/verbs_* may include $header: $f" ;;
            esac ;;
        '<gnutls/'*)
            case $f in lib/transport/tls_* | lib/volume/seal_gnutls.c) ;; *)
                complain "only lib/transport/tls_* and lib/volume/seal_gnutls.c may include $header: $f" ;;
            esac ;;
        esac
    done < <(sed -nE 's/^[[:space:]]*#[[:space:]]*include[[:space:]]*(["<][^">]*).*/\1/p' "$f")
done < <(c_files)

[ $n -gt 0 ] || fail "found no source"
[ $bad = 0 ] || fail "see above"
