# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2154
#
# Sourced after test.sh by tests with several guests in a network of their own.
# FARPAGE_DEBS is a directory with packages to install instead of the build tree.
# TEST_TRANSCRIPT is a directory for what the guests print.

requires_reboot
put_farpage "$build"
# shellcheck disable=SC2317 # called by the trap
cleanup ()
{
    local pids
    mapfile -t pids < <(jobs -p)
    if (( ${#pids[@]} > 0 )); then pkill -P "$(IFS=,; echo "${pids[*]}")"; fi
    wait
    rm -rf "$tmp"
}
trap cleanup EXIT
transcripts=${TEST_TRANSCRIPT:-$tmp}
group=239.$((RANDOM % 256)).$((RANDOM % 256)).$((RANDOM % 256)):$((20000 + RANDOM % 10000))

# lan_guest NAME N BOOTS CASES: boot guest N so many times. Before it boots again,
# wait for the file /share/boot.NAME if there is /share/hold.NAME.
lan_guest ()
{
    local i

    for ((i = 1; i <= $3; i++)); do
        while (( i > 1 )) && [[ -e $tmp/share/hold.$1 && ! -e $tmp/share/boot.$1 && ! -e $tmp/share/failed ]]; do
            sleep 0.5
        done
        "$vm/run" --systemd --disk "$tmp/$1.disk" --net lan --lan "$1,$2,$group" --memory 1280 --cpus 1 \
            --share "$tmp/share" --timeout "${TEST_REBOOT_TIMEOUT:-1500}" "$vm/guest/$4" "$1" $i && continue
        touch "$tmp/share/failed"
        return 1
    done
    # A client swaps in from the memory servers when it is shut down.
    [[ $1 != client ]] || echo yes >"$tmp/share/end"
}

# lan_guests CASES NAME:BOOTS...: run all guests at the same time, and claim that
# each succeeds.
lan_guests ()
{
    local cases=$1 guest n=0
    local -a pids=() names=()
    shift
    echo '127.0.0.1 localhost' >"$tmp/share/hosts"
    for guest; do
        n=$((n + 1))
        names[n]=${guest%:*}
        echo "10.0.0.$n ${names[n]}" >>"$tmp/share/hosts"
    done
    n=0
    for guest; do
        n=$((n + 1))
        lan_guest "${names[n]}" $n "${guest#*:}" "$cases" >"$transcripts/${names[n]}.out" 2>&1 &
        pids[n]=$!
    done
    for n in "${!names[@]}"; do claim 0 "${names[n]}" wait "${pids[n]}"; done
    if (( failures > 0 )); then
        for n in "${names[@]}"; do sed "s/^/    $n: /" "$transcripts/$n.out"; done
    fi
}
