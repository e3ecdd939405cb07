#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""listen-in.py PORT CAPTURE PORT-FILE: record the traffic between a client and
the server at 127.0.0.1:PORT. It passes everything on, and copies it to CAPTURE.
Its own port is in PORT-FILE. With FAKE in the environment there is no server:
the reply is that text, or nothing if it is "silent"."""

import os
import selectors
import socket
import sys


def main():
    port, capture = int(sys.argv[1]), open(sys.argv[2], "wb", buffering=0)
    kept = []
    fake = os.environ.get("FAKE", "").encode()
    listener = socket.create_server(("127.0.0.1", 0))
    with open(sys.argv[3] + ".new", "w") as f:
        print(listener.getsockname()[1], file=f)
    os.rename(sys.argv[3] + ".new", sys.argv[3])
    events = selectors.DefaultSelector()
    events.register(listener, selectors.EVENT_READ, None)
    while True:
        for key, _ in events.select():
            if key.data is None:
                client, _ = listener.accept()
                if fake == b"silent":
                    kept.append(client)
                    continue
                if fake:
                    capture.write(client.recv(65536))
                    client.sendall(fake)
                    client.close()
                    continue
                server = socket.create_connection(("127.0.0.1", port))
                events.register(client, selectors.EVENT_READ, server)
                events.register(server, selectors.EVENT_READ, client)
                continue
            try:
                data = key.fileobj.recv(65536)
                capture.write(data)
                if data:
                    key.data.sendall(data)
            except OSError:
                data = b""
            if not data:
                for s in key.fileobj, key.data:
                    if s.fileno() >= 0:
                        events.unregister(s)
                        s.close()


main()
