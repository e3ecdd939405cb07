# SPDX-License-Identifier: BSD-3-Clause
"""Measure what a program sees when one of two donors dies: writes of 4 KiB, one
at a time, and how much of the volume has one copy only."""

import contextlib
import json
import os
import signal
import subprocess
import threading
import time

import peers

BIN_MS = 100  # between two points of the plots
DEADLINE_S = 120


class Watch:
    """A thread that reads how much of a volume lacks a copy."""

    def __init__(self, sock):
        self.points, self.now, self.sock, self.stop = [], 0, sock, threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.stop.wait(BIN_MS / 1000):
            done = subprocess.run(["farpage", "status", "--socket", self.sock, "--json"],
                                  capture_output=True, text=True, check=False)
            if done.returncode == 0:
                volume = json.loads(done.stdout)["volume"]
                self.now = volume["bytes_to_resync"]
                self.points.append((time.time(), self.now))

    def end(self):
        self.stop.set()
        self.thread.join()


class Mirror(peers.FarpageTcp2):
    """Two copies of a volume, whose second server can die and come back."""

    def up(self):
        self.status = self.path("status")
        return super().up()

    def params(self, addresses):
        self.addresses = addresses
        return super().params(addresses) + [f"status={self.status}", "rebuild-delay=0"]

    def kill_server(self):
        server = self.processes[1]
        server.kill()
        server.wait()

    def start_server(self):
        old = self.processes[1]
        argv = list(old.args)
        at = [i for i, a in enumerate(argv) if a == "--listen"]
        argv[at[0] + 1] = self.addresses[1]
        os.unlink(argv[argv.index("--address-file") + 1])
        self.start(*argv)
        self.processes[1] = self.processes.pop()
        self.populated(self.addresses[1])


def series(log, began):
    """Return fio's log of latencies as (second, writes, longest ns) for each bin.
    A write belongs to the bin in which it ended."""
    bins = {}
    with open(log, encoding="ascii") as f:
        for line in f:
            at, ns = (int(x) for x in line.split(",")[:2])
            n, longest = bins.get(int((at / 1000 - began) * 1000 // BIN_MS), (0, 0))
            bins[int((at / 1000 - began) * 1000 // BIN_MS)] = (n + 1, max(longest, ns))
    last = max(bins)
    return [(i * BIN_MS / 1000, *bins.get(i, (0, 0))) for i in range(last)]


def longest(points, first, last):
    """Return the longest write, in ms, that was under way between two times."""
    return round(max(ns for t, _, ns in points
                     if first <= t + BIN_MS / 1000 and t - ns / 1e9 <= last) / 1e6, 1)


def measure(setup, quiet, say):
    """Return what happened, with all times in seconds since the writes began.
    quiet: seconds before the death, and from when it was noticed until the
    donor returns."""
    mirror = Mirror(setup)
    try:
        return run(mirror, mirror.up(), quiet, say)
    finally:
        mirror.down()


def run(mirror, uri, quiet, say):
    engine = ["fio", "--name=x", "--thread", "--ioengine=nbd", f"--uri={uri}",
              f"--size={mirror.setup.mib}M"]
    peers.call(*engine, "--rw=write", "--bs=1M", "--iodepth=4")
    log = mirror.path("writes")
    watch = Watch(mirror.status)
    began = time.time()
    with subprocess.Popen([*engine, "--rw=randwrite", "--bs=4k", "--iodepth=1", "--norandommap",
                           "--time_based", f"--runtime={DEADLINE_S}", f"--write_lat_log={log}",
                           "--log_unix_epoch=1"], stdout=subprocess.DEVNULL) as fio:
        try:
            events = act(mirror, watch, quiet, say)
            if fio.poll() is not None:
                raise RuntimeError(f"death of a donor: the writes ended, status {fio.returncode}")
        finally:
            fio.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                fio.wait(20)
            fio.kill()
            watch.end()
    points = series(f"{log}_lat.1.log", began)
    return {"bin_ms": BIN_MS, "mib": mirror.setup.mib, "writes": points,
            "longest_ms": longest(points, events["died"] - began, events["back"] - began),
            "one_copy": [(round(t - began, 3), n) for t, n in watch.points],
            **{k: round(t - began, 3) for k, t in events.items()}}


def act(mirror, watch, quiet, say):
    """Kill a server, start it again without its memory, and wait until there are
    two copies.  Return the times."""
    def until(what, done):
        end = time.monotonic() + DEADLINE_S / 3
        while not done():
            if time.monotonic() > end:
                raise RuntimeError(f"death of a donor: {what}")
            time.sleep(0.01)
    time.sleep(quiet)
    say("a donor dies")
    events = {"died": time.time()}
    mirror.kill_server()
    until("the volume did not notice", lambda: watch.now > 0)
    time.sleep(quiet)
    events["back"] = time.time()
    mirror.start_server()
    until("there are no two copies again", lambda: watch.now == 0)
    events["whole"] = time.time()
    time.sleep(quiet / 2)
    return events
