#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A volume with a name, integrity=on and a root file, over tcp and shm: servers
# that change what they hold or put back what was there before, while it is
# attached and while it is not; an nbdkit that is killed while it is written to;
# and root files that are not what they should be.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"

[ "$NBDSH" != no ] || skip "no nbdsh (Debian: python3-libnbd)"
dump=$("${nbdkit_cmd[@]}" --dump-plugin "$FARPAGE_PLUGIN")
grep -qx farpage_encrypt=yes <<<"$dump" || skip "built without GnuTLS"
text=nobody-but-the-client-shall-see-this

start_memserver a --listen "unix:$tmp/a.usock" --size 32M --slab 1M --hugepages off
donor () # ARG...
{
    python3 "$top_srcdir/tests/integration/hostile-donor.py" "$(cat "$tmp/a.pid")" "$@"
}
sh () { "$NBDSH" -u "nbd+unix:///?socket=$tmp/n.sock" -c "import errno" -c "text = b'$text'" -c "$1"; }
plugin () # ARG...
{
    rm -f "$tmp/n.sock" "$tmp/n.status"
    start_nbdkit n "$FARPAGE_PLUGIN" "$MLOCK" connections=2 status="$tmp/n.status" "$@"
}
end () { stop "$(cat "$tmp/n.pid")"; }
sealed () # EXPRESSION, of the document s
{
    farpage status --socket "$tmp/n.status" --json >"$tmp/json" || fail "no status"
    python3 -c "import json; d = json.load(open('$tmp/json'))
d = d[0] if isinstance(d, list) else d
d = d.get('status', d)
s = d['volume']['sealed']
print($1)"
}
is () { [ "$(sealed "$1")" = "$2" ] || fail "$1 is $(sealed "$1"), not $2"; }
refuse () # TEXT ARG...
{
    local what=$1 status=0
    shift
    rm -f "$tmp/n2.sock"
    timeout 60 "${nbdkit_cmd[@]}" -f -U "$tmp/n2.sock" "$FARPAGE_PLUGIN" "$MLOCK" "$@" \
        2>"$tmp/err" || status=$?
    [ $status = 1 ] || fail "$*: exit status $status"
    grep -q "error: .*$what" "$tmp/err" || { cat "$tmp/err"; fail "$*: does not say $what"; }
}
(cd "$tmp" && farpage keygen --encrypt && farpage keygen --encrypt other.key)
key=encrypt=$tmp/farpage.key

write='
for i in range(64):
    h.pwrite(text + bytes([i]) * (4096 - len(text)), i * 4096)
h.zero(4096, 64 * 4096)
h.pwrite(b"part" * 25, 64 * 4096 + 100)
'
right='
for i in range(64):
    assert h.pread(4096, i * 4096) == text + bytes([i]) * (4096 - len(text)), i
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
# Each block is a number, higher each time; and what is known to be flushed.
numbers="
import struct
n = 0
log = open('$tmp/flushed', 'w')
while True:
    n += 1
    for i in range(64):
        h.pwrite(struct.pack('<Q', n) * 512, (i * 7 % 512) * 4096)
    if n % 3 == 0:
        h.flush()
        log.write('%d\n' % n)
        log.flush()
"
check="
import struct
flushed = int(open('$tmp/flushed').read().split()[-1])
high = 0
for i in range(64):
    b = h.pread(4096, (i * 7 % 512) * 4096)
    n = struct.unpack('<Q', b[:8])[0]
    assert b == b[:8] * 512, i
    assert n >= flushed, (i, n, flushed)
    high = max(high, n)
assert high <= flushed + 4
"

for transport in tcp shm; do
    if [ $transport = shm ]; then a=unix:$tmp/a.usock; else a=$(grep -v ^unix "$tmp/a.addr"); fi
    vol=("server=$a" "transport=$transport" "volume=v-$transport" "$key" integrity=on
         "root=$tmp/$transport.root")

    plugin "${vol[@]}" size=4M
    [ "$(sh 'print(h.get_size())')" = 4194304 ] || fail "it is not as large as was said"
    sh "$write$right"
    if donor grep "$text"; then fail "the server sees it"; fi
    is "s['rooted'] and s['integrity'] and s['encrypt'] == 'file'" True
    farpage status --socket "$tmp/n.status" >"$tmp/out"
    grep -q 'sealed .*the key of a file, and authenticated, with a root' "$tmp/out" ||
        { cat "$tmp/out"; fail "status does not say that it has a root"; }
    sh "h.flush()"
    [ "$(sealed "s['roots']")" -ge 1 ] || fail "a flush makes no root"

    # While it is attached.
    donor flip
    sh "$wrong"
    is "s['wrong'] == s['unreadable'] == 65" True
    donor flip
    sh "$right"
    donor save "$tmp/old"
    sh "h.pwrite(b'new' * 4096, 0); h.flush()"
    donor restore "$tmp/old"
    sh "
