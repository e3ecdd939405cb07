#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Read Prometheus' text format 0.0.4 strictly, and scrape rudely.

  metrics.py get ADDR            Print the page, if all of it is valid.
  metrics.py value ADDR SAMPLE   Print the value of SAMPLE: 'name{l="v",...}'.
  metrics.py table               Print the page on stdin as in the man page.
  metrics.py rude ADDR           Do what must not keep others from the page.

ADDR is HOST:PORT or unix:PATH.
"""

import re
import socket
import sys
import time

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\\\|\\"|\\n)*)"'
SAMPLE = re.compile(
    r"(%s)(?:\{(%s(?:,%s)*)\})? ([0-9]+(?:\.[0-9]+)?)" % (NAME, LABEL, LABEL))


class Bad(Exception):
    pass


class Family:
    def __init__(self, name, help_, type_):
        self.name, self.help, self.type = name, help_, type_
        self.samples = {}  # (suffix, labels) -> value

    def labels(self):
        """Return the names of the labels in the page's order, without le."""
        names = {tuple(n for n, _ in labels if n != "le")
                 for _, labels in self.samples}
        if len(names) > 1:
            raise Bad("%s: samples differ in their labels" % self.name)
        return names.pop() if names else ()


def check_name(f):
    if not f.name.startswith("farpage_"):
        raise Bad("%s: not ours" % f.name)
    if (f.type == "counter") != f.name.endswith("_total"):
        raise Bad("%s is a %s" % (f.name, f.type))
    if f.type == "histogram" and not f.name.endswith("_seconds"):
        raise Bad("%s has no unit" % f.name)
    if re.search("_(ms|us|ns|kb|mib|minutes)(_|$)", f.name):
        raise Bad("%s: not a base unit" % f.name)


def check_histogram(f):
    series = {}
    for (suffix, labels), value in f.samples.items():
        rest = tuple(x for x in labels if x[0] != "le")
        s = series.setdefault(rest, {"buckets": []})
        if suffix == "_bucket":
            s["buckets"].append((dict(labels)["le"], value))
        else:
            s[suffix] = value
    for s in series.values():
        bounds = [float(b) for b, _ in s["buckets"]]
        counts = [v for _, v in s["buckets"]]
        if bounds != sorted(set(bounds)) or s["buckets"][-1][0] != "+Inf":
            raise Bad("%s: bounds %s" % (f.name, bounds))
        if counts != sorted(counts) or counts[-1] != s["_count"]:
            raise Bad("%s: counts %s, %s" % (f.name, counts, s["_count"]))
        if s["_sum"] < 0 or (s["_count"] > 0) != (s["_sum"] > 0):
            raise Bad("%s: sum %s" % (f.name, s["_sum"]))


def parse(data):
    text = data.decode("utf-8")  # raises if it is not valid
    if not text.endswith("\n"):
        raise Bad("the last line does not end")
    families = {}
    f = help_ = None
    for line in text[:-1].split("\n"):
        if line.startswith("# HELP "):
            _, _, name, rest = line.split(" ", 3)
            help_ = (name, rest)
            continue
        if line.startswith("# TYPE "):
            _, _, name, type_ = line.split(" ")
            if help_ is None or help_[0] != name or name in families:
                raise Bad("out of place: " + line)
            if type_ not in ("counter", "gauge", "histogram"):
                raise Bad(line)
            f = families[name] = Family(name, help_[1], type_)
            check_name(f)
            help_ = None
            continue
        m = SAMPLE.fullmatch(line.replace('le="+Inf"', 'le="Inf"'))
        if not m or help_ is not None:
            raise Bad("not a sample: " + line)
        suffix = m[1][len(f.name):] if m[1].startswith(f.name) else None
        if suffix not in (("_bucket", "_sum", "_count")
                          if f.type == "histogram" else ("",)):
            raise Bad("%s after %s" % (m[1], f.name))
        labels = tuple((n, "+Inf" if (n, v) == ("le", "Inf") else v)
                       for n, v in re.findall(LABEL, m[2] or ""))
        if len({n for n, _ in labels}) != len(labels):
            raise Bad("a label twice: " + line)
        if (suffix, labels) in f.samples:
            raise Bad("twice: " + line)
        f.samples[suffix, labels] = float(m[m.lastindex])
    for f in families.values():
        f.labels()
        if f.type == "histogram":
            check_histogram(f)
    return families


def connect(addr):
    if addr.startswith("unix:"):
        s = socket.socket(socket.AF_UNIX)
        where = addr[5:]
    else:
        s = socket.socket()
        host, port = addr.rsplit(":", 1)
        where = (host, int(port))
    s.settimeout(60)
    s.connect(where)
    return s


