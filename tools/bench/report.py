# SPDX-License-Identifier: BSD-3-Clause
"""Write the results as report.md and as report.html.  The latter contains its
plots, which gnuplot draws.  Nothing but the results is read."""

import html
import json
import os
import shutil
import statistics
import subprocess

US = 1000.0


def median(rows, key):
    return statistics.median(r[key] for r in rows)


def peers_of(results):
    return list(dict.fromkeys(r["peer"] for r in results))


def rows_of(results, peer, job):
    return [r for r in results if r["peer"] == peer and r["job"] == job]


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
                    *(f"{median(rows, k) / US:.1f}" for k in ("mean_ns", "p50_ns", "p99_ns",
                                                             "p999_ns")),
                    *(f"{median(rows, k):.1f}" for k in ("client_us", "donor_us", "machine_us"))])
        yield job, table(["peer", "IOPS", "of each round", "MB/s", "mean us", "p50", "p99", "p99.9",
                          "client's CPU, us/IO", "donor's", "machine's"], lines)


def swap_table(run):
    def of(r):
        lat = "/".join(f"{r[k]:.0f}" for k in ("mean", "p50", "p99")) if "p99" in r else ""
        return [r["peer"], r["program"], f"{r['local_percent']} %",
                f"{r['seconds']:.1f}" if "seconds" in r else r.get("note", ""), lat]
    return table(["swap on", "program", "local memory", "seconds",
                  "faults or GETs, us: mean/p50/p99"], [of(r) for r in run["swap"]])


# Marks and dashes differ, too, for print and for readers who see few colours.
COLOURS = ("#0060ad", "#dd181f", "#008a3e", "#e69f00", "#7b3294", "#00a0b0", "#8c510a", "#d6408f",
           "#555555", "#99bb00", "#000000", "#6a8fd8", "#c08080", "#40c0a0", "#b8860b")


def gnuplot(directory, name, script):
    head = ['set terminal svg size 960,{0} background rgb "white" font "sans,12"'.format(
        script.pop("height", 460)), f'set output "{name}.svg"', "set grid", "set encoding utf8"]
    subprocess.run(["gnuplot"], input="\n".join(head + script["lines"]), text=True, check=True,
                   cwd=directory, timeout=60)
    with open(os.path.join(directory, f"{name}.svg"), encoding="utf-8") as f:
        return name, f.read()


def plot(directory, name, title, xlabel, ylabel, curves, extra=""):
    """Plot curves, a list of (label, [(x, y)]).  Return the SVG's name and text,
    or None without gnuplot."""
    curves = [c for c in curves if c[1]]
    if shutil.which("gnuplot") is None or not curves:
        return None
    lines = [f'set title "{title}"', f'set xlabel "{xlabel}"', f'set ylabel "{ylabel}"',
             "set key outside right reverse Left", extra]
    parts = []
    for i, (label, points) in enumerate(curves):
        lines += [f"$d{i} << EOD", *(f"{x} {y}" for x, y in points), "EOD"]
        style = f'linecolor rgb "{COLOURS[i % len(COLOURS)]}" dashtype {i // 5 + 1} linewidth 1.6'
        marks = "lines" if len(points) > 20 else f"linespoints pointtype {i + 1} pointsize 0.8"
        parts.append(f'$d{i} with {marks} {style} title "{label}"')
    return gnuplot(directory, name, {"lines": lines + ["plot " + ", ".join(parts)]})


