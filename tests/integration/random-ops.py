# SPDX-License-Identifier: BSD-3-Clause
# Make random requests to one volume through two connections, and compare it
# with a copy in this process. Run by nbdsh. Environment: uri, seed, ops, slab
# (bytes), away if servers go away at times, and enough, the name of a file: once it
# exists, no more requests are made.

import os
import random
import nbd

seed = int(os.environ["seed"])
ops = int(os.environ["ops"])
slab = int(os.environ["slab"])
may_be_away = "away" in os.environ  # the server, at times
rnd = random.Random(seed)
print("seed=%d" % seed)


def connect():
    c = nbd.NBD()
    c.add_meta_context(nbd.CONTEXT_BASE_ALLOCATION)
    c.connect_uri(os.environ["uri"])
    return c


handles = [connect(), connect()]
size = handles[0].get_size()
shadow = bytearray(size)
touched = set()  # extents that may have memory
assert handles[0].can_multi_conn()


def somewhere():
    """Return a range: small, across an extent border, or some extents."""
    kind = rnd.randrange(4)
    if kind == 0:
        n = rnd.randint(1, 5000)
        o = rnd.randrange(size)
    elif kind == 1:  # around a border
        n = rnd.randint(2, 70000)
        o = rnd.randrange(1, size // slab + 1) * slab - rnd.randrange(n)
    elif kind == 2:
        n = 4096 * rnd.randint(1, 64)
        o = 4096 * rnd.randrange(size // 4096)
    else:
        n = slab * rnd.randint(1, 3)
        o = slab * rnd.randrange(size // slab)
        if rnd.randrange(2):
            o += rnd.randint(-600, 600)
    o = max(0, min(o, size - 1))
    return min(n, size - o), o


def extents_of(n, o):
    return range(o // slab, (o + n - 1) // slab + 1)


def read(c, n, o):
    got = c.pread(n, o)
    if got != shadow[o:o + n]:
        at = next(i for i in range(n) if got[i] != shadow[o + i])
        raise SystemExit("read of %d at %d: differs at %d: %d, not %d" %
                         (n, o, o + at, got[at], shadow[o + at]))


def write(c, n, o):
    data = rnd.randbytes(n)
    c.pwrite(data, o, nbd.CMD_FLAG_FUA if rnd.randrange(8) == 0 else 0)
    shadow[o:o + n] = data
    touched.update(extents_of(n, o))


def zero(c, n, o):
    flags = rnd.choice([0, nbd.CMD_FLAG_NO_HOLE, nbd.CMD_FLAG_FAST_ZERO,
                        nbd.CMD_FLAG_FUA])
    try:
        c.zero(n, o, flags)
    except nbd.Error as e:
        # Only a fast zero may be refused, and then it changes nothing.
        assert flags == nbd.CMD_FLAG_FAST_ZERO and e.errno == "ENOTSUP", str(e)
        return
    shadow[o:o + n] = bytes(n)


def trim(c, n, o):
    # This is stronger than NBD requires: trimmed data reads as zeros.
    c.trim(n, o)
    shadow[o:o + n] = bytes(n)


def extents(c, n, o):
    found = []

    def extent(context, offset, entries, err):
        for i in range(0, len(entries), 2):
            found.append((entries[i], entries[i + 1]))
        return 0

    one = rnd.randrange(2)
    c.block_status(n, o, extent, nbd.CMD_FLAG_REQ_ONE if one else 0)
    assert not one or len(found) == 1, found
    at = o
    for length, flags in found:
        end = min(at + length, o + n)
        assert length > 0
        if flags & nbd.STATE_ZERO:
            assert not any(shadow[at:end]), "data in a hole at %d" % at
        else:
            # Holes are not reported reliably while the server is away.
            assert may_be_away or touched.issuperset(extents_of(end - at, at)), \
                "no hole at %d" % at
        at = end
    assert at > o


enough = os.environ.get("enough")
kinds = [read] * 4 + [write] * 4 + [zero, trim, extents, extents]
read(handles[0], size, 0) if size <= 32 << 20 else None
for i in range(ops):
    if enough and os.path.exists(enough):
        break
    c = rnd.choice(handles)
    op = rnd.choice(kinds)
    n, o = somewhere()
    try:
        op(c, n, o)
    except Exception:
        print("op %d: %s of %d at %d" % (i, op.__name__, n, o))
        raise
    if i % 100 == 0:
        c.flush()
        c.cache(min(n, 4096), o)

for o in range(0, size, slab):
    read(rnd.choice(handles), min(slab, size - o), o)

# The memory of the whole volume goes back.
for o in range(0, size, 32 << 20):
    handles[0].trim(min(32 << 20, size - o), o)
shadow = bytearray(size)
for o in range(0, size, slab):
    read(handles[1], min(slab, size - o), o)
found = []
handles[1].block_status(size, 0, lambda m, o, e, err: found.extend(e) or 0)
# (Holes are tracked in units that are smaller than an extent.)
data = sum(found[i] for i in range(0, len(found), 2)
           if found[i + 1] != nbd.STATE_HOLE | nbd.STATE_ZERO)
assert may_be_away or data < 65536, found