def answer(s):
    data = b""
    while True:
        more = s.recv(65536)
        if not more:
            return data
        data += more


def ask(addr, request):
    with connect(addr) as s:
        s.sendall(request)
        return answer(s)


def get(addr):
    head, body = ask(addr, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").split(
        b"\r\n\r\n", 1)
    lines = head.decode().lower().split("\r\n")
    if lines[0] != "http/1.1 200 ok":
        raise Bad(lines[0])
    for want in ("content-type: text/plain; version=0.0.4; charset=utf-8",
                 "connection: close", "content-length: %d" % len(body)):
        if want not in lines:
            raise Bad("no '%s' in %s" % (want, lines))
    return body


def value(addr, sample):
    name, _, labels = sample.partition("{")
    want = tuple(re.findall(LABEL, labels))
    for f in parse(get(addr)).values():
        for (suffix, have), v in f.samples.items():
            if f.name + suffix == name and have == want:
                return v
    raise Bad("no " + sample)


def table(families):
    for f in families.values():
        names = ", ".join(f.labels())
        yield " %s (%s%s)" % (f.name, f.type, "; " + names if names else "")
        yield "     " + f.help


def expect(data, status, line):
    if not data.startswith(b"HTTP/1.1 %d " % status) or line not in data:
        raise Bad("%d: %r" % (status, data[:300]))


def rude(addr):
    expect(ask(addr, b"GET / HTTP/1.1\r\n\r\n"), 404, b"GET /metrics\n")
    expect(ask(addr, b"GET /metrics/ HTTP/1.1\r\n\r\n"), 404, b"GET /metrics\n")
    post = ask(addr, b"POST /metrics HTTP/1.1\r\nContent-Length: 2\r\n\r\nhi")
    expect(post, 405, b"GET /metrics\n")
    expect(post, 405, b"Allow: GET\r\n")
    expect(ask(addr, b"DELETE /metrics HTTP/1.1\r\n\r\n"), 405, b"Allow: GET")
    # A malformed request gets an error or no reply, but never a page.
    for request in (b"\r\n\r\n", b"\0" * 1000 + b"\n\n", b"GET\r\n\r\n",
                    b"GET /metrics\r\n\r\n", b"FLY /metrics HTTP/1.1\r\n\r\n",
                    b"GET /metrics HTTP/9.9\r\n\r\n",
                    b"POST /metrics HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
                    b"POST /metrics HTTP/1.1\r\n"
                    b"Content-Length: 99999999999\r\n\r\n"):
        with connect(addr) as s:
            s.sendall(request)
            s.shutdown(socket.SHUT_WR)
            try:
                if b"200 OK" in answer(s).split(b"\r\n")[0]:
                    raise Bad("answered %r" % request)
            except ConnectionError:
                pass
    # A request without an end is not read for ever.
    with connect(addr) as s:
        try:
            s.sendall(b"GET /metrics HTTP/1.1\r\nX: ")
            for _ in range(1000):
                s.sendall(b"x" * 4096)
            raise Bad("read a header of 4 MB")
        except ConnectionError:
            pass
    # Hang up in the middle of a request.
    for _ in range(50):
        s = connect(addr)
        s.sendall(b"GET /metrics HTTP/1.1\r\n")
        s.close()
    # Open more connections than the server allows. They say nothing, send a
    # part of a request, or do not read. Others still get the page, and soon.
    crowd = []
    for i in range(20):
        s = connect(addr)
        s.sendall((b"", b"GET /met", b"GET /metrics HTTP/1.1\r\n\r\n" * 50)
                  [i % 3])
        crowd.append(s)
    begin = time.monotonic()
    parse(get(addr))
    print("a page after %.1f s" % (time.monotonic() - begin))
    # One of these connections had to be closed for that.
    crowd[0].settimeout(60)
    if crowd[0].recv(1):
        raise Bad("who asked for nothing got something")
    for s in crowd:
        s.close()


def main(argv):
    if argv[0] == "get":
        data = get(argv[1])
        parse(data)
        sys.stdout.write(data.decode())
    elif argv[0] == "value":
        print("%.17g" % value(*argv[1:]))
    elif argv[0] == "table":
        print("\n".join(table(parse(sys.stdin.buffer.read()))))
    else:
        rude(argv[1])


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except Bad as e:
        sys.exit("metrics.py %s: %s" % (" ".join(sys.argv[1:]), e))
