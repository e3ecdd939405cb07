#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# bash completes the commands and options of --help, the checks of 'farpage
# doctor', and names found on this machine. (test-help.sh compares --help with
# the man pages.)

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"

# Simulate a machine with one attached device, one free device and a pool.
export _farpage_run=$tmp/run _farpage_sys=$tmp/sys FARPAGE_POOLS_DIR=$tmp/pools
export FARPAGE_VOLUMES_DIR=$tmp/volumes
mkdir -p "$tmp/run/nbd3" "$tmp/sys/block/nbd3" "$tmp/sys/block/nbd4" "$tmp/pools" "$tmp/volumes"
: >"$tmp/volumes/far.conf"
echo 2048 >"$tmp/sys/block/nbd3/size"
echo 0 >"$tmp/sys/block/nbd4/size"
printf '  "args":[\n    "server=10.0.0.1:7500,domain=x",\n    "volume=data"\n  ]\n' \
    >"$tmp/run/nbd3/state.json"
printf '# two\nserver = donor1,domain=rack7\nserver=donor2\nslab=4M\n' >"$tmp/pools/rack.conf"

# shellcheck source=tools/completion/farpage
. "$top_srcdir/tools/completion/farpage"
complete -p farpage | grep -q _farpage || fail "bash was not told"

# completed LINE: print the words that complete LINE, sorted, on one line.
completed ()
{
    COMP_LINE=$1 COMP_POINT=${#1} COMPREPLY=()
    _farpage
    printf '%s\n' "${COMPREPLY[@]}" | sort -u | paste -s -d ' '
}
# offers LINE WANTED: check that LINE has exactly these completions.
offers ()
{
    local got
    got=$(completed "$1")
    [ "$got" = "$2" ] || fail "'$1': offers '$got', not '$2'"
}
sorted () { tr ' ' '\n' | sort -u | paste -s -d ' '; }

# Commands and options: none is missing, none is extra.
commands=$(farpage --help | "$SED" -n 's/^  \([a-z]\{3,\}\) .*/\1/p' | sort | paste -s -d ' ')
[ -n "$commands" ] || fail "--help lists no command"
offers "farpage " "$(echo "$commands --help --version" | sorted)"
for c in $commands; do
    wanted=$(farpage "$c" --help | "$SED" 's/^ *//' |
        grep -oE '^(-[a-zA-Z], )?--[a-z-]+(, --[a-z-]+)?' |
        grep -oE -e '-[a-zA-Z]\b|--[a-z-]+' | sort -u | paste -s -d ' ')
    offers "farpage $c -" "$wanted"
done
farpage doctor --json 2>/dev/null | "$SED" -n 's/^ *"check":"\(.*\)",$/\1/p' | sort -u |
    paste -s -d ' ' >"$tmp/checks"
[ -s "$tmp/checks" ] || fail "doctor has no checks"
offers "farpage doctor " "$(cat "$tmp/checks")"
farpage bench --help | tr ', ' '\n' | grep -E '^(memcpy|device|[a-z]+-[a-z]+)$' |
    grep -v -e '^--' | sort -u | paste -s -d ' ' >"$tmp/layers"
offers "farpage bench --layers " "$(cat "$tmp/layers")"
for p in $_farpage_parameters; do
    grep -q "^  { \"${p%=}\", set_" "$top_srcdir/lib/front/params.c" || fail "attach $p"
done

# Names found on this machine, and words that were typed in part.
offers "farpage sw" "swapoff swapon"
offers "farpage top --b" "--batch"
offers "farpage detach " "/dev/nbd3"
offers "farpage attach -d " "/dev/nbd4"
offers "farpage attach --config " "far"
offers "farpage attach pool=" "rack"
offers "farpage attach server=d" "donor1 donor2"
offers "farpage attach server=10.0.0.1:" "7500"
offers "farpage attach si" "size="
offers "farpage attach transport=r" "rdma"
offers "farpage bench --layers memcpy,eng" \
    "memcpy,engine-rdma memcpy,engine-shm memcpy,engine-tcp"
offers "farpage drain /dev/nbd3 don" "donor1 donor2"
offers "farpage check " "/dev/nbd3 data"
offers "farpage check --re" "--repair"
offers "farpage servers add " "/dev/nbd3"
offers "farpage servers add /dev/nbd3 don" "donor1 donor2"
offers "farpage servers drain --" "--cancel --deadline --help --json --version"
offers "farpage servers p" "pool=rack"
offers "farpage volumes delete " "data"
offers "farpage volumes delete data donor1" "donor1"
offers "farpage swapon -p " ""
offers "farpage nothing " ""

# The memory server.
# shellcheck source=memserver/completion/farpage-memserver
. "$top_srcdir/memserver/completion/farpage-memserver"
# server_offers WANTED WORD...: check what completes the last word.
server_offers ()
{
    local wanted=$1 got
    shift
    COMP_WORDS=(farpage-memserver "$@") COMP_CWORD=$# COMPREPLY=()
    _farpage_memserver farpage-memserver "${!#}" || : # no word fits
    got=$(printf '%s\n' "${COMPREPLY[@]}" | sort -u | paste -s -d ' ')
    [ "$got" = "$wanted" ] || fail "farpage-memserver $*: offers '$got', not '$wanted'"
}
server_offers 'keygen setup token' ''
server_offers 'setup' s
server_offers '--metrics' --m
server_offers '--token --token-file' setup --t
server_offers '' setup ''

# zsh asks bash. Its own functions are stand-ins that print the words found.
if zsh --version >/dev/null 2>&1; then
    mkdir -p "$tmp/share/bash-completion/completions"
    cp "$top_srcdir/tools/completion/farpage" "$tmp/share/bash-completion/completions"
    # shellcheck disable=SC2016 # zsh expands these
    XDG_DATA_DIRS=/none:$tmp/share zsh -f -c '
        compset () { :; }
        compadd () { while [[ $1 != -- ]]; do shift; done; shift; print -r -- $*; }
        complete_it () { source $file; }
        file=$1 words=("${@:2}") CURRENT=$(($# - 1))
        complete_it
    ' zsh "$top_srcdir/tools/completion/_farpage" farpage attach transport=r >"$tmp/zsh"
    grep -qx rdma "$tmp/zsh" || fail "zsh offers $(cat "$tmp/zsh")"
fi

# If nothing is found on this machine, nothing is offered.
rm -r "$tmp/run" "$tmp/sys" "$tmp/pools" "$tmp/volumes"
offers "farpage detach " ""
offers "farpage attach -d " ""
offers "farpage attach --config " ""
