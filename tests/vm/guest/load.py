# SPDX-License-Identifier: BSD-3-Clause
# Load on one volume with several requests in flight. Compares each answer with
# the data that was written last. Run by nbdsh, in the background. Environment:
#   uri     the volume
#   out     prefix of these files:
#           OUT.running  made here once some requests were answered
#           OUT.mark     made by a test, removed here: OUT.figures then has the
#                        requests since the last mark, and the longest in ms
#           OUT.stop     made by a test: read every block once more, and end;
#                        the last line is "ok" if all data was right
#   depth   requests in flight (4)
#   pause   ms to wait after each poll (15), since others need the processor
#   only    'write' or 'read': no other requests, except that each block is
#           written first, because it must be known for reads
#   span    bytes of the volume to use (4 MiB)

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
now = [0] * blocks  # number that each block contains; 0 for zeros
busy = {}  # block -> start of its request in flight, seconds
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
    # Fail at once if an answer was wrong.
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
            # Requests that still wait count, too.
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
