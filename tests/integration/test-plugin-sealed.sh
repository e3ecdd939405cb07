#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Servers change their data, put back older data, or look at it. Volumes are
# encrypted, authenticated, or have checksums, over tcp and shm.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"

[ "$NBDSH" != no ] || skip "no nbdsh (Debian: python3-libnbd)"
text=nobody-but-the-client-shall-see-this

for s in a b; do
    start_memserver $s --listen "unix:$tmp/$s.usock" --size 32M --slab 1M --hugepages off
done
donor () # NAME ARG...
{
    local name=$1
    shift
    python3 "$top_srcdir/tests/integration/hostile-donor.py" "$(cat "$tmp/$name.pid")" "$@"
}
sh () { "$NBDSH" -u "nbd+unix:///?socket=$tmp/n.sock" -c "import errno" -c "text = b'$text'" -c "$1"; }
plugin () # ARG...
{
    rm -f "$tmp/n.sock" "$tmp/n.status"
    start_nbdkit n "$FARPAGE_PLUGIN" "$MLOCK" connections=2 status="$tmp/n.status" "$@"
}
end () { stop "$(cat "$tmp/n.pid")"; }
sealed () # EXPRESSION: print it; s is what status says of the seal
{
    farpage status --socket "$tmp/n.status" --json >"$tmp/json" || fail "no status"
    python3 -c "import json; d = json.load(open('$tmp/json'))
d = d[0] if isinstance(d, list) else d
d = d.get('status', d)
s = d['volume']['sealed']
print($1)"
}
is () { [ "$(sealed "$1")" = "$2" ] || fail "$1 is $(sealed "$1"), not $2"; }

# A write of a part of a block reads the block first, and fails if that is
# wrong. So zero the last block before a part of it is written.
write='
for i in range(64):
    h.pwrite(text + bytes([i]) * (4096 - len(text)), i * 4096)
h.zero(4096, 64 * 4096)
h.pwrite(b"part" * 25, 64 * 4096 + 100)
'
right='
for i in range(64):
    assert h.pread(4096, i * 4096) == text + bytes([i]) * (4096 - len(text))
assert h.pread(4096, 64 * 4096) == bytes(100) + b"part" * 25 + bytes(3896)
assert h.pread(4096, 65 * 4096) == bytes(4096)
'
wrong='
for i in range(65):
    try:
        h.pread(1000, i * 4096 + 10)
        assert False, i
    except nbd.Error as e:
        assert e.errnum == errno.EIO
'
addr () # NAME TRANSPORT
{
    if [ "$2" = shm ]; then echo "unix:$tmp/$1.usock"; else grep -v ^unix "$tmp/$1.addr"; fi
}

for transport in tcp shm; do
    a=$(addr a $transport) b=$(addr b $transport)
    one=("server=$a" "transport=$transport" size=4M)

    # The server looks at its memory. Only encryption keeps the text from it.
    for mode in checksum=crc32c encrypt=ephemeral "encrypt=ephemeral integrity=on" \
                "encrypt=ephemeral checksum=crc32c"; do
        # shellcheck disable=SC2086
        plugin "${one[@]}" $mode
        sh "$write$right"
        [ "$(donor a pages)" -ge 65 ] || fail "$mode: the server has $(donor a pages) pages"
        if [[ $mode = encrypt* ]]; then
            if donor a grep "$text"; then fail "$mode, $transport: the server sees it"; fi
            is "s['encrypt']" ephemeral
            if grep -q "CapEff:.*000000$" "/proc/$(cat "$tmp/n.pid")/status"; then
                [ ! -r "/proc/$(cat "$tmp/n.pid")/mem" ] || fail "it may be traced"
            fi
        else
            donor a grep "$text" || fail "$mode, $transport: this test sees nothing"
        fi
        sh "h.zero(4096 * 30, 4096 * 20); assert h.pread(4096 * 30, 4096 * 20) == bytes(4096 * 30)"
        sh "$write"

        # The server changes its memory.
        donor a save "$tmp/old"
        donor a flip
        case $mode in
        *checksum*|*integrity*)
            sh "$wrong"
            is "s['wrong'] == s['unreadable'] == 65" True
            is "s['repaired']" 0
            sh "$write$right" ;;
        *)
            sh "assert h.pread(4096, 0) != text + bytes(4096 - len(text))"
            is "s['wrong']" 0 ;;
        esac

        # The server puts back data that was right once.
        sh "$write"
        donor a save "$tmp/old"
        sh "h.pwrite(b'new' * 4096, 0)"
        donor a restore "$tmp/old"
        case $mode in
        *checksum*|*integrity*)
            sh "
try:
    h.pread(3 * 4096, 0)
    assert False
except nbd.Error as e:
    assert e.errnum == errno.EIO
