#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Prometheus metrics of the memory server and, by 'farpage exporter', of plugins,
# over TCP and over Unix sockets. Each line has the right format, and figures
# follow the I/O. Names match the man pages, the dashboard and the alerts. Rude
# scrapers keep no other scraper from the page.

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
    [ "$(grep -cF -- "$text" "$tmp/err")" = 1 ] || { cat "$tmp/err"; fail "not one '$text': $*"; }
}

# The path of this socket becomes a label, so it has odd characters.
odd="$tmp/a \"b\"\\c"$'\xff'.sock
# Some metrics exist only with --access.
printf '%s\n' "[uid:$(id -u)]" 'quota = 1G' 'volumes = *' 'delete = yes' '[anonymous]' 'volumes = *' >"$tmp/access"
start_memserver m --listen "unix:$tmp/m.sock" --listen "unix:$odd" --size 64M --slab 4M --name donor \
    --reserve 0 --metrics 127.0.0.1:0 --access "$tmp/access"
donor=$(addr_of m)
plugin () # NAME [ARG...]
{
    start_nbdkit "$1" "$FARPAGE_PLUGIN" "$MLOCK" status="$tmp/$1.status" "${@:2}"
}
plugin n server="unix:$tmp/m.sock" size=32M volume=vol

# exporter NAME [ARG...]: start one, and wait until it listens.
exporter ()
{
    local name=$1
    shift
    farpage exporter "$@" >"$tmp/$name.log" 2>&1 &
    cleanup_fn kill -9 $!
    echo $! >"$tmp/$name.pid"
    wait_until 20 grep -q 'metrics are at' "$tmp/$name.log"
}
exporter x --listen "unix:$tmp/x.metrics" --socket "$tmp/n.status"
volume=$(addr_of x)
[ "$volume" = "unix:$tmp/x.metrics" ] || fail "it says '$volume'"
# The labels are the path of the socket: a test may have no /run/farpage.
n="device=\"$tmp/n.status\",volume=\"$tmp/n.status\""

is "$donor" 'farpage_memserver_attached_volumes{transport="shm"}' 1
is "$volume" "farpage_volume_requests_total{$n,op=\"write\"}" 0
is "$volume" "farpage_device_up{$n}" 1
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
    grep -q 'requests_total{.*,op="flush"} 1' "$tmp/volume.page"
}
granted ()
{
    python3 "$metrics" get "$donor" >"$tmp/donor.page"
    grep -q '^farpage_memserver_slabs_granted_total [1-9]' "$tmp/donor.page"
}
wait_until 60 flushed
wait_until 60 granted
grep -q "^farpage_volume_info{$n,name=\"vol\",uuid=\"" "$tmp/volume.page" || fail "no name"
while read -r line; do
    line=${line/\{/\{$n,}
    line=${line/,\}/\}}
    grep -qxF "$line" "$tmp/volume.page" || { cat "$tmp/volume.page"; fail "not $line"; }
done <<'END'
farpage_volume_requests_total{op="write"} 2
farpage_volume_requests_total{op="read"} 1
farpage_volume_requests_total{op="trim"} 1
farpage_volume_requests_total{op="flush"} 1
farpage_volume_bytes_total{op="write"} 12000
farpage_volume_bytes_total{op="read"} 5000
farpage_volume_size_bytes{} 33554432
farpage_volume_allocated_bytes{} 4194304
farpage_volume_extent_copies{state="ready"} 1
farpage_volume_extent_copies{state="empty"} 7
farpage_volume_request_duration_seconds_bucket{op="write",le="+Inf"} 2
farpage_volume_inflight_requests{} 0
END
for sample in 'farpage_memserver_volume_attached{volume="vol",uuid="' \
    'farpage_memserver_slabs_granted_total ' 'farpage_memserver_requests_total{message="open"} 1'; do
    grep -F "$sample" "$tmp/donor.page" | grep -qv ' 0$' || fail "no $sample"
done
# Trimmed slabs go back, and are scrubbed.
wait_until 10 is "$donor" farpage_memserver_scrubbed_bytes_total 4194304
is "$donor" 'farpage_memserver_refused_total{reason="not_found"}' 1 # the probe's LOOKUP

# Each of two copies counts. One exporter asks several plugins. Each family is
# there once. A plugin that is stopped or gone does not affect the others.
start_memserver d --listen "unix:$tmp/d.sock" --size 16M --slab 4M --reserve 0
plugin e "unix:$tmp/m.sock" "unix:$tmp/d.sock" size=4M volume=twice copies=2
"$NBDSH" -u "nbd+unix:///?socket=$tmp/e.sock" -c 'h.pwrite(b"a", 0)'
exporter y --listen 127.0.0.1:0 --socket "$tmp/n.status" --socket "$tmp/e.status"
both=$(addr_of y)
e="device=\"$tmp/e.status\",volume=\"$tmp/e.status\""
wait_until 20 is "$both" "farpage_volume_extent_copies{$e,state=\"ready\"}" 2
is "$both" "farpage_volume_degraded_extents{$e}" 0
python3 "$metrics" get "$both" >"$tmp/both.page"
[ "$(grep -c '^# TYPE farpage_volume_size_bytes ' "$tmp/both.page")" = 1 ] || fail "a family twice"
[ "$(grep -c '^farpage_volume_size_bytes{' "$tmp/both.page")" = 2 ] || fail "not both volumes"
kill -STOP "$(cat "$tmp/e.pid")"
wait_until 20 is "$both" "farpage_device_up{$e}" 0
is "$both" "farpage_device_up{$n}" 1
is "$both" "farpage_volume_size_bytes{$n}" 33554432
farpage exporter --once --socket "$tmp/e.status" >"$tmp/once.page" 2>"$tmp/err" || fail "--once"
grep -qx "farpage_device_up{$e} 0" "$tmp/once.page" || { cat "$tmp/once.page"; fail "--once"; }
grep -q "^farpage: exporter: $tmp/e.status: no answer" "$tmp/err" || { cat "$tmp/err"; fail "--once"; }
kill -CONT "$(cat "$tmp/e.pid")"
wait_until 20 is "$both" "farpage_device_up{$e}" 1
stop "$(cat "$tmp/e.pid")"
wait_until 20 is "$both" "farpage_device_up{$e}" 0
stop "$(cat "$tmp/y.pid")"

