#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# volume=NAME: the volume is created at first use, and outlives nbdkit. Any of
# its servers is enough to attach it again, with all acknowledged data. It has
# one client at a time. Data of a dead server reads as an error, not as zeros.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"

requires qemu-io --version
for s in a b c; do
    start_memserver $s --listen "unix:$tmp/$s.usock" --size 48M --slab 1M \
                    --reserve 0 --name $s
done

addr () { # TRANSPORT SERVER
    if [ "$1" = shm ]; then echo "unix:$tmp/$2.usock"
    else grep -v '^unix:' "$tmp/$2.addr"; fi
}

plugin () { # NAME ARG...
    local name=$1
    shift
    rm -f "$tmp/$name.sock"
    start_nbdkit "$name" "$FARPAGE_PLUGIN" "$MLOCK" timeout=5000 \
                 status="$tmp/$name.status" "$@"
}

qio () { # NAME COMMAND...
    local name=$1 c args=()
    shift
    for c in "$@"; do args+=(-c "$c"); done
    qemu-io -f raw "nbd+unix:///?socket=$tmp/$name.sock" "${args[@]}" \
        >"$tmp/io.log" 2>&1 || return 1
    # qemu-io exits with 0 even if a pattern differs.
    if grep -qi -e failed -e error "$tmp/io.log"; then return 1; fi
}
io () { qio "$@" || { cat "$tmp/io.log"; fail "$*"; }; }
io_error () {
    if qio "$@"; then fail "$*: no error"; fi
    grep -qi 'input/output error' "$tmp/io.log" || { cat "$tmp/io.log"; fail "$*"; }
}

# refused WHY ARG...: check that nbdkit does not start, and says why in one
# line.
refused ()
{
    local why=$1
    shift
    rm -f "$tmp/refused.sock" # (-U - leaves a directory in /tmp)
    if timeout 60 "${nbdkit_cmd[@]}" -U "$tmp/refused.sock" "$FARPAGE_PLUGIN" "$MLOCK" timeout=5000 \
        "$@" --run true 2>"$tmp/refused"; then fail "accepted: $*"; fi
    if [ "$(grep -c 'error:' "$tmp/refused")" != 1 ] ||
        ! grep -qE "error: .*($why)" "$tmp/refused"; then
        cat "$tmp/refused"
        fail "$*: refused without: $why"
    fi
}

end () { stop "$(cat "$tmp/$1.pid")"; }

extents=12 # extents of 1 MiB are written, of 24
writes=() reads=()
for ((i = 0; i < extents; i++)); do writes+=("write -P $((i + 1)) ${i}M 1M"); done
zeros="read -P 0 ${extents}M 8M"

