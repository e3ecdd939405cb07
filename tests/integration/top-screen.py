#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Run farpage top on a terminal of its own: top-screen.py SOCKET

Check what it draws in 80x24 and after a change of size, and its keys. It must
leave the terminal as it was, whatever ends it."""

import fcntl
import os
import pty
import select
import signal
import struct
import sys
import termios
import time

ENTER, LEAVE = b"\x1b[?1049h", b"\x1b[?1049l"  # xterm's alternate screen


class Top:
    def __init__(self, *args):
        self.fd, self.tty = pty.openpty()
        self.resize(24, 80)
        self.before = termios.tcgetattr(self.tty)
        self.pid = os.fork()
        if self.pid == 0:
            os.setsid()
            fcntl.ioctl(self.tty, termios.TIOCSCTTY, 0)
            for fd in 0, 1, 2:
                os.dup2(self.tty, fd)
            os.environ["TERM"] = "xterm"
            for name in "LINES", "COLUMNS":
                os.environ.pop(name, None)
            os.execvp("farpage", ["farpage", "top", "--interval", "0.2", *args])
        self.seen = b""
        self.end = time.monotonic() + 60

    def read(self):
        assert time.monotonic() < self.end, self.seen[-3000:]
        if select.select([self.fd], [], [], 0.2)[0]:
            self.seen += os.read(self.fd, 65536)

    def expect(self, text):
        """Read until text is drawn after this call began."""
        while text not in self.seen:
            self.read()
        self.seen = self.seen[self.seen.index(text) + len(text):]

    def resize(self, rows, columns):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ,
                    struct.pack("HHHH", rows, columns, 0, 0))

    def ends(self, status):
        while LEAVE not in self.seen:
            self.read()
        got = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        assert got == status, got
        assert termios.tcgetattr(self.tty) == self.before
        os.close(self.tty)
        os.close(self.fd)


socket = sys.argv[1]

top = Top(socket)
top.expect(ENTER)
top.expect(b"farpage top")
top.expect(b"VOLUME")
top.expect(b"SERVER")
top.expect(b"127.0.0.1:")
assert termios.tcgetattr(top.tty) != top.before
os.write(top.fd, b"s")
top.expect(b"IOPS")
# So few lines that it must scroll, and fewer columns than its lines need.
top.resize(6, 40)
top.expect(b"lines 1 to 5")
os.write(top.fd, b"\x1bOB")
top.expect(b"SERVER")
top.resize(24, 80)
top.expect(b"farpage top")
os.write(top.fd, b"q")
top.ends(0)

for sig, status in (signal.SIGTERM, -15), (signal.SIGINT, 0), (signal.SIGHUP, -1):
    top = Top(socket)
    top.expect(b"VOLUME")
    if sig == signal.SIGINT:
        os.write(top.fd, b"\x03")
    else:
        os.kill(top.pid, sig)
    top.ends(status)

# With --count it ends by itself.
top = Top("--count", "2", socket)
top.expect(ENTER)
top.ends(0)
