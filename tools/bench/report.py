# SPDX-License-Identifier: BSD-3-Clause
"""Write the results as report.md and as report.html.  The latter contains its
plots, which gnuplot draws.  Nothing but the results is read."""

import html
import json
import math
import os
import re
import shutil
import statistics
import subprocess

import peers

US = 1000.0
# A percentile is shown if so many samples lie beyond it.
BEYOND = 10


def median(rows, key):
    return statistics.median(r[key] for r in rows)


def peers_of(results):
    return list(dict.fromkeys(r["peer"] for r in results))


def rows_of(results, peer, job):
    return [r for r in results if r["peer"] == peer and r["job"] == job]


def shown(samples, key, text):
    """Return text, the value of the percentile key ("p99"), or "" if there are
    too few samples for it."""
    beyond = {"p50": 2, "p99": 100, "p999": 1000}[key.split("_")[0]]
    return text if samples >= BEYOND * beyond else ""


def percentile(rows, key):
    """Return the median of the rounds in us, or None with too few samples."""
    if not shown(min(r.get("requests", 0) for r in rows), key, "yes"):
        return None
    return median(rows, key) / US


def in_us(value):
    return "" if value is None else f"{value:.1f}"


def table(head, lines):
    out = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(out + ["| " + " | ".join(line) + " |" for line in lines])


def job_tables(run):
    """Yield a table for each job: medians of rounds, and each round's rate."""
    for job in run["jobs"]:
        lines = []
        for peer in peers_of(run["io"]):
            rows = rows_of(run["io"], peer, job)
            if rows:
                lines.append([
                    peer, f"{median(rows, 'iops'):.0f}",
                    ", ".join(f"{r['iops']:.0f}" for r in rows),
                    f"{median(rows, 'mb_s'):.0f}",
                    f"{median(rows, 'mean_ns') / US:.1f}",
                    *(in_us(percentile(rows, k)) for k in ("p50_ns", "p99_ns", "p999_ns")),
                    *(f"{median(rows, k):.1f}" for k in ("client_us", "donor_us", "machine_us"))])
        yield job, table(["peer", "IOPS", "of each round", "MB/s", "mean us", "p50", "p99", "p99.9",
                          "client's CPU, us/IO", "donor's", "machine's"], lines)


def swap_table(run):
    def of(r):
        n = r.get("samples", 0)
        lat = [f"{r['mean']:.0f}" if n else "",
               *(shown(n, k, f"{r[k]:.0f}") if n else "" for k in ("p50", "p99"))]
        slower = slow_down(run, r)
        return [r["peer"], r["program"], f"{r['local_percent']} %",
                f"{r['seconds']:.1f}" if "seconds" in r else r.get("note", ""),
                "" if slower is None else f"{slower:.2f}" if "seconds" in r else f"over {slower:.2f}",
                str(n or ""), *lat]
    return table(["swap on", "program", "local memory", "seconds", "slow-down",
                  "faults or GETs", "mean us", "p50", "p99"], [of(r) for r in run["swap"]])


def slow_down(run, row):
    """Return the time of a run, divided by that of the same program with all
    its memory beside the same swap device; None if one is not known."""
    own = [r["seconds"] for r in run["swap"] if r["local_percent"] == 100 and "seconds" in r and
           (r["peer"], r["program"]) == (row["peer"], row["program"])]
    took = row.get("seconds", row.get("over"))
    return took / statistics.median(own) if own and took is not None else None


# Marks and dashes differ, too, for print and for readers who see few colours.
COLOURS = ("#0060ad", "#dd181f", "#008a3e", "#e69f00", "#7b3294", "#00a0b0", "#8c510a", "#d6408f",
           "#555555", "#99bb00", "#000000", "#6a8fd8", "#c08080", "#40c0a0", "#b8860b")


def family(name):
    """Return a peer's name without the way in which it becomes a device."""
    return re.sub(r", (/dev/\w+|nbd-client)$", "", name)


FAMILIES = list(dict.fromkeys(family(kind.name) for kind in peers.ALL))


def look(name):
    """Return colour, mark and dashes of a peer.  They are the same in every plot
    of every report."""
    # Layers and directions of farpage's own plots have no peers beside them.
    others = ["read", "write"]
    known = others if name in others else FAMILIES
    n = known.index(family(name)) if family(name) in known else 0
    dash = 1 + ("ublk" in name) + n // len(COLOURS)
    return COLOURS[n % len(COLOURS)], n % 15 + 1, dash


