# SPDX-License-Identifier: BSD-3-Clause
# A program that answers in the place of a memory server. fake-server.py KIND
# PORT-FILE listens on a port that the kernel picks, and writes its address to
# PORT-FILE.

import os
import re
import socket
import struct
import sys

kind, out = sys.argv[1:]
MAGIC, HELLO_REPLY, STATUS_VERSION = 0x46506743, 0x8001, 2
with open(os.environ["top_srcdir"] + "/lib/proto/messages.h") as f:
    VERSION = int(re.search(r"^#define FP_VERSION (\d+)", f.read(), re.M)[1])

s = socket.socket()
s.bind(("127.0.0.1", 0))
s.listen(8)
with open(out + ".new", "w") as f:
    f.write("127.0.0.1:%d\n" % s.getsockname()[1])
os.rename(out + ".new", out)

open_ones = []
while True:
    c, _ = s.accept()
    open_ones.append(c)  # or it would be closed
    try:
        if kind == "ssh":
            c.sendall(b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n")
        elif kind == "http":
            c.recv(4096)
            c.sendall(b"HTTP/1.1 400 Bad Request\r\n"
                      b"Content-Type: text/plain\r\n\r\nno\n")
            c.shutdown(socket.SHUT_WR)
        elif kind == "nbd":
            c.sendall(b"NBDMAGICIHAVEOPT" + bytes([0, 3]))
        elif kind == "tls":  # an alert: unexpected message
            c.recv(4096)
            c.sendall(bytes([0x15, 3, 3, 0, 2, 2, 10]))
        elif kind == "hangup":
            open_ones.pop().close()
        elif kind == "half":  # stops in the middle of its answer
            c.recv(4096)
            c.sendall(struct.pack(">IHHII", MAGIC, VERSION, HELLO_REPLY, 100, 1))
        elif kind == "version":
            c.recv(4096)
            why = b"this server speaks version 9"
            body = struct.pack(">H", len(why)) + why
            c.sendall(struct.pack(">IHHIIII", MAGIC, 9, HELLO_REPLY, len(body),
                                  1, STATUS_VERSION, 0) + body)
        elif kind == "older":  # replies in an older version, without an error
            c.recv(4096)
            c.sendall(struct.pack(">IHHIIII", MAGIC, VERSION - 1, HELLO_REPLY,
                                  16, 1, 0, 0) + bytes(16))
        elif kind == "long":
            c.recv(4096)
            c.sendall(struct.pack(">IHHIIII", MAGIC, VERSION, HELLO_REPLY,
                                  0xffffffff, 1, 0, 0) + bytes(4096))
        elif kind == "zero":  # a reply of the right length that says nothing
            c.recv(4096)
            c.sendall(struct.pack(">IHHIIII", MAGIC, VERSION, HELLO_REPLY, 16, 1, 0,
                                  0) + bytes(16))
        else:
            assert kind == "silent"
    except OSError:
        pass
