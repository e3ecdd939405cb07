#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A server joins a volume with a name, is drained, and leaves. A server that
# died is removed: its extents read as errors, and all others are there. Later
# clients do not need degraded=true.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"

requires qemu-io --version
requires jq --version
server () { # NAME
    start_memserver "$1" --listen "unix:$tmp/$1.usock" --size 32M --slab 1M \
                    --reserve 0 --name "$1"
}
for s in a b c; do server $s; done
addr () { grep -v '^unix:' "$tmp/$1.addr"; }

plugin () { # NAME ARG...
    local name=$1
    shift
    rm -f "$tmp/$name.sock"
    start_nbdkit "$name" "$FARPAGE_PLUGIN" "$MLOCK" timeout=5000 volume=v \
                 transport=tcp status="$tmp/$name.status" "$@"
}
end () { stop "$(cat "$tmp/$1.pid")"; }

io () { # NAME COMMAND
    qemu-io -f raw -c "$2" "nbd+unix:///?socket=$tmp/$1.sock" \
        >"$tmp/io.log" 2>&1 && ! grep -qi -e failed -e error "$tmp/io.log"
}
must () { io "$@" || { cat "$tmp/io.log"; fail "$*"; }; }

is_so () { [ "$(status "$1" "$2")" = True ]; }
await () { wait_until 60 is_so "$@"; } # NAME EXPRESSION

refused () { # WHY ARG...
    local why=$1
    shift
    rm -f "$tmp/refused.sock"
    if timeout 60 "${nbdkit_cmd[@]}" -U "$tmp/refused.sock" "$FARPAGE_PLUGIN" \
        "$MLOCK" timeout=5000 volume=v "$@" --run true 2>"$tmp/refused"; then
        fail "accepted: $*"
    fi
    grep -qE "error: .*($why)" "$tmp/refused" ||
        { cat "$tmp/refused"; fail "$*: refused without: $why"; }
}

# check NAME LOST: check that all written extents but LOST are there.
check () {
    local lost=0
    for ((i = 0; i < 16; i++)); do
        if io "$1" "read -P $((i + 1)) ${i}M 1M"; then continue; fi
        grep -qi 'input/output error' "$tmp/io.log" ||
            { cat "$tmp/io.log"; fail "$1: extent $i"; }
        lost=$((lost + 1))
    done
    [ $lost = "$2" ] || fail "$1: $lost extents are errors, not $2"
}

plugin one "$(addr a)" server="$(addr b)" size=20M stripe-width=1
for ((i = 0; i < 16; i++)); do must one "write -P $((i + 1)) ${i}M 1M"; done
end one

refused 'not one of the servers.*add=true' "$(addr a)" server="$(addr c)"
plugin joins "$(addr a)" server="$(addr c)" add=true
await joins 'sum(s["current"] for s in d["servers"]) == 3'
if grep 'error: .*server' "$tmp/joins.log"; then fail "that it joins is no error"; fi
refused 'holds [0-9]+ extents.*farpage drain' "$(addr a)" remove="$(addr b)" takeover=true
timeout 60 farpage drain "$tmp/joins.status" "$(addr b)" >"$tmp/drain" 2>&1 ||
    { cat "$tmp/drain"; fail "farpage drain"; }
end joins
plugin leaves "$(addr c)" remove="$(addr b)"
check leaves 0
if grep 'error: .*server' "$tmp/leaves.log"; then fail "that it leaves is no error"; fi
end leaves
refused 'not one of the servers' "$(addr b)"
# The data that b still has is no longer the volume, and can be deleted.
farpage volumes show v "$(addr b)" | grep -q "$(addr b): has left it" ||
    fail "it is not shown that b has left"
farpage volumes delete --yes v "$(addr b)"
if farpage volumes "$(addr b)" | grep -q "^v:"; then fail "it is still there"; fi
plugin stays "$(addr a)"
check stays 0
end stays
kill_9 "$(cat "$tmp/b.pid")"
plugin two "$(addr a)"
[ "$(status two 'len(d["servers"])')" = 2 ] || fail "not 2 servers"
check two 0

# A third server joins, and dies with the extents that it holds.
server d
end two
plugin three "$(addr a)" server="$(addr d)" add=true
await three 'sum(s["current"] for s in d["servers"]) == 3'
timeout 60 farpage drain "$tmp/three.status" "$(addr c)" >"$tmp/drain" 2>&1 ||
    { cat "$tmp/drain"; fail "farpage drain"; }
held=$(status three '[s["extents"] for s in d["servers"] if s["name"] == "d"][0]')
[ "$held" -gt 0 ] || fail "nothing is on the new server"
end three
gone=$(addr d)
farpage volumes show v "$(addr a)" | grep -q 'lost' && fail "nothing is lost yet"
kill_9 "$(cat "$tmp/d.pid")"
farpage volumes show v "$(addr a)" | grep -q "; $held of its 16 extents are on servers that do not answer, or lost$" ||
    fail "volumes show does not say what is missing"
lost () { farpage volumes "$@" --json | jq -c '(.volumes[0] // .) | [.extents, .extents_missing, .extents_lost]'; }
[ "$(lost show v "$(addr a)")" = "[16,$held,null]" ] || fail "volumes show --json: $(lost show v "$(addr a)")"
refused 'does not answer.*would be lost' "$(addr a)" remove="$gone"
plugin removed "$(addr a)" remove="$gone" degraded=true
[ "$(status removed 'd["volume"]["extents_lost"]')" = "$held" ] || fail "not $held lost"
grep -q "volume v: $held of 20 extents are lost" "$tmp/removed.log" ||
    fail "not said how much is lost"
check removed "$held"
for v in "show v $(addr a)" "list $(addr a) $(addr c)"; do
    # shellcheck disable=SC2086 # these are words
    farpage volumes $v | grep -q "; $held of its 16 extents are lost: " || fail "volumes $v: $(farpage volumes $v)"
    # shellcheck disable=SC2086
    [ "$(lost $v)" = "[16,$held,$held]" ] || fail "volumes $v --json: $(lost $v)"
done
farpage volumes "$(addr a)" | grep -q lost && fail "what is not here may be on c"
end removed
plugin four "$(addr c)"
check four "$held"
end four