def bars(directory, name, title, xlabel, head, rows, log=False):
    """Plot horizontal bars, so that names can be read.  rows is a list of
    (label, [value of each of head])."""
    if shutil.which("gnuplot") is None or not rows:
        return None
    rows, n = rows[::-1], len(head)
    lines = [f'set title "{title}"', f'set xlabel "{xlabel}"', "unset grid", "set grid x",
             "set key outside right reverse Left", f"set yrange [-0.6:{len(rows) - 0.4}]",
             "set style fill solid 0.8 noborder", "set xrange [0:*]" if not log else "",
             "set logscale x" if log else "",
             "set ytics (" + ", ".join(f'"{r[0]}" {i}' for i, r in enumerate(rows)) + ")"]
    parts, thick = [], 0.8 / n
    for k in range(n):
        lines += [f"$d{k} << EOD"]
        for i, (_, values) in enumerate(rows):
            if values[k] is not None:
                y = i + 0.4 - thick * (k + 0.5)
                low = 1 if log else 0
                lines.append(f"{values[k]} {y} {low} {values[k]} {y - thick / 2} {y + thick / 2}")
        lines += ["EOD"]
        parts.append(f'$d{k} with boxxyerror linecolor rgb "{COLOURS[k]}" title "{head[k]}"')
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


def io_plots(run, directory):
    kind, names = run["kind"], peers_of(run["io"])
    for job in ("randread 4k depth 1", "randwrite 4k depth 1"):
        curves = [(p, [(x, y) for x, y in cdf(merged_bins(rows)) if y < 0.9999]) for p in names
                  if (rows := rows_of(run["io"], p, job))]
        name = f"{kind}-{job.replace(' ', '-')}"
        yield plot(directory, name, f"Latency, {job} (share of requests that took at most so long)",
                   "microseconds", "share of requests", curves, "set logscale x; set yrange [0:1]")
        yield bars(directory, name + "-bars", f"Latency, {job}", "microseconds (logarithmic)",
                   ["median", "p99"],
                   [(p, [median(rows, k) / US for k in ("p50_ns", "p99_ns")]) for p in names
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
    done = [r for r in run["swap"] if "seconds" in r]
    for program in dict.fromkeys(r["program"] for r in done):
        curves = []
        for p in peers_of(done):
            points = {}
            for r in done:
                if r["peer"] == p and r["program"] == program:
                    points.setdefault(r["local_percent"], []).append(r["seconds"])
            curves.append((p, sorted((x, statistics.median(y)) for x, y in points.items())))
        yield plot(directory, f"swap-{program.replace(' ', '-')}",
                   f"{program}: time by the share of its memory that is local",
                   "% of its memory that is local", "seconds (logarithmic)", curves,
                   "set xrange [100:25]; set xtics (100, 75, 50, 25); set logscale y")
    for percent in (50, 25):
        rows = [(r["peer"], [r["p50"], r["p99"]]) for r in done
                if r["local_percent"] == percent and r["program"] == "touch and verify"
                and r.get("p50")]
        yield bars(directory, f"swap-faults-{percent}", "Page faults at random places, "
                   f"{percent} % local", "microseconds (logarithmic)", ["median", "p99"], rows,
                   log=True)


NOTE = """Each peer was set up, filled, measured and taken down in turn, in every round; figures are \
medians of the rounds, and the rate of each round stands beside them: where those differ much, the machine had \
other work, and a smaller difference between peers says nothing. Both ends are on one machine: the rates rank \
software paths, not networks. Where the RDMA device is soft-RoCE or the machine emulated, they do not rank network \
cards either. NBD servers are loaded by fio's nbd engine, devices by libaio with direct=1: compare within each \
part only. Latency is the whole of a request (fio's lat). "CPU" is processor time a request: the client's and the \
donor's are of their processes, the machine's is all that was not idle, fio, kernel and whatever else ran included; \
what has no process (NVMe-oF, iSER, brd, zram) has it there only. Under swap each program has a cgroup with so \
much of the memory it has at most when it may have all; at 100 % nothing is limited. Swapping to brd and zram takes \
that machine's own memory: they are the floor, not a choice. One run each: the swap figures have no rounds."""

TITLES = {"sockets": "NBD servers on sockets", "devices": "Block devices", "swap":
          "Programs under swap"}


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
    for svg in (swap_plots if run["kind"] == "swap" else io_plots)(run, directory):
        if svg:
            yield "svg", svg
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