def gnuplot(directory, name, script):
    head = ['set terminal svg size 960,{0} background rgb "white" font "sans,12"'.format(
        script.pop("height", 460)), f'set output "{name}.svg"', "set grid", "set encoding utf8"]
    subprocess.run(["gnuplot"], input="\n".join(head + script["lines"]), text=True, check=True,
                   cwd=directory, timeout=60)
    with open(os.path.join(directory, f"{name}.svg"), encoding="utf-8") as f:
        return name, f.read()


def plot(directory, name, title, xlabel, ylabel, curves, extra="", over=()):
    """Plot curves, a list of (label, [(x, y)]).  over has (label, x, y) of runs
    that were ended: an arrow begins at what they took at least.  Return the
    SVG's name and text, or None without gnuplot."""
    curves = [c for c in curves if c[1]]
    if shutil.which("gnuplot") is None or not curves:
        return None
    lines = [f'set title "{title}"', f'set xlabel "{xlabel}"', f'set ylabel "{ylabel}"',
             "set key outside right reverse Left", extra]
    parts = []
    for i, (label, points) in enumerate(curves):
        colour, mark, dash = look(label)
        lines += [f"$d{i} << EOD", *(f"{x} {y}" for x, y in points), "EOD"]
        style = f'linecolor rgb "{colour}" dashtype {dash} linewidth 1.6'
        marks = "lines" if len(points) > 20 else f"linespoints pointtype {mark} pointsize 0.8"
        parts.append(f'$d{i} with {marks} {style} title "{label}"')
    for i, (label, x, y) in enumerate(over):
        lines += [f"$o{i} << EOD", f"{x} {y} 0 {y * 0.4}", "EOD"]
        parts.append(f'$o{i} with vectors filled head linecolor rgb "{look(label)[0]}" '
                     f'linewidth 1.6 notitle')
    return gnuplot(directory, name, {"lines": lines + ["plot " + ", ".join(parts)]})


def bars(directory, name, title, xlabel, head, rows, log=False):
    """Plot horizontal bars, so that names can be read.  rows is a list of
    (label, [value of each of head]).  A bar has the colour of its peer; the
    second and third of head are paler."""
    if shutil.which("gnuplot") is None or not rows:
        return None
    rows, n = rows[::-1], len(head)
    least = min((v for _, values in rows for v in values if v), default=1)
    low = 10 ** math.floor(math.log10(least)) if log else 0
    lines = [f'set title "{title}"', f'set xlabel "{xlabel}"', "unset grid", "set grid x",
             "set key outside right reverse Left", f"set yrange [-0.6:{len(rows) - 0.4}]",
             "set style fill solid 0.8 noborder", f"set xrange [{low}:*]",
             "set logscale x" if log else "",
             "set ytics (" + ", ".join(f'"{r[0]}" {i}' for i, r in enumerate(rows)) + ")"]
    parts, thick = [], 0.8 / n
    for k in range(n):
        lines += [f"$d{k} << EOD"]
        for i, (label, values) in enumerate(rows):
            if values[k] is not None:
                y = i + 0.4 - thick * (k + 0.5)
                colour = int(look(label)[0][1:], 16)
                lines.append(f"{values[k]} {y} {low} {values[k]} {y - thick / 2} {y + thick / 2} "
                             f"{colour}")
        fill = f"fillstyle solid {0.9 - 0.3 * k:.1f} noborder"
        lines += ["EOD"]
        parts.append(f"$d{k} with boxxyerror linecolor rgb variable {fill} notitle")
        parts.append(f'NaN with boxes linecolor rgb "#333333" {fill} title "{head[k]}"')
    return gnuplot(directory, name, {"lines": lines + ["plot " + ", ".join(parts)],
                                     "height": 120 + len(rows) * (14 + 9 * n)})


def cdf(bins):
    """Convert fio's bins (ns -> count) to points (us, share)."""
    pairs = sorted((int(ns), n) for ns, n in bins.items())
    total, seen, points = sum(n for _, n in pairs), 0, []
    for ns, n in pairs:
        seen += n
        points.append((ns / US, seen / total))
    return points


def merged_bins(rows):
    out = {}
    for r in rows:
        for ns, n in r["bins"].items():
            out[ns] = out.get(ns, 0) + n
    return out


def known_part(points, rows):
    """Leave out of a distribution what too few samples say."""
    n = sum(r.get("requests", 0) for r in rows)
    return [(x, y) for x, y in points if n and y <= 1 - BEYOND / n]


