# SPDX-License-Identifier: BSD-3-Clause
"""Run programs in a cgroup with less memory than they need.  Measure how long
each takes, and check that its data is right.  The caller sets up the swap
device."""

import contextlib
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import peers

CGROUP = "/sys/fs/cgroup/farpage-peers"
PERCENT = (100, 75, 50, 25)
REDIS_GETS = 3000
REDIS_VALUE = 4096  # bytes; redis uses a quarter more for each value


class TooSlow(Exception):
    """The program was killed at its deadline.  over: seconds that what is timed
    took at least, or None if they are not known."""

    def __init__(self, what, over=None):
        super().__init__(what)
        self.over = over


def new_cgroup(limit_mib):
    peers.write("/sys/fs/cgroup/cgroup.subtree_control", "+memory")
    with contextlib.suppress(OSError):
        os.rmdir(CGROUP)
    os.makedirs(CGROUP, exist_ok=True)
    peers.write(f"{CGROUP}/memory.max", f"{limit_mib}M" if limit_mib else "max")


def end_cgroup():
    with contextlib.suppress(OSError):
        peers.write(f"{CGROUP}/cgroup.kill", "1")
    until = time.monotonic() + 20
    while time.monotonic() < until:
        with contextlib.suppress(OSError):
            os.rmdir(CGROUP)
            return
        time.sleep(0.1)


def peak_mib():
    with open(f"{CGROUP}/memory.peak", encoding="ascii") as f:
        return int(f.read()) / (1 << 20)


def inside(*argv):
    return ["sh", "-c", f'echo $$ >{CGROUP}/cgroup.procs; exec "$@"', "sh", *argv]


def finish(argv, deadline):
    """Run a program to its end or its deadline. Return its output."""
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          start_new_session=True) as p:
        try:
            out, err = p.communicate(timeout=deadline)
        except subprocess.TimeoutExpired as why:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(p.pid, signal.SIGKILL)
            raise TooSlow(f"no end within {deadline:.0f} s", deadline) from why
    if p.returncode != 0:
        raise RuntimeError(f"{argv[0]}: status {p.returncode}: {err or out}")
    return out


class Program:
    """A command that ends. Its answer is its output."""
    name = ""

    def __init__(self, directory, mib):
        """directory has the programs of tests/vm; mib is the memory to use."""
        self.dir, self.mib = directory, mib

    def prepare(self, scratch):
        """Make the input, outside of the memory limit and the measured time."""

    def argv(self):
        raise NotImplementedError

    def answer(self, said):
        """Return the part of the output that must be the same each time."""
        return said

    def run(self, deadline):
        """Return seconds, the answer, and details: samples, and their mean and
        percentiles in us."""
        began = time.monotonic()
        said = finish(inside(*self.argv()), deadline)
        return time.monotonic() - began, self.answer(said), self.details(said)

    def details(self, _):
        return {}


class Touch(Program):
    """Fill memory, check it by pages, then at random; time the page faults."""
    name = "touch and verify"

    def argv(self):
        return [os.path.join(self.dir, "hog"), "--seed", "1", "--random", "1500", str(self.mib)]

    def answer(self, said):
        return "OK" if "contents OK" in said else said

    def details(self, said):
        line = re.search(r"^fault latency: (\d+) faults, mean (\d+) us, p50 (\d+), p90 (\d+), "
                         r"p99 (\d+)", said, re.M)
        return dict(zip(("samples", "mean", "p50", "p90", "p99"),
                        map(int, line.groups()))) if line else {}


class Sort(Program):
    """Sort lines of 64 random characters, without a temporary file."""
    name = "sort"

    def prepare(self, scratch):
        # A line takes 65 bytes, and 32 in sort's array.
        count, rng = (self.mib << 20) // 97, random.Random(1)
        self.file = os.path.join(scratch, "lines")
        with open(self.file, "w", encoding="ascii") as f:
            f.writelines(f"{rng.getrandbits(256):064x}\n" for _ in range(count))

    def argv(self):
        return ["sh", "-c", f"LC_ALL=C sort -S {self.mib * 4}M --parallel=1 {self.file} | md5sum"]


class Matrix(Program):
    """Multiply a matrix by a vector, by rows and by columns, three times."""
    name = "matrix"

    def argv(self):
        return [os.path.join(self.dir, "matrix"), str(self.mib), "3"]