# The man pages list exactly the metrics that exist. The dashboard and the alerts
# use no others. These have samples only for devices that are attached.
for family in restarts_total:counter size_bytes:gauge swap_size_bytes:gauge swap_used_bytes:gauge; do
    name=farpage_device_${family%:*}
    grep -q "^# TYPE $name ${family#*:}" "$tmp/volume.page" || fail "no $name"
    "$SED" -i "/^# TYPE $name /a $name{device=\"\",volume=\"\"} 0" "$tmp/volume.page"
done
for page in donor:memserver/farpage-memserver volume:tools/farpage-exporter; do
    python3 "$metrics" table <"$tmp/${page%%:*}.page" >"$tmp/exported"
    "$SED" -n '/^=head1 METRICS/,/^=head1 [^M]/{/^ farpage_/p; /^     [A-Z0-9]/p}' \
        "$top_srcdir/${page#*:}.pod" >"$tmp/documented"
    diff "$tmp/exported" "$tmp/documented" || fail "exported (<) and ${page#*:}.pod (>) differ"
done
cat "$top_srcdir/docs/grafana/farpage.json" "$top_srcdir/docs/prometheus/farpage.rules.yml" |
    grep -oE 'farpage_[a-z_]+' | "$SED" 's/_seconds_bucket$/_seconds/' | sort -u >"$tmp/asked"
"$SED" -n 's/^# TYPE \([^ ]*\) .*/\1/p' "$tmp"/*.page | sort -u >"$tmp/names"
[ "$(wc -l <"$tmp/asked")" -ge 20 ] || fail "no dashboard"
comm -23 "$tmp/asked" "$tmp/names" >"$tmp/unknown"
[ ! -s "$tmp/unknown" ] || fail "the dashboard or the alerts ask for $(cat "$tmp/unknown")"
python3 -m json.tool "$top_srcdir/docs/grafana/farpage.json" "$tmp/json" || fail "the dashboard is no JSON"

# Run rude scrapers against both. They leave no descriptor open.
fds () { find "/proc/$(cat "$tmp/m.pid")/fd" "/proc/$(cat "$tmp/x.pid")/fd" -mindepth 1 | wc -l; }
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
refused 1 "metrics: $donor: Address already in use" farpage exporter --listen "$donor"
refused 1 "metrics: $volume: Address already in use" farpage exporter --listen "$volume"
refused 1 'the file is not a socket: remove it' farpage exporter --listen "unix:$tmp/file"
[ -f "$tmp/file" ] || fail "the file is gone"
refused 2 'a port is needed' farpage exporter --listen localhost

# The exporter replaces a socket that was left behind, and removes its own at
# the end. A memory server takes the address from its configuration file, and
# serves its metrics over a Unix socket.
printf '%s\n' 'size = 8M' 'slab = 4M' 'reserve = 0' "metrics = unix:$tmp/c.metrics" >"$tmp/conf"
start_memserver c --config "$tmp/conf"
is "unix:$tmp/c.metrics" 'farpage_memserver_slab_size_bytes' 4194304
stop "$(cat "$tmp/c.pid")"
[ ! -e "$tmp/c.metrics" ] || fail "c.metrics was left behind"
kill_9 "$(cat "$tmp/x.pid")"
[ -S "$tmp/x.metrics" ] || fail "no socket to replace"
plugin b "unix:$odd" size=4M
exporter x --listen "unix:$tmp/x.metrics" --socket "$tmp/b.status"
python3 "$metrics" get "$volume" >"$tmp/odd.page"
# Quotes in a label are escaped. A byte that is not UTF-8 is replaced.
grep -qF "server=\"unix:$tmp/a \\\"b\\\"\\\\c?.sock\"} 1" "$tmp/odd.page" ||
    { grep server_up "$tmp/odd.page"; fail "the label is wrong"; }
stop "$(cat "$tmp/x.pid")"
[ ! -e "$tmp/x.metrics" ] || fail "x.metrics was left behind"

# A plugin that gets the removed parameter metrics= starts, and warns.
plugin old "unix:$tmp/m.sock" size=4M metrics=127.0.0.1:0
grep -q 'metrics= has no effect any more' "$tmp/old.log" || fail "no warning"