def io_plots(run, directory):
    kind, names = run["kind"], peers_of(run["io"])
    for job in ("randread 4k depth 1", "randwrite 4k depth 1"):
        curves = [(p, known_part(cdf(merged_bins(rows)), rows)) for p in names
                  if (rows := rows_of(run["io"], p, job))]
        name = f"{kind}-{job.replace(' ', '-')}"
        yield plot(directory, name, f"Latency, {job} (share of requests that took at most so long)",
                   "microseconds", "share of requests", curves, "set logscale x; set yrange [0:1]")
        yield bars(directory, name + "-bars", f"Latency, {job}", "microseconds (logarithmic)",
                   ["median", "p99"],
                   [(p, [percentile(rows, k) for k in ("p50_ns", "p99_ns")]) for p in names
                    if (rows := rows_of(run["io"], p, job))], log=True)
    depths = sorted({int(j.rsplit(" ", 1)[1]) for j in run["jobs"] if j.startswith("randread 4k ")})
    curves = [(p, [(d, median(rows, "iops") / 1000) for d in depths
                   if (rows := rows_of(run["io"], p, f"randread 4k depth {d}"))]) for p in names]
    if len(depths) > 1:
        yield plot(directory, f"{kind}-iops-by-depth", "4 KiB random reads by depth",
                   "requests at a time", "1000 requests per second (logarithmic)", curves,
                   "set logscale x 2; set logscale y")
    for depth in depths[:1] + depths[1:][-1:]:
        job = f"randread 4k depth {depth}"
        yield bars(directory, f"{kind}-cpu-{depth}", f"Processor time per request, {job}",
                   "microseconds",
                   ["client's processes", "donor's processes", "machine, all of it"],
                   [(p, [median(rows, k) for k in ("client_us", "donor_us", "machine_us")])
                    for p in names if (rows := rows_of(run["io"], p, job))])


def swap_plots(run, directory):
    known = [r for r in run["swap"] if slow_down(run, r) is not None]
    done = [r for r in known if "seconds" in r]
    for program in dict.fromkeys(r["program"] for r in known):
        curves = []
        for p in peers_of(done):
            points = {}
            for r in done:
                if r["peer"] == p and r["program"] == program:
                    points.setdefault(r["local_percent"], []).append(slow_down(run, r))
            curves.append((p, sorted((x, statistics.median(y)) for x, y in points.items())))
        over = [(r["peer"], r["local_percent"], slow_down(run, r)) for r in known
                if r["program"] == program and "seconds" not in r]
        yield plot(directory, f"swap-{program.replace(' ', '-')}",
                   f"{program}: slow-down by the share of its memory that is local",
                   "% of its memory that is local (an arrow: ended at its deadline)",
                   "times its own time with all its memory (logarithmic)", curves,
                   "set xrange [103:22]; set xtics (100, 75, 50, 25); set logscale y", over)
    for percent in (50, 25):
        rows = [(r["peer"], [float(v) if v else None for k in ("p50", "p99")
                             for v in [shown(r["samples"], k, str(r[k]))]]) for r in done
                if r["local_percent"] == percent and r["program"] == "touch and verify"
                and r.get("samples")]
        yield bars(directory, f"swap-faults-{percent}", "Page faults at random places, "
                   f"{percent} % local", "microseconds (logarithmic)", ["median", "p99"], rows,
                   log=True)


def death_plot(d, directory):
    """Plot the writes of a program, and the bytes without a second copy, while a
    donor dies and comes back empty."""
    if shutil.which("gnuplot") is None:
        return None
    per_s = 1000 / d["bin_ms"]
    lines = ["$w << EOD", *(f"{t} {n * per_s / 1000}" for t, n, _ in d["writes"]), "EOD",
             "$c << EOD", *(f"{t} {n / (1 << 20)}" for t, n in d["one_copy"]), "EOD",
             f"set yrange [0:{1.3 * max(n for _, n, _ in d['writes']) * per_s / 1000}]",
             f"set y2range [0:{1.3 * d['mib']}]",
             'set title "A donor dies: 4 KiB writes, one at a time, to two copies over tcp"',
             'set xlabel "seconds"', 'set ylabel "1000 writes per second"',
             'set y2label "MiB without a second copy"', "set y2tics", "set ytics nomirror",
             "set key outside below"]
    for i, (key, text) in enumerate((
            ("died", f"killed: the longest write takes {d['longest_ms']:.0f} ms"),
            ("back", "back, empty"), ("whole", "two copies again"))):
        lines += [f"set arrow {i + 1} from {d[key]}, graph 0 to {d[key]}, graph 1 nohead "
                  "dashtype 2", f'set label {i + 1} "{text}" at {d[key]}, graph '
                  f"{0.95 - 0.06 * i} offset 0.5,0"]
    lines.append(f'plot $c axes x1y2 with filledcurves y2=0 linecolor rgb "#f0c0a0" title '
                 f'"without a second copy", $w with lines linecolor rgb "{COLOURS[0]}" '
                 f'linewidth 1.6 title "writes"')
    return gnuplot(directory, "own-death", {"lines": lines})