for t in tcp shm; do
    # The volume over tcp must lose whole MiB at the end, so do not stripe it.
    if [ $t = tcp ]; then width=1; else width=3; fi
    for all in "a" "a b c"; do
        v=$t-${all// /}
        for ((i = 0; i < extents; i++)); do reads[i]="read -P $((i + 1)) ${i}M 1M"; done
        servers=()
        for s in $all; do servers+=("server=$(addr $t "$s")"); done

        refused "volume $v not found: give size=" "${servers[@]}" volume="$v"
        plugin "$v-0" "${servers[@]}" volume="$v" size=24M stripe-width=$width
        io "$v-0" "${writes[@]}" "$zeros"
        [ "$(status "$v-0" 'd["volume"]["name"]')" = "$v" ] || fail "its name"
        nbdinfo --list "nbd+unix:///?socket=$tmp/$v-0.sock" >"$tmp/list"
        grep -q "export=\"$v\"" "$tmp/list" || { cat "$tmp/list"; fail "no export $v"; }
        refused "volume $v is attached to .* since .*takeover=true" \
                "${servers[0]}" volume="$v"
        # Discard and zero whole extents and parts of them.
        io "$v-0" 'discard 5M 1M' 'read -P 0 5M 1M' \
           'write -z 6208k 64k' 'write -z -u 7M 1M'
        end "$v-0"
        reads[5]='read -P 0 5M 1M'
        reads[6]='read -P 7 6M 64k'
        reads[7]='read -P 0 7M 1M'

        n=0
        for s in $all; do
            n=$((n + 1))
            plugin "$v-$n" "$(addr $t "$s")" volume="$v"
            io "$v-$n" "${reads[@]}" 'read -P 0 6208k 64k' 'read -P 7 6272k 896k' \
               "$zeros" "write -P $n 20M 10k"
            [ "$(status "$v-$n" 'sum(s["current"] for s in d["servers"])')" = \
                "$(wc -w <<<"$all")" ] || fail "not all of $all are current"
            if [ $((n % 2)) = 1 ]; then kill_9 "$(cat "$tmp/$v-$n.pid")"
            else end "$v-$n"; fi
        done
        plugin "$v-z" "${servers[0]}" volume="$v" size=24M
        io "$v-z" "${reads[@]}" "read -P $n 20M 10k"
        end "$v-z"

        refused "has 25165824 bytes .* not 12582912" "${servers[0]}" volume="$v" size=12M
        refused 'stripes of 128K .*, not of 64K: omit' \
                "${servers[0]}" volume="$v" stripe=64k
    done
    refused "is striped over $width extents .*, not over 2: omit" \
            "$(addr $t a)" volume="$t-abc" stripe-width=2
    refused "server=.* is not one of the servers of volume $t-a, which are" \
            "$(addr $t a)" server="$(addr $t b)" volume="$t-a"

    # Take the volume over. Later writes of the first client have no effect.
    v=$t-abc
    plugin "$t-old" "$(addr $t b)" volume="$v"
    io "$t-old" 'write -P 20 0 4k'
    plugin "$t-new" "$(addr $t c)" volume="$v" takeover=true
    io "$t-new" 'read -P 20 0 4k' 'write -P 21 0 4k' 'write -P 22 22M 4k'
    io_error "$t-old" 'write -P 23 0 4k'
    io_error "$t-old" 'write -P 23 22M 4k'
    io_error "$t-old" 'read 23M 4k'
    wait_until 10 grep -q 'has taken the volume' "$tmp/$t-old.log"
    io "$t-new" 'read -P 21 0 4k' 'read -P 22 22M 4k' 'read -P 0 23M 4k'
    end "$t-old"
    io "$t-new" 'read -P 21 0 4k' 'read -P 22 22M 4k' 'write -P 1 0 4k'
    [ "$(grep -c 'has taken the volume' "$tmp/$t-old.log")" = 1 ] || fail "not said once"
    # The first client may have asked before the new one was attached.
    grep -qE "has taken the volume $v over.*( since \(last: .*:$(cat "$tmp/$t-new.pid")\)|is taking)" \
        "$tmp/$t-old.log" || fail "not said by whom"
    end "$t-new"
done

# One server by two addresses, and two volumes with one name.
refused 'are the same server' "$(addr tcp a)" server="$(addr shm a)" volume=twice size=1M
for s in a b; do
    plugin "same-$s" "$(addr tcp $s)" volume=same size=1M
    end "same-$s"
done
refused 'the name same is used by two volumes: [0-9a-f-]{36} on .*, [0-9a-f-]{36} on ' \
        "$(addr tcp a)" server="$(addr tcp b)" volume=same

# A server dies while the volume is detached.
v="tcp-abc"
plugin before "$(addr tcp a)" volume=$v
held=$(status before '[s["extents"] for s in d["servers"] if s["name"] == "c"][0]')
[ "$held" -gt 0 ] || fail "nothing is on the third server"
version=$(status before 'd["volume"]["members_version"]')
end before
dead=$(addr tcp c)
kill_9 "$(cat "$tmp/c.pid")"
refused "its server $dead does not answer.*degraded=true" "$(addr tcp a)" volume=$v
plugin after "$(addr tcp b)" volume=$v degraded=true
[ "$(status after 'd["volume"]["extents_lost"]')" = "$held" ] || fail "not $held lost"
[ "$(status after 'd["volume"]["members_version"]')" -gt "$version" ] || fail "the same list"
[ "$(status after 'sum(s["current"] for s in d["servers"])')" = 2 ] || fail "not 2 current"
grep -q "volume $v: server $dead is stale" "$tmp/after.log" || fail "not logged"
farpage status --socket "$tmp/after.status" >"$tmp/shown"
grep -qF "$dead" "$tmp/shown" || fail "farpage status"
[ "$(grep -c 'STALE' "$tmp/shown")" = 1 ] || { cat "$tmp/shown"; fail "STALE"; }
lost=0
for ((i = 0; i < 24; i++)); do
    case $i in
    5 | 7) pattern=0 ;;
    6) pattern= ;;
    20 | 22) pattern= ;; # written in part
    *) pattern=$((i < extents ? i + 1 : 0)) ;;
    esac
    if qio after "read ${pattern:+-P $pattern} ${i}M 1M"; then continue; fi
    grep -qi 'input/output error' "$tmp/io.log" || { cat "$tmp/io.log"; fail "extent $i"; }
    lost=$((lost + 1))
done
[ $lost = "$held" ] || fail "$lost extents are errors, not $held"
io after 'write -P 40 16M 1M' 'read -P 40 16M 1M'
end after

# If a client replaces one that died, it gets that client's data or an error. It
# never gets a new volume, or one that another client used since.
client=3f0d5e4a-5d6c-4c8f-9d0e-1f2a3b4c5d6e
tcp=$(addr tcp a)
plugin live "$tcp" volume=live size=4M client=$client
uuid=$(status live 'd["volume"]["uuid"]')
io live 'write -P 50 0 1M'
kill_9 "$(cat "$tmp/live.pid")"
plugin live2 "$tcp" volume=live size=4M client=$client uuid="$uuid" resume=true
io live2 'read -P 50 0 1M'
kill_9 "$(cat "$tmp/live2.pid")"
plugin other "$tcp" volume=live
io other 'write -P 51 0 1M'
end other
# (Only the session that stays is told this, after nbdkit forks. So use -f.)
rm -f "$tmp/refused.sock"
if timeout 60 "${nbdkit_cmd[@]}" -f -U "$tmp/refused.sock" "$FARPAGE_PLUGIN" "$MLOCK" \
    "$tcp" volume=live client=$client uuid="$uuid" resume=true 2>"$tmp/refused"
then fail "who had the volume before another client got it again"; fi
grep -q 'another client has attached it since' "$tmp/refused" ||
    { cat "$tmp/refused"; fail "it does not say who had it"; }
farpage volumes delete --yes live "$tcp"
refused 'volume live is gone: it was deleted' "$tcp" volume=live size=4M client=$client \
    uuid="$uuid" resume=true
plugin anew "$tcp" volume=live size=4M
end anew
refused 'volume live is gone: another volume has its name' "$tcp" volume=live size=4M \
    client=$client uuid="$uuid" resume=true
