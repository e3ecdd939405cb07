# SPDX-License-Identifier: BSD-3-Clause
# Requests on one volume, several in flight, each answer compared with what was
# written last. Run by nbdsh, in the background. Environment:
#   uri     the volume
#   out     OUT.running is made when some requests were answered;
#           OUT.mark   (made by others, removed here): the figures since the last one
#                      go to OUT.figures: requests, and the longest in ms
#           OUT.stop   (made by others): every block is read once more, and then
#                      this ends. "ok" is its last line if all was right
#   depth   in flight, 4 unless given
#   pause   ms after each answer, 15 unless given: others need the processor, too
#   only    'write' or 'read': no others (of blocks that were never read before
#           nothing is known, so the first requests are writes of all)
#   span    bytes of the volume that it uses, 4 MiB unless given

import os
import random
import struct
import time
import nbd

out = os.environ["out"]
depth = int(os.environ.get("depth", "4"))
pause = int(os.environ.get("pause", "15")) / 1000
only = os.environ.get("only")
rnd = random.Random(int(os.environ.get("seed", "1")))
BLOCK = 4096

h.connect_uri(os.environ["uri"])
blocks = min(h.get_size(), int(os.environ.get("span", 4 << 20))) // BLOCK
now = [0] * blocks  # what each block has: a number; 0: zeros
busy = {}  # blocks with a request in flight: since when
number = 0
count = 0
longest = 0.0
wrong = []


def content(block, n):
    return struct.pack("<QQ", block, n) * (BLOCK // 16) if n else bytes(BLOCK)


def answered(block, err):
    global count, longest
    took = time.monotonic() - busy.pop(block)
    count += 1
    longest = max(longest, took)
    if err:
        wrong.append("block %d: errno %d after %.2f s" % (block, err, took))


def write(block):
    global number
    number += 1
    n = number

    def done(err):
        answered(block, err.value)
        now[block] = n
        return 1
    h.aio_pwrite(content(block, n), block * BLOCK, completion=done)


def read(block):
    buf = nbd.Buffer(BLOCK)

    def done(err):
        answered(block, err.value)
        got = bytes(buf.to_bytearray())
        if not err.value and got != content(block, now[block]):
            wrong.append("block %d: %r, not %r" % (
                block, struct.unpack("<QQ", got[:16]), (block, now[block])))
        return 1
    h.aio_pread(buf, block * BLOCK, completion=done)


def turn():
    h.poll(50)
    # Forgets what is over.
    assert not wrong, wrong


def one():
    block = rnd.randrange(blocks)
    while block in busy:
        block = rnd.randrange(blocks)
    busy[block] = time.monotonic()
    if (only or rnd.choice(("read", "write"))) == "read":
        read(block)
    else:
        write(block)


def said(what):
    return os.path.exists(out + "." + what)


for block in range(blocks):
    busy[block] = time.monotonic()
    write(block)
    while len(busy) >= 2 * depth:
        turn()
while busy:
    turn()
count = longest = 0
look = 0
while True:
    if time.monotonic() > look:
        look = time.monotonic() + 0.05
        if count >= 32 and not said("running"):
            open(out + ".running", "w").close()
        if said("stop"):
            break
        if said("mark"):
            # Who waits still counts, too.
            waits = max([time.monotonic() - t for t in busy.values()] + [0])
            with open(out + ".figures", "w") as f:
                f.write("%d %d\n" % (count, 1000 * max(longest, waits)))
            count = longest = 0
            os.unlink(out + ".mark")
    while len(busy) < depth:
        one()
    turn()
    time.sleep(pause)
while busy:
    turn()
for block in range(blocks):
    busy[block] = time.monotonic()
    read(block)
    while len(busy) >= 2 * depth:
        turn()
while busy:
    turn()
print("%d writes" % number)
print("ok")
