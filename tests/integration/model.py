# SPDX-License-Identifier: BSD-3-Clause
# Compare a volume with a copy of it in this process. Random requests, some at
# the same time, are mixed with random events for its clients, its servers, and
# the place of its extents. Whatever happens, acknowledged data must be read
# again. Run by nbdsh (test-plugin-model.sh), with this environment:
#
#   servers  addresses, blank-separated    nbdkit      how to run it
#   steps    requests and events in all    size, slab  bytes
#   seed     of the random numbers         dir         for sockets and logs
#   copies   of each extent (1)            weak        no: no host gets short
#   every    one step in so many is an event
#   events   allowed ones, blank-separated (Model.EVENTS)
#   params   other parameters of the plugin
#   pids     pid files of the servers, if they are started again at their end
#   hosts    files that the servers see as /proc/meminfo, if they do
#   uuid     of a volume without a name: its client can only be killed

import collections
import json
import os
import random
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
import nbd

env = os.environ
rnd = random.Random(int(env["seed"]))
print("seed=%s steps=%s" % (env["seed"], env["steps"]), flush=True)
size, slab = int(env["size"]), int(env["slab"])
addresses = env["servers"].split()
copies = int(env.get("copies", "1"))
uuid = env.get("uuid")
PATIENCE = 60  # seconds: to find wrong data and hangs, not slowness

BLOCK = 4096
Flight = collections.namedtuple("Flight", "handle cookie n o data buffer")


def server_pid(path):
    try:
        with open(path) as f:
            return int(f.read())
    except (OSError, ValueError):  # the server is ending or starting
        return None


