#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Each folder includes only headers of the layers below it. docs/ARCHITECTURE.md
# has the table. No folder of lib/ has more than 25 files.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"
# shellcheck source=tests/meta/files.sh
. "$top_srcdir/tests/meta/files.sh"

# FOLDER  what its files may include: folders, which end in a slash, headers, and
#         beginnings of names, which end in _
rules='
lib/base         base/
lib/proto        base/ proto/
lib/conf         base/ conf/
lib/metrics      base/ metrics/
lib/transport/tls     base/ proto/ transport/tls/
lib/transport/control base/ proto/ transport/tls/ transport/control/
lib/transport         base/ proto/ transport/control/ transport/transport.h transport/op_queue.h transport/verbs_
lib/transport/local   base/ proto/ transport/transport.h transport/op_queue.h transport/local/
lib/transport/tcp     base/ proto/ transport/transport.h transport/op_queue.h transport/tls/ transport/control/ transport/tcp/
lib/extent       base/ proto/ transport/ extent/
lib/peer         base/ proto/ transport/ extent/ peer/
lib/meta         base/ proto/ transport/ extent/ peer/ meta/
lib/place        base/ proto/ transport/ extent/ peer/ place/
lib/engine       base/ proto/ transport/ extent/ peer/ meta/ place/ engine/
lib/heal         base/ proto/ transport/ extent/ peer/ meta/ place/ engine/ heal/
lib/filter       base/ extent/block.h extent/notifier.h extent/range_lock.h extent/volume_params.h extent/volume_status.h filter/
lib/attach       base/ conf/ proto/ transport/ extent/ peer/ meta/ place/ engine/ heal/ filter/ attach/
lib/volume       base/ proto/ transport/ extent/ peer/ meta/ place/ engine/ heal/ filter/ attach/ volume/
lib/pool         base/ conf/ proto/ place/placement.h pool/
lib/front        base/ conf/ metrics/ proto/ transport/ pool/pool.h volume/volume.h volume/status_ front/
nbdkit-plugin    base/ volume/volume.h front/
memserver/auth    base/ conf/ proto/ transport/ memserver/auth/
memserver/pool    base/ proto/ transport/ memserver/auth/ memserver/pool/
memserver/store   base/ proto/ transport/ memserver/auth/ memserver/pool/ memserver/store/
memserver/session base/ proto/ transport/ memserver/auth/ memserver/pool/ memserver/store/ memserver/session/
memserver/setup   base/ conf/ proto/ transport/ memserver/options.h memserver/say.h memserver/pool/host.h memserver/setup/
memserver         base/ conf/ metrics/ proto/ transport/ memserver/
tools/common  base/ conf/ proto/ transport/ pool/pool.h volume/volume.h volume/status_ tools/common/
tools/attach  base/ conf/ pool/pool.h proto/ transport/ volume/volume.h tools/common/ tools/attach/
tools/setup   base/ proto/ transport/ tools/common/ tools/setup/
tools/swap    base/ proto/ transport/ volume/volume.h tools/common/ tools/attach/ tools/setup/ tools/swap/
tools/doctor  base/ conf/ proto/ transport/ volume/volume.h tools/common/ tools/attach/ tools/doctor/
tools/exporter base/ metrics/ tools/common/ tools/exporter/
tools/top     base/ proto/ transport/ volume/volume.h tools/common/ tools/attach/ tools/top/
tools/ublk    base/ front/ volume/volume.h tools/common/ublk_uapi.h tools/ublk/
tools/bench   base/ proto/ transport/ volume/volume.h tools/common/ tools/attach/ tools/bench/
tools/cluster base/ pool/ proto/ transport/ tools/common/ tools/cluster/
tools         base/ proto/ transport/ pool/ volume/volume.h volume/status_ tools/
'
declare -A may
while read -r dir what; do
    if [ -n "$dir" ]; then may[$dir]=$what; fi
done <<<"$rules"

bad=0
complain () { echo "$*"; bad=1; }

# allowed FILE HEADER: succeed if the rule of FILE's folder allows HEADER.
allowed ()
{
    local dir=${1%/*} p
    case $2 in
    *..*) return 1 ;;
    */*) ;;
    *) [ -e "$dir/$2" ]; return ;; # a header of the same folder
    esac
    for p in ${may[$dir]:-}; do # nothing in a folder that has no rule
        case $p:$2 in */:"$p"*|*_:"$p"*|"$2:$2") return 0 ;; esac
    done
    return 1
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
        '<'base/*|'<'metrics/*|'<'proto/*|'<'transport/*|'<'extent/*|'<'peer/*|'<'meta/*|'<'place/*|'<'pool/*|\
        '<'engine/*|'<'heal/*|'<'filter/*|'<'attach/*|'<'volume/*|'<'front/*|\
        '<'memserver/*|'<'tools/*|'<'tests/*)
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
            case $f in lib/transport/tls/* | lib/filter/seal_gnutls.c) ;; *)
                complain "only lib/transport/tls/ and lib/filter/seal_gnutls.c may include $header: $f" ;;
            esac ;;
        esac
    done < <(sed -nE 's/^[[:space:]]*#[[:space:]]*include[[:space:]]*(["<][^">]*).*/\1/p' "$f")
done < <(c_files)
[ $n -gt 0 ] || fail "found no source"

# Refuse a folder of lib/ with too many C files to survey.
while read -r n dir; do
    [ "$n" -le 25 ] || complain "$dir has $n C files: the limit is 25"
done < <(c_files | sed -n 's,^\(lib/.*\)/[^/]*$,\1,p' | sort | uniq -c)
[ $bad = 0 ] || fail "see above"