class Redis(Program):
    """Random GETs of 4 KiB values by four clients; only the GETs are timed."""
    name = "redis"

    def prepare(self, scratch):
        # In Debian both names are one program. The package with the tools has
        # the second one.
        self.server = shutil.which("redis-server")
        if self.server is None:
            other = shutil.which("redis-check-rdb")
            if other is None or shutil.which("redis-benchmark") is None:
                raise peers.Unavailable("redis is not installed")
            self.server = os.path.join(scratch, "redis-server")
            os.symlink(other, self.server)
        self.sock = os.path.join(scratch, "redis.sock")
        self.keys = (self.mib << 20) // (REDIS_VALUE * 5 // 4)

    def connected(self, until):
        while True:
            s = socket.socket(socket.AF_UNIX)
            s.settimeout(max(until - time.monotonic(), 0.1))
            try:
                s.connect(self.sock)
                return s
            except OSError:
                s.close()
                if time.monotonic() > until:
                    raise TooSlow("no answer of redis") from None
                time.sleep(0.1)

    def fill(self, until):
        rng = random.Random(1)
        with self.connected(until) as s, s.makefile("rwb") as f:
            for first in range(0, self.keys, 64):
                some = range(first, min(first + 64, self.keys))
                for i in some:
                    value = rng.randbytes(REDIS_VALUE)
                    f.write(b"*3\r\n$3\r\nSET\r\n$16\r\nkey:%012d\r\n$%d\r\n%s\r\n"
                            % (i, len(value), value))
                f.flush()
                for _ in some:
                    said = f.readline()
                    if said != b"+OK\r\n":
                        raise RuntimeError(f"redis: {said!r}")

    def verify(self, until):
        """Compare every value, in order. Return "OK", or what is wrong."""
        rng = random.Random(1)
        with self.connected(until) as s, s.makefile("rwb") as f:
            for i in range(self.keys):
                f.write(b"GET key:%012d\r\n" % i)
                f.flush()
                f.readline()
                if f.read(REDIS_VALUE + 2)[:-2] != rng.randbytes(REDIS_VALUE):
                    return f"value {i} is wrong"
        return "OK"

    def run(self, deadline):
        until = time.monotonic() + deadline
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.sock)
        with subprocess.Popen(inside(self.server, "--save", "", "--appendonly", "no", "--port",
                                     "0", "--unixsocket", self.sock),
                              stdout=subprocess.DEVNULL) as p:
            try:
                self.fill(until)
                began = time.monotonic()
                said = finish(["redis-benchmark", "-s", self.sock, "-t", "get", "-r",
                               str(self.keys), "-n", str(REDIS_GETS), "-c", "4", "--csv"],
                              max(until - began, 1))
                took = time.monotonic() - began
                answer = self.verify(until)
            except socket.timeout as why:
                raise TooSlow(f"no end within {deadline:.0f} s") from why
            finally:
                p.kill()
        # "test","rps","avg_latency_ms","min","p50","p95","p99","max"
        figures = [x.strip('"') for x in said.strip().split("\n")[-1].split(",")]
        return took, answer, {"samples": REDIS_GETS, "mean": float(figures[2]) * 1000, "p50": float(figures[4]) * 1000, "p99": float(figures[6]) * 1000}


ALL = (Touch, Sort, Matrix, Redis)


def one(program, limit_mib, deadline):
    """Return seconds, answer, details, and peak memory in MiB."""
    new_cgroup(limit_mib)
    try:
        return (*program.run(deadline), peak_mib())
    finally:
        end_cgroup()


def measure(directory, mib, deadline, say):
    """Yield a row for each program and each share of its memory that is local.
    Swap is on. A program that is killed at its deadline does not run with less;
    "over" in its row is the time it took at least."""
    for kind in ALL:
        program = kind(directory, mib)
        with tempfile.TemporaryDirectory(prefix="farpage-program.", dir="/dev/shm") as scratch:
            try:
                program.prepare(scratch)
                say(f"{program.name}, all it wants")
                seconds, right, details, peak = one(program, None, deadline)
            except (peers.Unavailable, TooSlow, RuntimeError) as why:
                yield {"program": program.name, "local_percent": 100, "note": str(why)}
                continue
            row = {"program": program.name, "peak_mib": round(peak, 1)}
            for percent in PERCENT:
                say(f"{program.name}, {percent} %")
                if percent < 100:
                    try:
                        seconds, answer, details, _ = one(
                            program, int(peak * percent / 100) + 1, deadline)
                    except TooSlow as why:
                        over = {} if why.over is None else {"over": round(why.over, 3)}
                        yield {**row, "local_percent": percent, "note": str(why), **over}
                        break
                    if answer != right:
                        raise RuntimeError(f"{program.name}: wrong contents: {answer}")
                yield {**row, "local_percent": percent, "seconds": round(seconds, 3), **details}