OWN_RUNS = {"layers": "this machine", "rdma": "guest with an RDMA device"}


def layers_plot(key, rows, directory):
    """Plot the time of a read in each layer."""
    return bars(directory, f"own-{key}", "Random reads of 4 KiB, one at a time, layer by layer "
                f"({OWN_RUNS[key]})", "microseconds (logarithmic)", ["mean"],
                [(r["layer"], [r["mean_us"]]) for r in rows
                 if (r["op"], r["size"], r["depth"]) == ("read", 4096, 1)], log=True)


def donor_plot(key, rows, directory):
    """Plot the donor's processor time for a GiB that is read."""
    return bars(directory, f"own-{key}-donor", "Processor time of the donor's process, reads of "
                f"4 KiB ({OWN_RUNS[key]})", "milliseconds per GiB", ["time"],
                [(r["layer"], [r["donor_cpu_ms_per_gib"]]) for r in rows
                 if (r["op"], r["size"], r["depth"]) == ("read", 4096, 32)
                 and "donor_cpu_ms_per_gib" in r])


def donors_plot(rates, directory):
    """Plot the rate of a striped volume by its number of donors."""
    return plot(directory, "own-donors", "A striped volume on 1, 2 and 4 donors",
                "donors, each behind its own link", "MiB per second",
                [(way, [(n, kib / 1024) for n, w, kib in rates if w == way])
                 for way in ("read", "write")], "set xtics (1, 2, 4); set xrange [0.8:4.2]; "
                "set yrange [0:*]")


def own_plots(run, directory):
    own = run.get("own", {})
    if "death" in own:
        yield death_plot(own["death"], directory)
    for key in OWN_RUNS:
        if key in own:
            yield layers_plot(key, own[key], directory)
            yield donor_plot(key, own[key], directory)
    if "donors" in own:
        yield donors_plot(own["donors"], directory)


def own_tables(run):
    own = run.get("own", {})
    for key in filter(own.get, OWN_RUNS):
        yield f"Layer by layer, {OWN_RUNS[key]}", table(
            ["layer", "op", "size", "depth", "IOPS", "mean us", "donor's CPU, ms/GiB"],
            [[r["layer"], r["op"], str(r["size"]), str(r["depth"]), f"{r['iops']:.0f}",
              f"{r['mean_us']:.2f}",
              f"{r['donor_cpu_ms_per_gib']:.1f}" if "donor_cpu_ms_per_gib" in r else ""]
             for r in own[key]])
    if "death" in own:
        d = own["death"]
        yield "A donor's death", table(
            ["volume", "longest write", "two copies again"],
            [[f"{d['mib']} MiB", f"{d['longest_ms']:.0f} ms",
              f"{d['whole'] - d['back']:.1f} s after the donor began to come back"]])
    if "donors" in own:
        yield "Donors", table(["donors", "direction", "MiB/s"],
                              [[str(n), w, f"{kib / 1024:.1f}"] for n, w, kib in own["donors"]])


NOTE = """Each peer was set up, filled, measured and taken down in turn, in every round; figures are \
medians of the rounds, and the rate of each round stands beside them: where those differ much, the machine had \
other work, and a smaller difference between peers says nothing. Both ends are on one machine: the rates rank \
software paths, not networks. Where the RDMA device is soft-RoCE or the machine emulated, they do not rank network \
cards either. A percentile is shown if at least 10 samples lie beyond it. NBD servers are loaded by fio's nbd engine, devices by libaio with direct=1: compare within each \
part only. Latency is the whole of a request (fio's lat). "CPU" is processor time a request: the client's and the \
donor's are of their processes, the machine's is all that was not idle, fio, kernel and whatever else ran included; \
what has no process (NVMe-oF, iSER, brd, zram) has it there only. Under swap each program has a cgroup with so \
much of the memory it has at most when it may have all; at 100 % nothing is limited, and the slow-down is against \
that run with the same device. A program that was ended at its deadline has an arrow from there upwards. Swapping to brd and zram takes \
that machine's own memory: they are the floor, not a choice. One run each: the swap figures have no rounds."""