def blocks(n, o):
    """Yield the number of each block in a range, and what lies in it."""
    for b in range(o // BLOCK, (o + n - 1) // BLOCK + 1):
        yield b, max(o, b * BLOCK), min(o + n, (b + 1) * BLOCK)


class Client:
    """One nbdkit with the volume, and two connections to it."""

    count = 0

    def __init__(self, *args):
        Client.count += 1
        self.name = os.path.join(env["dir"], "c%d" % Client.count)
        self.sock = self.name + ".sock"
        self.log = open(self.name + ".log", "w+")
        # All servers are named to create the volume, and any one to find it.
        named = addresses if Client.count == 1 else [rnd.choice(addresses)]
        self.process = subprocess.Popen(
            shlex.split(env["nbdkit"]) +
            ["-f", "-U", self.sock, env["FARPAGE_PLUGIN"], *self.volume(),
             "connections=2", "status=" + self.name + ".status",
             *env["params"].split(), *("server=" + a for a in named), *args],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        self.handles = []

    def volume(self):
        if not uuid:
            return ["volume=model"]
        # The first client creates the volume, and later ones resume it.
        again = [] if Client.count == 1 else ["size=%d" % size, "resume=true"]
        return ["uuid=" + uuid, *again]

    def said(self):
        self.log.seek(0)
        return self.log.read()

    def is_too_early(self):
        """Return true if a restarted server still waits for the last client."""
        return "may not know yet" in self.said()

    def connect(self):
        end = time.monotonic() + PATIENCE
        while len(self.handles) < 2:
            h = nbd.NBD()
            try:
                h.connect_unix(self.sock)
            except nbd.Error:
                if self.process.poll() is not None and self.is_too_early():
                    return None
                if self.process.poll() is not None or time.monotonic() > end:
                    raise SystemExit("client %s: %s" % (self.name, self.said()))
                time.sleep(0.01)
                continue
            self.handles.append(h)
        got = self.handles[0].get_size()
        assert got == size, "size %d" % got
        return self

    def ask(self, line):
        """Send a line to the plugin's status socket, and return the reply."""
        for _ in range(5):
            try:
                return self.ask_once(line)
            except BrokenPipeError:
                pass  # the plugin waits a second for a request: too short here
        raise SystemExit("nbdkit hears nothing of " + line)

    def ask_once(self, line):
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(PATIENCE)
            s.connect(self.name + ".status")
            s.sendall(line.encode() + b"\n")
            return json.loads(s.makefile().read())

    def servers(self):
        return {s["addr"]: s for s in self.ask("status")["servers"]}

    def end(self, how):
        if how == signal.SIGTERM:
            for h in self.handles:
                h.shutdown()
        self.process.send_signal(how)
        self.process.wait(PATIENCE)
        self.handles = []
        self.log.close()
        for name in (self.sock, self.name + ".log", self.name + ".status"):
            if os.path.exists(name):
                os.unlink(name)


class Model:
    def __init__(self):
        self.shadow = bytearray(size)
        self.gone = {None}  # pids of servers that were told to end
        self.maybe = {}  # block -> [(offset, data that may be there instead)]
        self.flying = []
        self.drained = set()
        self.done = collections.Counter()
        # The server whose host becomes short of memory. -1: none.
        self.weak = -1 if env.get("weak") == "no" else rnd.randrange(len(addresses))
        self.host(False)
        self.client = Client("size=%d" % size).connect()
        for a in addresses:  # a host may have been short until now
            self.until(a, lambda s: s["slabs_free"] > 0)

    # ---- requests ----

    def somewhere(self):
        """Return a range: small, across an extent border, or 1 or 2 extents."""
        kind = rnd.randrange(4)
        n, o = rnd.randint(1, 9000), rnd.randrange(size)
        if kind == 1:
            o = rnd.randrange(1, size // slab + 1) * slab - rnd.randrange(n)
        elif kind == 2:
            n, o = 4096 * rnd.randint(1, 16), 4096 * rnd.randrange(size // 4096)
        elif kind == 3:
            n, o = slab * rnd.randint(1, 2), slab * rnd.randrange(size // slab)
        o = max(0, min(o, size - 1))
        n = min(n, size - o)
        self.land(n, o)
        return n, o

    def handle(self):
        return rnd.choice(self.client.handles)

    def check(self, got, o):
        if got == self.shadow[o:o + len(got)]:
            return
        for b, lo, hi in blocks(len(got), o):
            if got[lo - o:hi - o] == self.shadow[lo:hi]:
                continue
            for i in range(lo, hi):
                if got[i - o] != self.shadow[i]:
                    self.differs(got[i - o], b, i)

    def differs(self, got, b, i):
        # A write without acknowledgement may be there, or not. Data that was
        # read once stays.
        if not any(o <= i < o + len(data) and data[i - o] == got
                   for o, data in self.maybe.get(b, ())):
            raise SystemExit("read: differs at %d: %d, not %d" %
                             (i, got, self.shadow[i]))
        self.shadow[i] = got

    def settled(self, n, o):
        if not self.maybe:
            return
        for b, _, _ in blocks(n, o):
            left = []
            for at, data in self.maybe.pop(b, ()):
                if at < o:
                    left.append((at, data[:o - at]))
                if at + len(data) > o + n:
                    left.append((max(at, o + n), data[max(0, o + n - at):]))
            if left:
                self.maybe[b] = left

    def read(self):
        n, o = self.somewhere()
        got = self.handle().pread(n, o)
        self.check(got, o)
        self.settled(n, o)

    def put(self, n, o, data):
        self.shadow[o:o + n] = data
        self.settled(n, o)

    def write(self):
        n, o = self.somewhere()
        data = rnd.randbytes(n)
        self.handle().pwrite(data, o)
        self.put(n, o, data)

    def zero(self):
        n, o = self.somewhere()
        self.handle().zero(n, o)
        self.put(n, o, bytes(n))

    def trim(self):
        n, o = self.somewhere()
        if rnd.randrange(2):  # whole extents: their memory goes back
            o -= o % slab
            n = min(slab, size - o)
            self.land(n, o)
        self.handle().trim(n, o)
        self.put(n, o, bytes(n))

    def flush(self):
        self.handle().flush()

    def fly(self):
        """Start a write. Its end is awaited when that range is used."""
        n, o = self.somewhere()
        data = rnd.randbytes(n)
        h, buf = self.handle(), nbd.Buffer.from_bytearray(bytearray(data))
        self.flying.append(Flight(h, h.aio_pwrite(buf, o), n, o, data, buf))
        if len(self.flying) > 8:
            self.land(1, self.flying[0].o)

    def land(self, n=size, o=0):
        """Wait until the writes to this range, or all, are acknowledged."""
        end = time.monotonic() + PATIENCE
        for f in self.flying[:]:
            if f.o >= o + n or f.o + f.n <= o:
                continue
            while not f.handle.aio_command_completed(f.cookie):
                assert time.monotonic() < end, "a write is not answered"
                f.handle.poll(100)
            self.flying.remove(f)
            self.put(f.n, f.o, f.data)

    def abandon(self):
        """Give up the writes in flight: each may be done or not."""
        for f in self.flying:
            if f.handle.aio_command_completed(f.cookie):
                self.put(f.n, f.o, f.data)
                continue
            for b, lo, hi in blocks(f.n, f.o):
                self.maybe.setdefault(b, []).append((lo, f.data[lo - f.o:hi - f.o]))
        self.flying = []

    def read_all(self):
        self.land()
        for o in range(0, size, slab):
            n = min(slab, size - o)
            self.check(self.handle().pread(n, o), o)
            self.settled(n, o)

    # ---- events: clients ----

    def all_servers_up(self):
        """Wait until all servers run: to find the volume takes them all."""
        end = time.monotonic() + PATIENCE
        for path in env.get("pids", "").split():
            while not os.path.exists(path) or server_pid(path) in self.gone:
                assert time.monotonic() < end, path
                time.sleep(0.01)

    def next_client(self, *args):
        end = time.monotonic() + PATIENCE
        self.all_servers_up()
        while True:
            other = Client(*args)
            if other.connect():
                return other
            assert time.monotonic() < end, other.said()
            other.end(signal.SIGTERM)
            time.sleep(0.1)

    def next_has_it(self, *args):
        self.client = self.next_client(*args)
        self.drained = set()  # a drain ends with its client
        self.read_all()

    def stop(self):
        self.land()
        self.count_moves()
        self.client.end(signal.SIGTERM)
        self.next_has_it(*rnd.choice([[], ["size=%d" % size]]))

    def kill(self):
        for _ in range(rnd.randrange(4)):
            self.fly()
        self.count_moves()
        self.abandon()
        self.client.end(signal.SIGKILL)
        self.next_has_it()

    def refused(self):
        self.all_servers_up()
        other = Client()
        assert other.process.wait(PATIENCE) != 0
        assert "is attached to" in other.said() or other.is_too_early(), other.said()
        other.end(signal.SIGTERM)

    def takeover(self):
        old = self.client
        self.count_moves()
        self.abandon()
        self.client = self.next_client("takeover=true")
        self.drained = set()
        n, o = self.somewhere()
        try:
            old.handles[0].pwrite(bytes([255]) * n, o)
        except nbd.Error:
            pass
        else:
            raise SystemExit("a write of who lost the volume was acknowledged")
        self.read_all()
        old.end(signal.SIGKILL)

    # ---- events: servers ----

    def restart(self):
        """End a server, which then comes back: there is no error."""
        for _ in range(rnd.randrange(4)):
            self.fly()
        self.all_servers_up()
        pids = env["pids"].split()
        i = rnd.randrange(len(pids))
        if i == self.weak:
            self.host(False)  # or it does not start
        pid = server_pid(pids[i])
        self.gone.add(pid)
        os.kill(pid, rnd.choice([signal.SIGKILL, signal.SIGTERM]))

    def host(self, short):
        """Make the host of the weak server short of memory, or not."""
        self.short = short
        if env.get("hosts"):
            kib = 1024 if short else 4 << 20
            # Keep the file's length, because a server may read it meanwhile.
            with open(env["hosts"].split()[self.weak], "r+") as f:
                text = re.sub("(?<=MemAvailable:) *[0-9]+", "%12d" % kib, f.read())
                f.seek(0)
                f.write(text)

    def pressure(self):
        self.all_servers_up()
        self.host(not self.short)

    def give_back(self):
        """Let the weak server ask for all that it lent, and get it."""
        self.all_servers_up()
        self.host(True)
        self.until(addresses[self.weak], lambda s: s["extents"] == 0)
        self.host(False)
        self.read_all()

    # ---- events: extents ----

    def count_moves(self):
        """Count how many extents of this client moved, as it reports."""
        for s in self.client.servers().values():
            self.done["extents reclaimed"] += s["extents_reclaimed"]
            if s["drain"]:
                self.done["extents drained"] += s["drain"]["extents"] - s["drain"]["left"]

    def drain(self, rate=None):
        """Move all extents of a server elsewhere from now on."""
        # The other servers must have room for all copies, even if one host is
        # short.
        free = [a for i, a in enumerate(addresses)
                if i != self.weak and a not in self.drained]
        may = [a for a in addresses
               if a not in self.drained and
               len([b for b in free if b != a]) >= copies]
        if not may:
            return None
        address = rnd.choice(may)
        rate = rate or rnd.choice([0, 0, 4 << 20, 16 << 20])
        answer = self.client.ask("drain %s %d" % (address, rate) if rate else
                                 "drain %s" % address)
        if not answer["ok"]:
            # Free room is known from heartbeats, and may be less.
            assert "are missing" in answer["error"], answer
            return None
        self.drained.add(address)
        return address

    def undrain(self, address):
        d = self.client.servers()[address]["drain"]
        answer = self.client.ask("drain-cancel " + address)
        assert answer["ok"], answer
        self.done["extents drained"] += d["extents"] - d["left"]
        self.drained.remove(address)

    def cancel(self):
        if self.drained:
            self.undrain(rnd.choice(sorted(self.drained)))

    def migrate(self):
        """Move some extents slowly, and another one in part."""
        address = self.drain(rnd.choice([2, 4, 8]) << 20)
        if not address:
            return
        n = rnd.randrange(4)
        self.until(address, lambda s: s["drain"]["state"] == "drained" or
                   s["drain"]["extents"] - s["drain"]["left"] >= n)
        for _ in range(rnd.randrange(40)):
            self.request()
        self.undrain(address)
        self.read_all()

    def drained_all(self):
        """Empty a server for a while, and then allow its use again."""
        if not self.drained and not self.drain():
            return
        address = rnd.choice(sorted(self.drained))
        s = self.until(address, lambda s: s["drain"]["state"] == "drained")
        assert s["extents"] == 0, s
        self.undrain(address)
        self.read_all()

    def until(self, address, is_so):
        """Make requests until the client reports this of a server."""
        end = time.monotonic() + PATIENCE
        while True:
            s = self.client.servers()[address]
            if is_so(s):
                return s
            assert time.monotonic() < end, s
            self.request()

    # ---- the run ----

    REQUESTS = [read] * 5 + [write] * 4 + [fly] * 3 + [zero, trim, trim, flush]
    EVENTS = dict(stop=stop, kill=kill, refused=refused, takeover=takeover,
                  restart=restart, pressure=pressure, drain=drain, cancel=cancel,
                  migrate=migrate, drained=drained_all, give_back=give_back)

    def request(self):
        what = rnd.choice(self.REQUESTS)
        self.done[what.__name__] += 1
        what(self)

    def run(self, steps):
        events = env["events"].split()
        for i in range(steps):
            what = "request"
            try:
                if rnd.randrange(int(env["every"])) == 0:
                    what = rnd.choice(events)
                    self.done[what] += 1
                    self.EVENTS[what](self)
                else:
                    self.request()
            except BaseException:
                print("step %d: %s, after %s; the client says:\n%s" %
                      (i, what, dict(self.done), self.client.said()[-4000:]))
                print(json.dumps(self.client.ask("status")), flush=True)
                raise
        self.read_all()
        self.count_moves()
        self.client.end(signal.SIGTERM)
        self.host(False)
        print("done: " + ", ".join("%s %d" % d for d in sorted(self.done.items())))


Model().run(int(env["steps"]))
sys.exit(0)
