#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Prometheus metrics of the memory server and of the plugin, over TCP and over
# Unix sockets. Each line has the right format, and figures follow the I/O.
# Names match the man pages and the dashboard. Rude scrapers keep no other
# scraper from the page.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"

requires python3 --version
[ "$NBDSH" != no ] || skip "no nbdsh (Debian: python3-libnbd)"
metrics=$top_srcdir/tests/integration/metrics.py

# is ADDR SAMPLE VALUE: succeed if the sample has this value.
is () { [ "$(python3 "$metrics" value "$1" "$2")" = "$3" ]; }

# addr_of NAME: print the address of the metrics from the log of NAME.
addr_of () { "$SED" -n 's/.*metrics are at //p' "$tmp/$1.log"; }

# refused STATUS TEXT CMD...: check the exit status, and that one line has TEXT.
refused ()
{
    local expected=$1 text=$2 status=0
    shift 2
    timeout 60 "$@" >"$tmp/out" 2>"$tmp/err" || status=$?
    [ $status = "$expected" ] || { cat "$tmp/err"; fail "exit $status: $*"; }
    grep -qF -- "$text" "$tmp/err" || { cat "$tmp/err"; fail "no '$text': $*"; }
    [ "$(grep -c metrics "$tmp/err")" = 1 ] || { cat "$tmp/err"; fail "not one line"; }
}

# The path of this socket becomes a label, so it has odd characters.
odd="$tmp/a \"b\"\\c"$'\xff'.sock
# Some metrics exist only with --access.
printf '%s\n' "[uid:$(id -u)]" 'quota = 1G' 'volumes = *' 'delete = yes' '[anonymous]' 'volumes = *' >"$tmp/access"
start_memserver m --listen "unix:$tmp/m.sock" --listen "unix:$odd" --size 64M --slab 4M --name donor \
    --reserve 0 --metrics 127.0.0.1:0 --access "$tmp/access"
donor=$(addr_of m)
start_nbdkit n "$FARPAGE_PLUGIN" server="unix:$tmp/m.sock" size=32M "$MLOCK" \
    volume=vol metrics="unix:$tmp/n.metrics"
volume=$(addr_of n)
[ "$volume" = "unix:$tmp/n.metrics" ] || fail "the log says '$volume'"

is "$donor" 'farpage_memserver_attached_volumes{transport="shm"}' 1
is "$volume" 'farpage_volume_requests_total{volume="vol",op="write"}' 0
"$NBDSH" -u "nbd+unix:///?socket=$tmp/n.sock" -c '
h.pwrite(b"a" * 10000, 0)
h.pwrite(b"a" * 2000, 20 << 20)
h.pread(5000, 0)
h.flush()
h.trim(4 << 20, 20 << 20)
try:
    h.pread(1, 32 << 20)
except nbd.Error:
    pass
'
# A page is cached, for longer if it took long to write. So poll.
flushed ()
{
    python3 "$metrics" get "$volume" >"$tmp/volume.page"
    grep -q 'requests_total{volume="vol",op="flush"} 1' "$tmp/volume.page"
}
granted ()
{
    python3 "$metrics" get "$donor" >"$tmp/donor.page"
    grep -q '^farpage_memserver_slabs_granted_total [1-9]' "$tmp/donor.page"
}
wait_until 60 flushed
wait_until 60 granted
while read -r line; do
    grep -qxF "$line" "$tmp/volume.page" || { cat "$tmp/volume.page"; fail "not $line"; }
done <<'END'
farpage_volume_requests_total{volume="vol",op="write"} 2
farpage_volume_requests_total{volume="vol",op="read"} 1
farpage_volume_requests_total{volume="vol",op="trim"} 1
farpage_volume_requests_total{volume="vol",op="flush"} 1
farpage_volume_bytes_total{volume="vol",op="write"} 12000
farpage_volume_bytes_total{volume="vol",op="read"} 5000
farpage_volume_size_bytes{volume="vol"} 33554432
farpage_volume_allocated_bytes{volume="vol"} 4194304
farpage_volume_extent_copies{volume="vol",state="ready"} 1
farpage_volume_extent_copies{volume="vol",state="empty"} 7
farpage_volume_request_duration_seconds_bucket{volume="vol",op="write",le="+Inf"} 2
farpage_volume_inflight_requests{volume="vol"} 0
END
for sample in 'farpage_memserver_volume_attached{volume="vol",uuid="' \
    'farpage_memserver_slabs_granted_total ' 'farpage_memserver_requests_total{message="open"} 1'; do
    grep -F "$sample" "$tmp/donor.page" | grep -qv ' 0$' || fail "no $sample"
done
# Trimmed slabs go back, and are scrubbed.
wait_until 10 is "$donor" farpage_memserver_scrubbed_bytes_total 4194304
is "$donor" 'farpage_memserver_refused_total{reason="not_found"}' 1 # the probe's LOOKUP

# Each of two copies counts.
start_memserver d --listen "unix:$tmp/d.sock" --size 16M --slab 4M --reserve 0
start_nbdkit e "$FARPAGE_PLUGIN" "unix:$tmp/m.sock" "unix:$tmp/d.sock" size=4M "$MLOCK" \
    volume=twice copies=2 metrics=127.0.0.1:0