TITLES = {"own": "What farpage is for", "sockets": "NBD servers on sockets",
          "devices": "Block devices", "swap": "Programs under swap"}


def load(paths):
    """Return one run of each kind.  Merge runs of the same kind, which are
    further rounds, or other peers."""
    runs = {}
    for path in paths:
        with open(path, encoding="ascii") as f:
            run = json.load(f)
        have = runs.setdefault(run["kind"], run)
        if have is not run:
            have["io"] += run["io"]
            have["swap"] += run["swap"]
            have.setdefault("own", {}).update(run.get("own", {}))
            have["jobs"] += [j for j in run["jobs"] if j not in have["jobs"]]
            have["left_out"].update(run["left_out"])
            for k, v in run["machine"].items():
                if v not in have["machine"].get(k, ""):
                    have["machine"][k] = f"{have['machine'].get(k, '')}; {v}"
    return [runs[k] for k in TITLES if k in runs]


def keep(run, directory):
    """Write the results beside the report, without latencies not plotted."""
    for r in run["io"]:
        if not r["job"].endswith("depth 1"):
            r["bins"] = {}
    with open(os.path.join(directory, f"{run['kind']}.json"), "w", encoding="ascii") as f:
        json.dump(run, f, separators=(",", ":"))
        f.write("\n")


def sections(run, directory):
    """Yield the parts of the Markdown and of the HTML page, as (kind, text)."""
    yield "h2", TITLES[run["kind"]]
    yield "list", [f"{k}: {v}" for k, v in run["machine"].items()]
    if run["left_out"]:
        yield "p", "Left out:"
        yield "list", [f"{k}: {v}" for k, v in run["left_out"].items()]
    plots = {"swap": swap_plots, "own": own_plots}.get(run["kind"], io_plots)
    for svg in plots(run, directory):
        if svg:
            yield "svg", svg
    for heading, text in own_tables(run) if run["kind"] == "own" else ():
        yield "h3", heading
        yield "table", text
    if run["swap"]:
        yield "table", swap_table(run)
    for job, text in job_tables(run) if run["io"] else ():
        yield "h3", job
        yield "table", text


def markdown(kind, what):
    if kind == "list":
        return "\n".join(f"* {x}" for x in what)
    if kind == "svg":
        return f"![{what[0]}]({what[0]}.svg)"
    return {"h1": "# ", "h2": "## ", "h3": "### "}.get(kind, "") + what


def write(runs, directory, note=""):
    title = f"farpage and its peers, {runs[0]['date']}"
    parts = [("h1", title), *([("p", note)] if note else []), ("p", NOTE)]
    for run in runs:
        parts += sections(run, directory)
        if len(runs) > 1:
            keep(run, directory)
    if not any(kind == "svg" for kind, _ in parts):
        parts.append(("p", "No plots: gnuplot is not installed."))
    with open(os.path.join(directory, "report.md"), "w", encoding="utf-8") as f:
        f.write("\n\n".join(markdown(*x) for x in parts) + "\n")
    with open(os.path.join(directory, "report.html"), "w", encoding="utf-8") as f:
        f.write(page(title, parts))


def html_table(text):
    lines = [[html.escape(c.strip()) for c in row.strip("|").split("|")]
             for row in text.splitlines()]
    head = "".join(f"<th>{c}</th>" for c in lines[0])
    body = "".join("<tr>" + "".join(f"<td>{c}</td>" for c in row) + "</tr>" for row in lines[2:])
    return f"<table><tr>{head}</tr>{body}</table>"


def page(title, parts):
    items = []
    for kind, what in parts:
        if kind == "svg":
            # Drop gnuplot's XML declaration, which must not be inside a page.
            items.append(what[1][what[1].index("<svg"):])
        elif kind == "table":
            items.append(html_table(what))
        elif kind == "list":
            items.append("<ul>" + "".join(f"<li>{html.escape(x)}</li>" for x in what) + "</ul>")
        else:
            items.append(f"<{kind}>{html.escape(what)}</{kind}>")
    style = ("body{font-family:sans-serif;max-width:75em;margin:2em auto}"
             "table{border-collapse:collapse}td,th{border:1px solid #aaa;padding:.2em .5em;"
             "text-align:right}td:first-child,th:first-child{text-align:left}svg{display:block}")
    return (f"<!DOCTYPE html><html lang=en><head><meta charset=utf-8><title>{title}</title>"
            f"<style>{style}</style></head><body>{''.join(items)}</body></html>\n")
