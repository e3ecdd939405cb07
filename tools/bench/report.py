# SPDX-License-Identifier: BSD-3-Clause
"""Writes what was measured as report.md and as report.html, one file with its
plots in it; gnuplot draws them.  Reads nothing but the results."""

import html
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
    """One table a job: medians of the rounds, and all the rounds' rates."""
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
    lines = [[r["peer"], r["program"], f"{r['local_percent']} %", f"{r['seconds']:.1f}",
              r.get("fault", "")] for r in run["swap"]]
    return table(["swap on", "program", "local memory", "seconds", "page faults, us"], lines)


def plot(directory, name, title, xlabel, ylabel, curves, extra=""):
    """curves: (label, [(x, y)]).  Returns the SVG's text, or None without gnuplot."""
    if shutil.which("gnuplot") is None or not any(points for _, points in curves):
        return None
    script = [f'set terminal svg size 860,460 dynamic background rgb "white" font "sans,12"',
              f'set output "{name}.svg"', f'set title "{title}"',
              f'set xlabel "{xlabel}"', f'set ylabel "{ylabel}"', "set grid",
              "set key outside right", extra]
    parts = []
    for i, (label, points) in enumerate(c for c in curves if c[1]):
        with open(os.path.join(directory, f"{name}.{i}.dat"), "w", encoding="ascii") as f:
            f.writelines(f"{x} {y}\n" for x, y in points)
        parts.append(f'"{name}.{i}.dat" with linespoints pointsize 0.4 title "{label}"')
    script.append("plot " + ", ".join(parts))
    subprocess.run(["gnuplot"], input="\n".join(script), text=True, check=True, cwd=directory)
    with open(os.path.join(directory, f"{name}.svg"), encoding="utf-8") as f:
        return f.read()


def cdf(bins):
    """From fio's bins (ns -> count) to (us, share)."""
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


def plots(run, directory):
    peers = peers_of(run["io"])
    for job in ("randread 4k depth 1", "randwrite 4k depth 1"):
        curves = [(p, cdf(merged_bins(rows_of(run["io"], p, job)))) for p in peers
                  if rows_of(run["io"], p, job)]
        yield plot(directory, job.replace(" ", "-"), f"Latency, {job}", "us", "share of requests",
                   curves, "set logscale x")
    depths = sorted(int(j.rsplit(" ", 1)[1]) for j in run["jobs"] if j.startswith("randread 4k "))
    curves = []
    for p in peers:
        points = [(d, median(rows, "iops")) for d in depths
                  if (rows := rows_of(run["io"], p, f"randread 4k depth {d}"))]
        curves.append((p, points))
    if len(depths) > 1:
        yield plot(directory, "iops-by-depth", "4 KiB random reads by depth", "depth", "IOPS", curves,
                   "set logscale x 2; set yrange [0:*]")
    for program in dict.fromkeys(r["program"] for r in run["swap"]):
        curves = []
        for p in peers_of(run["swap"]):
            points = {}
            for r in run["swap"]:
                if r["peer"] == p and r["program"] == program:
                    points.setdefault(r["local_percent"], []).append(r["seconds"])
            curves.append((p, sorted((x, statistics.median(y)) for x, y in points.items())))
        yield plot(directory, f"swap-{program}", f"{program}: time by local memory",
                   "% of its memory that is local", "seconds", curves,
                   "set xrange [100:0] ; set yrange [0:*]")


NOTE = """Each peer was set up, filled, measured and taken down in turn, in every round; figures are
medians of the rounds. Both ends are on one machine: the rates rank software paths, not networks. \
Where the RDMA device is soft-RoCE or the machine emulated, they do not rank network cards either. \
NBD servers are loaded by fio's nbd engine, devices by libaio with direct=1: compare within each kind. \
"CPU" is processor time a request; the client's and the donor's are of their processes, the machine's is all \
that was not idle, fio and kernel included."""


def write(run, directory):
    svgs = [s for s in plots(run, directory) if s]
    facts = "\n".join(f"* {k}: {v}" for k, v in run["machine"].items())
    skipped = "\n".join(f"* {k}: {v}" for k, v in run["left_out"].items())
    md = [f"# farpage and its peers, {run['date']}", facts, NOTE]
    if skipped:
        md += ["Left out:", skipped]
    for job, text in job_tables(run):
        md += [f"## {job}", text]
    if run["swap"]:
        md += ["## Programs under swap", swap_table(run)]
    if not svgs:
        md.append("No plots: gnuplot is not installed.")
    with open(os.path.join(directory, "report.md"), "w", encoding="utf-8") as f:
        f.write("\n\n".join(md) + "\n")
    with open(os.path.join(directory, "report.html"), "w", encoding="utf-8") as f:
        f.write(page(run, svgs))


def html_table(text):
    lines = [[html.escape(c.strip()) for c in row.strip("|").split("|")]
             for row in text.splitlines()]
    head = "".join(f"<th>{c}</th>" for c in lines[0])
    body = "".join("<tr>" + "".join(f"<td>{c}</td>" for c in row) + "</tr>" for row in lines[2:])
    return f"<table><tr>{head}</tr>{body}</table>"


def page(run, svgs):
    title = f"farpage and its peers, {run['date']}"
    items = [f"<h1>{title}</h1><ul>"]
    items += [f"<li>{html.escape(k)}: {html.escape(str(v))}</li>"
              for k, v in run["machine"].items()]
    items.append(f"</ul><p>{html.escape(NOTE)}</p>")
    if run["left_out"]:
        items.append("<p>Left out:</p><ul>" + "".join(
            f"<li>{html.escape(k)}: {html.escape(v)}</li>"
            for k, v in run["left_out"].items()) + "</ul>")
    # gnuplot's XML declaration has no place inside a page.
    items += [s[s.index("<svg"):] for s in svgs]
    for job, text in job_tables(run):
        items.append(f"<h2>{job}</h2>{html_table(text)}")
    if run["swap"]:
        items.append(f"<h2>Programs under swap</h2>{html_table(swap_table(run))}")
    style = ("body{font-family:sans-serif;max-width:75em;margin:2em auto}"
             "table{border-collapse:collapse}td,th{border:1px solid #aaa;padding:.2em .5em;"
             "text-align:right}td:first-child,th:first-child{text-align:left}")
    return (f"<!DOCTYPE html><html lang=en><head><meta charset=utf-8><title>{title}</title>"
            f"<style>{style}</style></head><body>{''.join(items)}</body></html>\n")
