#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Bad input gets one clear error and changes nothing, neither on the servers nor
# in a volume that is attached meanwhile.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"

requires qemu-io --version
command -v jq >/dev/null || skip "no jq"
declare -A tcp
server () # NAME SLAB
{
    start_memserver "$1" --listen "unix:$tmp/$1.usock" --size 32M --slab "$2" --reserve 0 --name "$1"
    tcp[$1]=$(grep -v '^unix:' "$tmp/$1.addr")
}
server a 1M
server b 1M
server c 2M

plugin () # NAME ARG...
{
    local name=$1
    shift
    rm -f "$tmp/$name.sock"
    start_nbdkit "$name" "$FARPAGE_PLUGIN" "$MLOCK" status="$tmp/$name.status" "$@"
}
end () { stop "$(cat "$tmp/$1.pid")"; }
io () # NAME COMMAND...
{
    local name=$1 c args=()
    shift
    for c; do args+=(-c "$c"); done
    # qemu-io exits with 0 even if a pattern differs.
    if ! qemu-io -f raw "nbd+unix:///?socket=$tmp/$name.sock" "${args[@]}" >"$tmp/io.out" 2>&1 ||
        grep -qi -e failed -e error "$tmp/io.out"; then
        cat "$tmp/io.out"
        fail "$name: $*"
    fi
}

# Create two volumes with one name, and attach another one.
for s in a b; do
    plugin same "${tcp[$s]}" volume=same size=4M
    io same "write -P $(printf '%d' "'$s") 0 3M"
    end same
done
plugin live "${tcp[a]}" volume=live size=4M reserve=full
io live 'write -P 7 0 4M'

# Print all state that must not change.
state ()
{
    local s
    for s in a b c; do
        farpage volumes --json "${tcp[$s]}" | jq -S '.volumes | sort_by(.uuid)'
        farpage servers --json "${tcp[$s]}" |
            jq -S '.servers[0] | {slabs_free, slabs_lent, slabs_scrubbing, sessions: [.sessions[] | {volume, slabs}]}'
    done
    farpage status --socket "$tmp/live.status" --json |
        jq -S '{volume: .volume | {uuid, size, extents_allocated, members_version, errors, fenced},
            servers: [.servers[] | {addr, state, extents, drain}]}'
}
# Succeed if all memory that is not lent is ready to be lent.
is_clean ()
{
    local s
    for s in a b c; do
        farpage servers --json "${tcp[$s]}" |
            jq -e '.servers[0] | .slabs_scrubbing == 0 and .slabs_unpopulated == 0' >"$tmp/clean" || return 1
    done
}
is_settled () { is_clean && [ "$(state)" = "$(sleep 0.2; state)" ]; }
wait_until 30 is_settled
state >"$tmp/before"
unchanged ()
{
    local until=$((SECONDS + 60)) # the end of a session shows a moment later
    until state >"$tmp/after" && cmp -s "$tmp/before" "$tmp/after"; do
        [ $SECONDS -lt $until ] || { diff "$tmp/before" "$tmp/after"; fail "$1: this changed"; }
        sleep 0.1
    done
}

# refused REGEX ARG...: check that nbdkit fails with one error that matches, and
# that nothing changed.
refused ()
{
    local regex=$1 status=0 f
    shift
    timeout 60 "${nbdkit_cmd[@]}" -U "$tmp/n.sock" -P "$tmp/n.pid" "$FARPAGE_PLUGIN" "$MLOCK" \
        timeout=5000 status="$tmp/n.status" "$@" 2>"$tmp/err" || status=$?
    [ $status = 1 ] || fail "$*: exit status $status, not 1"
    [ "$(grep -c 'error:' "$tmp/err")" = 1 ] || { cat "$tmp/err"; fail "$*: not one error"; }
    grep -qE "error: .*($regex)" "$tmp/err" || { cat "$tmp/err"; fail "$*: no '$regex'"; }
    for f in n.sock n.pid n.status; do [ ! -e "$tmp/$f" ] || fail "$*: left $f behind"; done
    grep 'error:' "$tmp/err"
    unchanged "$*"
}
# bad STATUS REGEX ARG...: check that farpage fails with one error that matches,
# and that nothing changed.
bad ()
{
    local wanted=$1 regex=$2 status=0
    shift 2
    timeout 60 farpage "$@" </dev/null >"$tmp/out" 2>"$tmp/err" || status=$?
    [ $status = "$wanted" ] || { cat "$tmp/err"; fail "farpage $*: exit status $status"; }
    [ "$(grep -c '^farpage: ' "$tmp/err")" = 1 ] || { cat "$tmp/err"; fail "farpage $*: not one error"; }
    grep -qE "^farpage: .*($regex)" "$tmp/err" || { cat "$tmp/err"; fail "farpage $*: no '$regex'"; }
    grep '^farpage: ' "$tmp/err"
    unchanged "farpage $*"
}

