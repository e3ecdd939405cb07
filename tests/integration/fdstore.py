# SPDX-License-Identifier: BSD-3-Clause
# Play systemd for a service with FileDescriptorStoreMax=:
#
#   fdstore.py keep DIR            Keep all that is sent to DIR/notify.
#   fdstore.py start DIR COMMAND   Become COMMAND, with the kept descriptors.
#   fdstore.py names DIR           Print the kept names, one a line.
#   fdstore.py drop DIR NAME       No longer keep NAME.

import fcntl
import os
import select
import socket
import sys

BATCH = 64


def take(datagrams, kept):
    """Do what the pending messages say, in the order they were sent."""
    while True:
        try:
            text, fds, flags, _ = socket.recv_fds(datagrams, 4096, 16)
        except BlockingIOError:
            return
        words = dict(w.split("=", 1) for w in text.decode().splitlines())
        name = words.get("FDNAME", "stored")
        if words.get("FDSTOREREMOVE") == "1":
            for n, fd in [k for k in kept if k[0] == name]:
                os.close(fd)
            kept[:] = [k for k in kept if k[0] != name]
        if words.get("FDSTORE") == "1":
            kept.extend((name, fd) for fd in fds)
        else:
            for fd in fds:
                os.close(fd)


def answer(conn, kept):
    question = conn.recv(4096).decode().split()
    if question[0] == "drop":
        kept[:] = [k for k in kept if k[0] != question[1]]
    for i in range(0, len(kept), BATCH):
        batch = kept[i:i + BATCH]
        text = "\n".join(name for name, fd in batch).encode()
        socket.send_fds(conn, [len(text).to_bytes(4, "big") + text],
                        [fd for name, fd in batch])
        conn.recv(1)


def keep(where):
    kept = []
    datagrams = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    datagrams.bind(where + "/notify")
    datagrams.setblocking(False)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(where + "/keeper")
    listener.listen()
    while True:
        ready = select.select([datagrams, listener], [], [])[0]
        take(datagrams, kept)
        if listener in ready:
            conn = listener.accept()[0]
            take(datagrams, kept)
            answer(conn, kept)
            conn.close()


def ask(where, question):
    conn = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    conn.connect(where + "/keeper")
    conn.send(question.encode())
    kept = []
    while True:
        text, fds, flags, _ = socket.recv_fds(conn, 65536, BATCH)
        if not text:
            return kept
        kept += zip(text[4:].decode().split("\n"), fds)
        conn.send(b"+")


def start(where, command):
    kept = ask(where, "all")
    # Move them away from the numbers that they will get.
    high = [fcntl.fcntl(fd, fcntl.F_DUPFD, 4096) for name, fd in kept]
    for i, fd in enumerate(high):
        os.dup2(fd, 3 + i)
    os.closerange(3 + len(kept), 1 << 20)
    os.environ["NOTIFY_SOCKET"] = where + "/notify"
    if kept:
        os.environ["LISTEN_PID"] = str(os.getpid())
        os.environ["LISTEN_FDS"] = str(len(kept))
        os.environ["LISTEN_FDNAMES"] = ":".join(name for name, fd in kept)
    os.execvp(command[0], command)


what, where = sys.argv[1:3]
if what == "keep":
    keep(where)
elif what == "start":
    start(where, sys.argv[3:])
elif what == "names":
    print("\n".join(sorted(name for name, fd in ask(where, "all"))))
else:
    ask(where, "drop " + sys.argv[3])
