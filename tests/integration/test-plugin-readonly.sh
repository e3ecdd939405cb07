#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# readonly=true: NBD clients see a read-only disk. The servers grant no right to
# write, and keep the volume unchanged.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"
memclient="$top_builddir/tests/integration/memclient"
[ -x "$memclient" ] || skip "memclient was not built"
requires qemu-io --version
requires nbdinfo --version

for s in a b; do
    start_memserver $s --listen "unix:$tmp/$s.usock" --size 48M --slab 1M --reserve 0 --name $s
done
addr () { # TRANSPORT SERVER
    if [ "$1" = shm ]; then echo "unix:$tmp/$2.usock"; else grep -v '^unix:' "$tmp/$2.addr"; fi
}
plugin () { # NAME ARG...
    local name=$1
    shift
    rm -f "$tmp/$name.sock"
    start_nbdkit "$name" "$FARPAGE_PLUGIN" "$MLOCK" timeout=5000 status="$tmp/$name.status" "$@"
}
end () { stop "$(cat "$tmp/$1.pid")"; }
qio () { # NAME COMMAND...
    local name=$1 c args=()
    shift
    for c in "$@"; do args+=(-c "$c"); done
    qemu-io ${READ_ONLY:+-r} -f raw "nbd+unix:///?socket=$tmp/$name.sock" "${args[@]}" >"$tmp/io.log" 2>&1 || return 1
    if grep -qi -e failed -e error "$tmp/io.log"; then return 1; fi
}
io () { qio "$@" || { cat "$tmp/io.log"; fail "$*"; }; }
refused () # WHY ARG...
{
    local why=$1
    shift
    rm -f "$tmp/refused.sock"
    if timeout 60 "${nbdkit_cmd[@]}" -U "$tmp/refused.sock" "$FARPAGE_PLUGIN" "$MLOCK" timeout=5000 "$@" --run true \
        2>"$tmp/refused"; then fail "accepted: $*"; fi
    grep -qE "error: .*($why)" "$tmp/refused" || { cat "$tmp/refused"; fail "$*: refused without: $why"; }
}
# knows SERVER VOLUME: print what a server knows of the volume, except its
# clients and times.
knows () { "$memclient" "$(addr tcp "$1")" looks "lookup:$2" | sed -E 's/(epoch|since|client|attached)=[^ ]*//g'; }

n=0
for t in tcp shm; do
    for copies in 1 2; do
        n=$((n + 1))
        v=$t-$copies
        both=("$(addr $t a)" server="$(addr $t b)")
        refused "readonly=true creates none" "${both[@]}" volume=$v readonly=true
        plugin "w$n" "${both[@]}" volume=$v size=8M copies=$copies
        io "w$n" 'write -P 1 0 1M' 'write -P 2 1M 1M' 'write -P 3 5M 64k'
        refused "volume $v is attached to" "${both[@]}" volume=$v readonly=true
        end "w$n"
        before=$(knows a $v; knows b $v)

        plugin "r$n" "${both[@]}" volume=$v readonly=true
        nbdinfo "nbd+unix:///?socket=$tmp/r$n.sock" >"$tmp/info"
        grep -q 'is_read_only: true' "$tmp/info" || { cat "$tmp/info"; fail "$v: not read-only"; }
        READ_ONLY=1 io "r$n" 'read -P 1 0 1M' 'read -P 2 1M 1M' 'read -P 3 5M 64k' 'read -P 0 6M 2M' 'read -P 0 2M 1M'
        if qio "r$n" 'write -P 9 0 4k'; then fail "$v: written to"; fi
        # A client may ignore that the export is read-only.
        "$NBDSH" -c 'h.set_strict_mode(0)' -u "nbd+unix:///?socket=$tmp/r$n.sock" -c '
for what in (lambda: h.pwrite(b"x" * 4096, 0), lambda: h.zero(4096, 0), lambda: h.trim(1 << 20, 0)):
    try:
        what()
        raise SystemExit("done")
    except nbd.Error as e:
        assert e.errno == "EPERM", e
