#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Spin finds no fault in docs/model/metadata-log.pml, and finds one for each
# rule that is broken. docs/MODEL.md explains the model. MODEL_ONLY=TIE runs
# one.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"

[ -z "$SANITIZER_PRELOAD" ] || skip "nothing of farpage runs here"
command -v spin >/dev/null || skip "no spin (Debian: spin)"
command -v gcc >/dev/null || skip "no gcc, by which spin compiles its checker"
cp "$top_srcdir/docs/model/metadata-log.pml" "$tmp/model.pml"
cd "$tmp"

# limits SERVERS HOLD FIRST AT SENT ATTACHES TAKEOVERS WRITES CUTS LOSSES
# CHANGES: set ${opts[@]} to these limits, and $seconds to the time of a run.
limits ()
{
    local name
    seconds=1800
    opts=(-DLIMITS)
    for name in SERVERS HOLD FIRST AT SENT ATTACHES TAKEOVERS WRITES CUTS LOSSES CHANGES; do
        opts+=("-D$name=$1")
        shift
    done
}

# limits_of NAME: set the limits of the runs of this name.
limits_of ()
{
    case $1 in
    three) limits 3 3 7 16 7 3 0 1 2 0 0 ;;    # three clients, one after the other
    loss) limits 3 3 7 16 7 2 0 1 2 1 0 ;;     # a server loses all that it keeps
    takeover) limits 3 3 7 16 7 2 1 2 1 0 0 ;; # while the other client still runs
    join) limits 3 3 3 16 3 2 0 1 2 1 1 ;;     # two members, and one that may join
    leave) limits 3 3 7 16 7 2 0 1 2 0 1 ;;    # three members, and one may leave
    # Server 0 is away at first, and alone has a later view. In 'sent' the view
    # has two members. In 'ahead' it has all, and is two rounds ahead.
    sent) limits 3 3 7 17 3 2 0 1 3 0 0 ;;
    ahead) limits 3 3 7 48 7 2 0 1 2 0 0 ;;
    # Server 0 was left out. Server 1 alone heard of the view that took it in
    # again.
    again) limits 3 6 7 16 7 2 0 1 3 0 0; opts+=(-DAGAIN) ;;
    # These have too many states to search all. In 'alone' server 2 was left
    # out, then server 1. The others have four servers.
    alone) limits 3 3 7 16 7 3 0 1 3 0 0; opts+=(-DALONE) ;;
    four) limits 4 3 15 16 15 2 0 1 2 0 0 ;;
    four-sent) limits 4 6 15 17 7 2 0 1 4 0 0 ;;
    *) fail "no limits for $1" ;;
    esac
}

# spin_run [OPTION...]: run Spin, with its report in run.log and the number of
# errors in $errors.
spin_run ()
{
    timeout "$seconds" spin "${opts[@]}" "$@" -run -safety -m100000 -DCOLLAPSE -DMEMLIM=8000 model.pml \
        </dev/null >run.log 2>&1 || :
    errors=$(sed -n 's/.*errors: \([0-9]*\).*/\1/p' run.log | tail -n 1)
}

# said: print what the run took.
said () { grep -E 'states, stored|elapsed time' run.log | tr -s ' \n' ' '; }

# sound LIMITS: fail unless Spin searches all states and finds no error.
sound ()
{
    limits_of "$1"
    spin_run
    if [ "${errors:-none}" != 0 ]; then
        spin "${opts[@]}" -t -p -g model.pml >trail.log 2>&1 || :
        fail "$1: errors: ${errors:-no report}"
    fi
    if grep -E 'Search not completed|search depth too small' run.log; then
        fail "$1: not all was searched"
    fi
    echo "$1: errors: 0,$(said)"
}

# broken LIMITS OPTION: fail unless Spin finds an assertion that fails.
broken ()
{
    limits_of "$1"
    spin_run "-D$2"
    if [ "${errors:-0}" = 0 ]; then fail "$2 ($1): errors: ${errors:-no report}"; fi
    grep -q 'assertion violated' run.log || fail "$2 ($1): no assertion failed"
    echo "$2 ($1): errors: $errors,$(said)"
}

# only NAME: return true if this run is wanted.
only () { [ -z "${MODEL_ONLY:-}" ] || [ "$MODEL_ONLY" = "$1" ]; }

for name in three loss takeover join leave sent ahead again; do
    if only "$name"; then sound "$name"; fi
done
while read -r name rule; do
    if only "${rule#BREAK_}"; then broken "$name" "$rule"; fi
done <<'END'
three BREAK_RECORD_FIRST
three BREAK_LEFT_OUT
three BREAK_LIST_ALL
loss BREAK_HALF
join BREAK_ANCHOR
join BREAK_ATTACH
three BREAK_MAP_FIRST
three BREAK_UNION
three BREAK_BELIEVE_ONE
three BREAK_AT_WORK
loss BREAK_BUMP
takeover BREAK_KEYS
three BREAK_TIE
ahead BREAK_HIGHER
sent BREAK_BASE
alone BREAK_MEET
again BREAK_OLDER
four BREAK_COMMON
four-sent BREAK_QUORUM
takeover CHECK_OLD_READER
END