"$NBDSH" -u "nbd+unix:///?socket=$tmp/e.sock" -c 'h.pwrite(b"a", 0)'
wait_until 20 is "$(addr_of e)" 'farpage_volume_extent_copies{volume="twice",state="ready"}' 2
is "$(addr_of e)" 'farpage_volume_degraded_extents{volume="twice"}' 0
stop "$(cat "$tmp/e.pid")"

# The man pages list exactly the metrics that exist. The dashboard uses no
# others.
for page in donor:memserver/farpage-memserver volume:nbdkit-plugin/nbdkit-farpage-plugin; do
    python3 "$metrics" table <"$tmp/${page%%:*}.page" >"$tmp/exported"
    "$SED" -n '/^=head1 METRICS/,/^=head1 [^M]/{/^ farpage_/p; /^     [A-Z0-9]/p}' \
        "$top_srcdir/${page#*:}.pod" >"$tmp/documented"
    diff "$tmp/exported" "$tmp/documented" || fail "exported (<) and ${page#*:}.pod (>) differ"
done
grep -oE '"expr": .*' "$top_srcdir/docs/grafana/farpage.json" |
    grep -oE 'farpage_[a-z_]+' | "$SED" 's/_seconds_bucket$/_seconds/' | sort -u >"$tmp/asked"
"$SED" -n 's/^# TYPE \([^ ]*\) .*/\1/p' "$tmp"/*.page | sort -u >"$tmp/names"
[ "$(wc -l <"$tmp/asked")" -ge 20 ] || fail "no dashboard"
comm -23 "$tmp/asked" "$tmp/names" >"$tmp/unknown"
[ ! -s "$tmp/unknown" ] || fail "the dashboard asks for $(cat "$tmp/unknown")"
python3 -m json.tool "$top_srcdir/docs/grafana/farpage.json" "$tmp/json" || fail "the dashboard is no JSON"

# Run rude scrapers against both. They leave no descriptor open.
fds () { find "/proc/$(cat "$tmp/m.pid")/fd" -mindepth 1 | wc -l; }
before=$(fds)
few_fds () { [ "$(fds)" -le "$before" ]; }
timeout 120 python3 "$metrics" rude "$donor" &
rude=$!
timeout 120 python3 "$metrics" rude "$volume"
wait $rude
wait_until 20 few_fds

# Both programs refuse an address that they cannot use, at start-up.
: >"$tmp/file"
refused 1 "metrics: $donor: Address already in use" farpage-memserver --size 4M --slab 4M \
    --reserve 0 --listen "unix:$tmp/x.sock" --metrics "$donor"
plugin=("${nbdkit_cmd[@]}" -U - "$FARPAGE_PLUGIN" "unix:$tmp/m.sock" size=4M "$MLOCK")
refused 1 "metrics: $donor: Address already in use" "${plugin[@]}" "metrics=$donor" --run true
refused 1 "metrics: $volume: Address already in use" "${plugin[@]}" "metrics=$volume" --run true
refused 1 'the file is not a socket: remove it' "${plugin[@]}" "metrics=unix:$tmp/file" --run true
[ -f "$tmp/file" ] || fail "it was not left alone"
# If start-up fails after that, the socket is removed.
if "${nbdkit_cmd[@]}" -U - "$FARPAGE_PLUGIN" "unix:$tmp/nobody.sock" size=4M "$MLOCK" \
    "metrics=unix:$tmp/z.metrics" --run true 2>"$tmp/err"
then fail "started without a server"; fi
[ ! -e "$tmp/z.metrics" ] || fail "z.metrics was left behind"

# The plugin serves metrics in the background, too. It replaces a socket that
# was left behind, and removes its own at the end. A memory server takes the
# address from its configuration file, and serves them over a Unix socket.
printf '%s\n' 'size = 8M' 'slab = 4M' 'reserve = 0' "metrics = unix:$tmp/c.metrics" >"$tmp/conf"
start_memserver c --config "$tmp/conf"
is "unix:$tmp/c.metrics" 'farpage_memserver_slab_size_bytes' 4194304
stop "$(cat "$tmp/c.pid")"
[ ! -e "$tmp/c.metrics" ] || fail "c.metrics was left behind"
kill_9 "$(cat "$tmp/n.pid")"
[ -S "$tmp/n.metrics" ] || fail "no socket to replace"
"${nbdkit_cmd[@]}" -U "$tmp/b.sock" -P "$tmp/b.pid" "$FARPAGE_PLUGIN" "unix:$odd" size=4M \
    "$MLOCK" "metrics=unix:$tmp/n.metrics"
b=$(pid_in "$tmp/b.pid")
cleanup_fn stop "$b"
python3 "$metrics" get "$volume" >"$tmp/odd.page" || fail "not in the background"
# Quotes in a label are escaped. A byte that is not UTF-8 is replaced.
grep -qF "server=\"unix:$tmp/a \\\"b\\\"\\\\c?.sock\"} 1" "$tmp/odd.page" ||
    { grep server_up "$tmp/odd.page"; fail "the label is wrong"; }
stop "$b"
[ ! -e "$tmp/n.metrics" ] || fail "n.metrics was left behind"