for name in '' a/b "$(printf 'a\033[31m')" 'a b' "$(printf '%0300d' 0)"; do
    refused 'volume=NAME: a name is 1 to 64' "${tcp[a]}" size=4M volume="$name"
    bad 2 'not a volume name or UUID' volumes delete --yes "$name" "${tcp[a]}"
    # The argument may contain characters that no terminal must get.
    if grep -q '[[:cntrl:]]' "$tmp/err"; then fail "control characters are shown"; fi
done

refused "${tcp[a]} lends slabs of 1M, not of 2M" "${tcp[a]}" size=4M volume=new slab=2M
refused "${tcp[a]} lends slabs of 1M, not of 2M" "${tcp[a]}" volume=same slab=2M
refused "${tcp[c]} lends slabs of 2M, not of 1M: all servers" "${tcp[a]}" server="${tcp[c]}" size=4M
refused "server=${tcp[c]} lends slabs of 2M, volume same has slabs of 1M" "${tcp[a]}" server="${tcp[c]}" \
    volume=same add=true
refused "lends slabs of 2M, not of 1M" "${tcp[b]}" server="${tcp[c]}" size=4M volume=new

refused 'given twice' "${tcp[a]}" server="${tcp[a]}" size=4M volume=new
refused 'are the same server: name it once' "${tcp[a]}" server="unix:$tmp/a.usock" size=4M
refused 'are the same server: name it once' "${tcp[a]}" server="unix:$tmp/a.usock" size=4M volume=new
refused 'are the same server: name it once' "${tcp[a]}" server="localhost:${tcp[a]##*:}" \
    size=4M volume=new

# Two volumes with one name differ by their UUIDs.
refused 'the name same is used by two volumes: [0-9a-f-]{36} on .*, [0-9a-f-]{36} on ' \
    "${tcp[a]}" server="${tcp[b]}" volume=same
refused 'the name same is used by two volumes' "${tcp[a]}" server="${tcp[b]}" volume=same \
    takeover=true degraded=true add=true
bad 1 'two volumes have this name, [0-9a-f-]{36} and [0-9a-f-]{36}: use the UUID' \
    volumes delete --yes same "${tcp[a]}" "${tcp[b]}"

# Servers cannot record these addresses for a volume with a name. Without a name
# they can be used.
for path in 'with a blank' $'\303\244' $'\377'; do
    ln -s "$tmp/b.usock" "$tmp/$path"
    LC_ALL=C refused 'visible ASCII .*symbolic link' "unix:$tmp/$path" size=4M volume=new
    LC_ALL=C bad 1 'visible ASCII .*symbolic link|too many arguments' servers add "$tmp/live.status" "unix:$tmp/$path"
done
LC_ALL=C refused 'has a control character' $'unix:/a\tb' size=4M
LC_ALL=C bad 2 'has a control character' servers $'unix:/a\tb'
"${nbdkit_cmd[@]}" -U "$tmp/n.sock" "$FARPAGE_PLUGIN" "$MLOCK" "unix:$tmp/with a blank" size=4M --run true ||
    fail "a path with a blank, of a volume without a name"
rm -f "$tmp/n.sock"
for path in 'quo"te' 'back\slash' "apo'strophe"; do
    ln -s "$tmp/b.usock" "$tmp/$path"
    "${nbdkit_cmd[@]}" -U "$tmp/n.sock" "$FARPAGE_PLUGIN" "$MLOCK" "unix:$tmp/$path" size=4M volume=odd --run true ||
        fail "volume odd at $path"
    rm -f "$tmp/n.sock"
    farpage volumes delete --yes odd "unix:$tmp/$path" >/dev/null || fail "volume odd at $path is not deleted"
done
wait_until 30 is_settled

refused 'volume live is attached to .* since ' "${tcp[a]}" volume=live
bad 1 'live: attached to .* since .*: detach it first' volumes delete --yes live "${tcp[a]}"
bad 1 'live: attached to .* since .*: detach it first' volumes delete --yes --partial live "${tcp[a]}"

bad 1 'drain: .* is the last server of this volume' drain "$tmp/live.status" "${tcp[a]}"
bad 1 'drain: .* is not a server of this volume' drain "$tmp/live.status" "${tcp[b]}"

{
    echo '# a pool'
    echo "server = ${tcp[a]}"
    printf '\n\n\n\nserver = a:b:c\n'
    echo "server = ${tcp[b]}"
} >"$tmp/pool.conf"
refused 'pool.conf: line 7: server=a:b:c' pool="$tmp/pool.conf" size=4M volume=new
bad 2 'a:b:c: ' volumes pool="$tmp/pool.conf"

io live 'read -P 7 0 4M'
end live
for s in a b; do
    plugin same "${tcp[$s]}" volume=same
    io same "read -P $(printf '%d' "'$s") 0 3M" 'read -P 0 3M 1M'
    end same
done