assert h.pread(4096, 3 * 4096)[:4] == text[:4]"
            # The log says so once a second.
            wait_until 20 grep -q 'blocks failed verification' "$tmp/n.log" ;;
        esac
        end
        grep -q 'blocks failed verification' "$tmp/n.log" ||
            [ "$mode" = encrypt=ephemeral ] || fail "$mode: the log does not say so"
    done

    # With two copies, reads return the right one, which also replaces the wrong
    # one.
    for mode in checksum=crc32c "encrypt=ephemeral integrity=on"; do
        for bad in a b; do
            # shellcheck disable=SC2086
            plugin "${one[@]}" "server=$b" copies=2 $mode
            sh "$write"
            donor $bad flip
            for _ in 1 2; do sh "$right"; done
            is "s['unreadable']" 0
            farpage check "$tmp/n.status" --repair >"$tmp/out" || :
            is "s['wrong'] == s['repaired'] == 65" True
            farpage check "$tmp/n.status" >"$tmp/out" || { cat "$tmp/out"; fail "copies differ"; }
            if [ $bad = a ]; then donor b flip; else donor a flip; fi
            for _ in 1 2; do sh "$right"; done
            is "s['unreadable']" 0
            end
        done
    done
done

# farpage status shows the protection.
plugin "server=$(addr a tcp)" size=4M encrypt=ephemeral integrity=on
farpage status --socket "$tmp/n.status" >"$tmp/out"
grep -q 'protection .*encrypted, with an ephemeral key, and authenticated' "$tmp/out" ||
    { cat "$tmp/out"; fail "status does not say that it is encrypted"; }
end

# If nbdkit is killed, its key and its checksums are gone.
uuid=uuid=89abcdef-0123-4567-89ab-cdef01234567
plugin "server=$(addr a tcp)" size=4M checksum=crc32c $uuid
sh "$write"
kill_9 "$(cat "$tmp/n.pid")"
status=0
"${nbdkit_cmd[@]}" -f -U "$tmp/n.sock" "$FARPAGE_PLUGIN" "server=$(addr a tcp)" size=4M "$MLOCK" \
    encrypt=ephemeral $uuid resume=true 2>"$tmp/err" || status=$?
[ $status = 1 ] || fail "exit status $status"
grep -q 'its data cannot be read' "$tmp/err" || { cat "$tmp/err"; fail "it does not say why"; }
plugin "server=$(addr a tcp)" size=4M checksum=crc32c $uuid resume=true
sh "$right"
is "s['unchecked_bytes']" $((4 << 20))
sh "$write"
is "s['unchecked_bytes']" $(((4 << 20) - 65 * 4096))
donor a flip
sh "$wrong"
end

# A volume with a name, and a key from a file.
(cd "$tmp" && farpage keygen --encrypt && farpage keygen --encrypt other.key && farpage keygen tls.psk)
named=("server=$(addr a tcp)" "server=$(addr b tcp)" volume=secret)
plugin "${named[@]}" size=4M encrypt="$tmp/farpage.key"
sh "$write$right"
for s in a b; do if donor $s grep "$text"; then fail "the server sees it"; fi; done
is "s['encrypt']" file
end
plugin "${named[@]}" encrypt="$tmp/farpage.key"
sh "$right"
sh "h.zero(4096 * 30, 4096 * 20); assert h.pread(4096 * 30, 4096 * 20) == bytes(4096 * 30)"
end
refuse () # TEXT ARG...
{
    local what=$1 status=0
    shift
    timeout 60 "${nbdkit_cmd[@]}" -f -U "$tmp/n2.sock" "$FARPAGE_PLUGIN" "$MLOCK" "$@" \
        2>"$tmp/err" || status=$?
    [ $status = 1 ] || fail "$*: exit status $status"
    grep -q "error: .*$what" "$tmp/err" || { cat "$tmp/err"; fail "$*: does not say $what"; }
}
refuse 'another key than' "${named[@]}" encrypt="$tmp/other.key"
refuse 'is encrypted: give encrypt=FILE' "${named[@]}"
refuse 'not a file with the key of volumes' "${named[@]}" encrypt="$tmp/tls.psk"
refuse 'No such file' "${named[@]}" encrypt="$tmp/none.key"
chmod 644 "$tmp/other.key"
refuse 'all users may read' "${named[@]}" encrypt="$tmp/other.key"
plugin "${named[@]}" encrypt="$tmp/farpage.key"
sh "assert h.pread(4096, 4096) == text + bytes([1]) * (4096 - len(text))
assert h.pread(4096, 4096 * 30) == bytes(4096)"
end
plugin "server=$(addr a tcp)" volume=plain size=4M
end
refuse 'is not encrypted' "server=$(addr a tcp)" volume=plain encrypt="$tmp/farpage.key"