try:
    h.pread(3 * 4096, 0)
    assert False
except nbd.Error as e:
    assert e.errnum == errno.EIO
assert h.pread(4096, 3 * 4096)[:4] == text[:4]"
    sh "$write"
    end

    # While it is not; but what it had is good.
    plugin "${vol[@]}"
    is "s['doubts']" 0
    sh "$right"
    end
    donor save "$tmp/old"
    plugin "${vol[@]}"
    sh "h.pwrite(b'new' * 4096, 0)"
    end
    donor save "$tmp/new"
    donor restore "$tmp/old"
    refuse 'do not have what was last flushed' "${vol[@]}"
    donor restore "$tmp/new"
    plugin "${vol[@]}"
    sh "assert h.pread(3 * 4096, 0) == b'new' * 4096"

    # It is killed while it is written to.
    for _ in 1 2 3; do
        : >"$tmp/flushed"
        sh "$numbers" 2>"$tmp/numbers" &
        writer=$!
        wait_until 20 test -s "$tmp/flushed"
        sleep 0.5
        kill_9 "$(cat "$tmp/n.pid")"
        wait $writer && fail "it was not killed"
        plugin "${vol[@]}"
        sh "$check"
        is "s['unreadable'] == s['torn']" True
    done
    # At its end it says if that is not so, and nobody's file is replaced.
    cp "$tmp/$transport.root" "$tmp/other.root"
    mv "$tmp/other.root" "$tmp/$transport.root"
    sh "h.pwrite(h.pread(4096, 0), 0)"
    end
    grep -q 'could not be flushed at the end.*Stale' "$tmp/n.log" || fail "it ends without a word"
    plugin "${vol[@]}"
    sh "$check"
    # Nothing was flushed since: so what was found is what stays.
    kill_9 "$(cat "$tmp/n.pid")"
    plugin "${vol[@]}"
    sh "$check"
    is "s['doubts']" 0
    sh "$write"
    end

    # The file.
    cp "$tmp/$transport.root" "$tmp/saved.root"
    plugin "${vol[@]}"
    sh "h.pwrite(b'newer' * 4096, 0)"
    end
    mv "$tmp/$transport.root" "$tmp/newest.root"
    refuse 'is not there, and volume' "${vol[@]}"
    cp "$tmp/saved.root" "$tmp/$transport.root"
    refuse 'is older than what the servers' "${vol[@]}"
    head -c 100 "$tmp/newest.root" >"$tmp/$transport.root"
    refuse 'is damaged' "${vol[@]}"
    cp "$tmp/newest.root" "$tmp/$transport.root"
    plugin "${vol[@]}"
    sh "assert h.pread(5 * 4096, 0) == b'newer' * 4096"
    rm "$tmp/$transport.root"
    end
    rm -f "$tmp/$transport.root"
    plugin "${vol[@]}" reroot=true
    sh "assert h.pread(5 * 4096, 0) == b'newer' * 4096; assert h.pread(4, 9 * 4096) == text[:4]"
    is "s['torn']" 0
    end
    plugin "${vol[@]}"
    sh "assert h.pread(5 * 4096, 0) == b'newer' * 4096"
    end

    # Whoever takes it over has the file as soon as the other one has noticed.
    plugin "${vol[@]}"
    sh "h.pwrite(b'mine' * 1024, 0)"
    first=$(cat "$tmp/n.pid")
    mv "$tmp/n.sock" "$tmp/first.sock"
    rm -f "$tmp/n.status"
    start_nbdkit n "$FARPAGE_PLUGIN" "$MLOCK" connections=2 status="$tmp/n.status" "${vol[@]}" takeover=true
    sh "assert h.pread(4096, 0) == b'mine' * 1024; h.pwrite(b'ours' * 1024, 0); h.flush()"
    kill_9 "$first"
    end
    plugin "${vol[@]}"
    sh "assert h.pread(4096, 0) == b'ours' * 1024"
    end

    # With what it was not made with.
    refuse 'made with integrity=on' "server=$a" volume=v-$transport "$key"
    refuse 'give encrypt=FILE' "server=$a" volume=v-$transport
    refuse 'another key than' "server=$a" volume=v-$transport encrypt="$tmp/other.key" \
        integrity=on "root=$tmp/$transport.root"
    refuse 'remove it' "server=$a" volume=w-$transport "$key" integrity=on \
        "root=$tmp/$transport.root" size=4M
    refuse 'needs root=FILE' "server=$a" volume=v-$transport "$key" integrity=on
    refuse 'multiple of 4096' "server=$a" volume=x-$transport "$key" integrity=on \
        "root=$tmp/x.root" size=4097K
done