assert h.pread(4096, 0) == b"\1" * 4096
' || fail "$v: strict mode"
        farpage status --socket "$tmp/r$n.status" >"$tmp/shown"
        grep -q 'attached read-only' "$tmp/shown" || { cat "$tmp/shown"; fail "farpage status"; }
        farpage status --socket "$tmp/r$n.status" --json | grep -q '"read_only": *true' || fail "status --json"
        grep -q "volume $v: attached read-only" "$tmp/r$n.log" || fail "$v: not logged"
        refused "volume $v is attached to" "${both[@]}" volume=$v
        if farpage drain --socket "$tmp/r$n.status" "$(addr $t a)" 2>"$tmp/drain"; then fail "$v: drained"; fi
        end "r$n"
        after=$(knows a $v; knows b $v)
        [ "$before" = "$after" ] || { printf '%s\n' "$before" "$after"; fail "$v: something was changed"; }

        # A reader that was killed leaves nothing behind. The volume can then be
        # attached for writing.
        plugin "k$n" "${both[@]}" volume=$v readonly=true
        READ_ONLY=1 io "k$n" 'read -P 1 0 1M'
        kill_9 "$(cat "$tmp/k$n.pid")"
        plugin "z$n" "$(addr $t b)" volume=$v
        io "z$n" 'read -P 1 0 1M' 'read -P 3 5M 64k' 'write -P 4 6M 1M' 'read -P 4 6M 1M'
        end "z$n"
    done
done
# The plugin asked for nothing that a server had to refuse.
if grep -h 'may only read it' "$tmp"/[ab].log; then fail "a reader tried to change something"; fi

# Parameters that exclude each other.
both=("$(addr tcp a)" server="$(addr tcp b)")
refused 'readonly=true needs volume=NAME' "${both[@]}" size=8M readonly=true
refused 'readonly=true and swap=true contradict' "${both[@]}" volume=tcp-1 readonly=true swap=true
refused 'contradict|needs' "${both[@]}" volume=tcp-1 readonly=true encrypt=ephemeral

# A client that may only read a volume can attach it with readonly=true.
printf '%s\n' "[uid:$(id -u)]" 'read-only = *' '[anonymous]' 'volumes = *' >"$tmp/access"
start_memserver c --listen "unix:$tmp/c.usock" --size 48M --slab 1M --reserve 0 --access "$tmp/access"
plugin makes "$(addr tcp c)" volume=acc size=4M
io makes 'write -P 6 0 1M'
end makes
for t in tcp shm; do
    plugin "may-$t" "$(addr shm c)" transport=$t volume=acc readonly=true
    READ_ONLY=1 io "may-$t" 'read -P 6 0 1M' 'read -P 0 1M 3M'
    end "may-$t"
done
if grep 'may only read it' "$tmp/c.log"; then fail "a reader tried to change something"; fi

# If the last writer crashed, copies may differ.
plugin crash "${both[@]}" volume=tcp-2
io crash 'write -P 5 0 4k'
kill_9 "$(cat "$tmp/crash.pid")"
not_in_order () { refused 'was not detached cleanly' "${both[@]}" volume=tcp-2 readonly=true; }
not_in_order
plugin mends "${both[@]}" volume=tcp-2
io mends 'read -P 5 0 4k'
whole () { farpage status --socket "$tmp/mends.status" --json |
    jq -e '.volume.extents_degraded == 0' >/dev/null; }
wait_until 30 whole
end mends
plugin reads "${both[@]}" volume=tcp-2 readonly=true
READ_ONLY=1 io reads 'read -P 5 0 4k'
# If one server dies, the other one has all data.
kill_9 "$(cat "$tmp/b.pid")"
READ_ONLY=1 io reads 'read -P 5 0 4k' 'read -P 2 1M 1M' 'read -P 0 2M 1M'
end reads
