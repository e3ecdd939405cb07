#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Soak test: fio writes and verifies a volume of two copies on three memory
# servers. Every 5 to 20 s there is a fault. One server is killed, told to stop,
# frozen for a while, or drained. Or the client is hit, in one of these ways:
#   - its network to all servers is cut for 2 to 15 s;
#   - nbdkit is stopped for 1 to 15 s;
#   - nbdkit and fio are suspended for 35 to 60 s, longer than their lease.
# A server that was killed or told to stop comes back on its address. Its memory
# is empty, except that of c, which has --backing. There is one fault at a time:
# the next one waits until no extent lacks a copy. The network is cut only over
# tcp on 127.0.0.1 as root, with the servers in a network namespace of their
# own.
#
# A line is printed each minute. The test fails if fio or the volume has an
# error, or if a program ends. It also fails if nbdkit grows from the first ten
# minutes to the last ten.
#
#   ./run tests/bench/soak.sh [tcp|shm|rdma [SECONDS [SEED [ADDRESS]]]]
#
# ADDRESS is where the servers listen. For rdma, it must be that of an RDMA
# device, whose queue pairs and MRs are counted, too.

set -eu
# shellcheck source=tests/bench/common
. "$(dirname "$0")/common"
transport=${1:-tcp}
seconds=${2:-7200}
seed=${3:-$RANDOM}
address=${4:-127.0.0.1}
echo "transport=$transport seconds=$seconds seed=$seed"
RANDOM=$seed

mib=64
names=(a b c)
at_most_whole=120 # limit until all copies are back, seconds
# Size of one loop of fio, which verifies as it goes and ends by itself.
if [ "$seconds" -ge 600 ]; then io=24M; else io=2M; fi
mlock=false
if [ "$(id -u)" = 0 ] && [ -z "${LD_PRELOAD:-}" ]; then mlock=true; fi

kinds=(kill term freeze drain stop)
if [ "$seconds" -ge 600 ]; then kinds+=(suspend); fi
there=() # prefix of a command that runs a server
cable=fps$$
declare -A pid=() addr=() index=() faults=()
frozen=()
backing=$(mktemp -d /dev/shm/farpage-soak.XXXXXX)

finish ()
{
    local status=$?
    trap '' INT TERM
    : >"$tmp/enough"
    # A frozen process would not react to SIGTERM.
    if [ ${#frozen[@]} -gt 0 ]; then kill -CONT "${frozen[@]}" 2>/dev/null || :; fi
    if [ $status != 0 ]; then
        for log in a b c nbdkit; do
            echo "== $log.log"
            tail -n 100 "$tmp/$log.log"
        done
    fi
    # Stop the jobs before their directories are removed.
    end
    rm -rf "$backing"
    if [ ${#there[@]} -gt 0 ]; then ip netns del "$cable"; fi
    exit $status
}
trap finish EXIT

say () { printf '%(%F %T)T %s\n' -1 "$*"; }
fail () { say "FAIL: $*"; exit 1; }

# serve NAME: start that server, on the same address each time.
serve ()
{
    local name=$1 args=() i until=$((SECONDS + 30))
    if [ "$name" = c ]; then args=(--backing "$backing/c"); fi
    "${there[@]}" farpage-memserver --size $((2 * mib))M --slab 2M --reserve 0 --insecure \
        --listen "${listen[$name]:-$address:0}" --listen "unix:$tmp/$name.usock" \
        --address-file "$tmp/$name.addr" "${args[@]}" >>"$tmp/$name.log" 2>&1 &
    pid[$name]=$!
    if [ -z "${index[$name]:-}" ]; then index[$name]=${#pids[@]}; fi
    i=${index[$name]}
    pids[i]=$!
    until [ -s "$tmp/$name.addr" ]; do
        kill -0 "${pid[$name]}" 2>/dev/null || fail "server $name did not start"
        [ $SECONDS -lt $until ] || fail "server $name did not start within 30 s"
        sleep 0.02
    done
}

if [ "$transport" = tcp ] && [ "$address" = 127.0.0.1 ] && [ "$(id -u)" = 0 ] &&
    ip netns add "$cable"; then
    there=(ip netns exec "$cable")
    net=10.$((64 + $$ / 256 % 64)).$(($$ % 256))
    address=$net.2
    ip link add "$cable" type veth peer name there netns "$cable"
    ip addr add $net.1/24 dev "$cable"
    ip link set "$cable" up
    ip -n "$cable" addr add $address/24 dev there
    ip -n "$cable" link set there up
    kinds+=(cut)
fi
for kind in "${kinds[@]}"; do faults[$kind]=0; done

declare -A listen=()
for n in "${names[@]}"; do
    serve "$n"
    listen[$n]=$(grep -v '^unix:' "$tmp/$n.addr")
    if [ "$transport" = shm ]; then addr[$n]=unix:$tmp/$n.usock
    else addr[$n]=${listen[$n]}; fi
done
# fio has no timeout, so a request may wait as long as the client is suspended.
uri="nbd+unix:///?socket=$tmp/nbd"
nbdkit -f -U "$tmp/nbd" "$FARPAGE_PLUGIN" "${addr[a]}" "${addr[b]}" "${addr[c]}" \
    volume=soak size=${mib}M copies=2 rebuild-delay=2 transport="$transport" connections=2 \
    await=120000 mlock=$mlock status="$tmp/status" >"$tmp/nbdkit.log" 2>&1 &
nbdkit=$!
pids+=("$nbdkit")
wait_for nbdinfo --size "$uri"

status () { farpage status --socket "$tmp/status" --json; }
whole ()
{
    status | jq -e '.volume.extents_degraded == 0 and all(.servers[]; .state == "up")' \
        >"$tmp/whole" 2>&1
}
reconnects () { status | jq ".servers[] | select(.addr == \"${addr[$1]}\") | .reconnects"; }
# back NAME COUNT: return true if the client has reconnected to NAME more than
# COUNT times.
back () { [ "$(reconnects "$1")" -gt "$2" ]; }

# ---- load ----

# Write the second half once, and only read it afterwards: data at rest must
# survive, too.
fio --name=rest --ioengine=nbd --uri="$uri" --rw=write --bs=64k --offset=$((mib / 2))M \
    --size=$((mib / 2))M --verify=crc32c --do_verify=0 --thread >"$tmp/fio.log" 2>&1 ||
    { cat "$tmp/fio.log"; fail "fio could not write"; }

: >"$tmp/loops"
load ()
{
    local i=0
    trap - EXIT
    while [ ! -e "$tmp/enough" ]; do
        i=$((i + 1))
        fio --output-format=json --output="$tmp/fio.out" --ioengine=nbd --uri="$uri" --thread \
            --verify=crc32c --verify_fatal=1 --verify_dump=0 --exitall_on_error=1 \
            --randseed=$((seed * 1000 + i)) \
            --name=hot --rw=randrw --bssplit=4k/85:16k/10:64k/5 --size=$((mib / 2))M \
            --io_size=$io --iodepth=4 --verify_backlog=64 --rate_iops=60,60 \
            --name=rest --rw=randread --bs=64k --offset=$((mib / 2))M --size=$((mib / 2))M \
            --io_size=$io --rate_iops=8 >"$tmp/fio.log" 2>&1 ||
            { echo "fio loop $i: exit status $?"; cat "$tmp/fio.log" "$tmp/fio.out"; return 1; }
        sed -n '/^{/,$p' "$tmp/fio.out" | jq -r '[([.jobs[].error] | add),
            ([.jobs[] | .total_err // 0] | add), ([.jobs[] | .read.total_ios + .write.total_ios] | add),
            ([.jobs[] | .read.lat_ns.max, .write.lat_ns.max] | max / 1000000 | floor)] |
            map(tostring) | join(" ")' >>"$tmp/loops"
    done
}
load >"$tmp/load.log" 2>&1 &
load=$!
pids+=("$load")

# ---- measurements ----

# proc PID: set rss and lck (KiB), fds and threads, without starting a process.
proc ()
{
    local key value rest f
    rss=0 lck=0 threads=0
    while read -r key value rest; do
        case $key in
        VmRSS:) rss=$value ;;
        VmLck:) lck=$value ;;
        Threads:) threads=$value ;;
        esac
    done <"/proc/$1/status" 2>/dev/null || :
    f=("/proc/$1/fd"/*)
    fds=${#f[@]}
}
max_rss=() max_lck=() max_fds=() max_threads=() max_qps=() max_mrs=()
minute=0
began=$SECONDS
whole_max=0

# tick: check that all programs run, and note the maxima of this minute.
tick ()
{
    local n
    kill -0 $nbdkit 2>/dev/null || fail "nbdkit ended"
    for n in "${names[@]}"; do
        kill -0 "${pid[$n]}" 2>/dev/null || fail "server $n ended"
    done
    kill -0 "$load" 2>/dev/null || { cat "$tmp/load.log"; fail "fio failed"; }
    proc $nbdkit
    if [ "$rss" -gt "${max_rss[minute]:-0}" ]; then max_rss[minute]=$rss; fi
    if [ "$lck" -gt "${max_lck[minute]:-0}" ]; then max_lck[minute]=$lck; fi
    if [ "$fds" -gt "${max_fds[minute]:-0}" ]; then max_fds[minute]=$fds; fi
    if [ "$threads" -gt "${max_threads[minute]:-0}" ]; then max_threads[minute]=$threads; fi
    if [ $((SECONDS - began)) -ge $(((minute + 1) * 60)) ]; then
        line
        minute=$((minute + 1))
    fi
}

line ()
{
    local n servers='' volume objects='' qps mrs
    for n in "${names[@]}"; do
        proc "${pid[$n]}"
        servers+=" $n=$rss/$lck/$fds/$threads"
    done
    if [ "$transport" = rdma ]; then
        # Count those of all programs.
        read -r qps mrs < <(rdma resource show | awk '
            { for (i = 1; i < NF; i++) { if ($i == "qp") q += $(i + 1); if ($i == "mr") m += $(i + 1) } }
            END { print q + 0, m + 0 }')
        max_qps[minute]=$qps max_mrs[minute]=$mrs
        objects="queue pairs/MRs=$qps/$mrs"
    fi
    volume=$(status | jq -r '"errors=\(.volume.errors) reads=\(.volume.reads) writes=\(
        .volume.writes) lost=\(.volume.extents_lost) reconnects=\([.servers[].reconnects] | add)"')
    say "faults:$(for n in "${kinds[@]}"; do printf ' %s=%d' "$n" "${faults[$n]}"; done);" \
        "rss/lck/fds/threads:" \
        "nbdkit=${max_rss[minute]:-0}/${max_lck[minute]:-0}/${max_fds[minute]:-0}/${max_threads[minute]:-0}$servers;" \
        "fio: $(awk '{ e += $1 + $2; n += $3; if ($4 > m) m = $4 }
            END { printf "loops=%d errors=%d ios=%d max-ms=%d", NR, e, n, m }' "$tmp/loops");" \
        "volume: $volume;${objects:+ $objects;} whole after at most $whole_max s"
    [[ " $volume " = *" errors=0 "* && " $volume " = *" lost=0 "* ]] ||
        fail "errors of the volume: $volume"
    if grep -qvE '^0 0 ' "$tmp/loops"; then fail "errors of fio: $(tail -n 3 "$tmp/loops")"; fi
}

# rest SECONDS: tick for that long. SECONDS may have decimals.
rest ()
{
    local until=$((${EPOCHREALTIME/./} + $(awk "BEGIN { printf \"%d\", $1 * 1000000 }")))
    while [ "${EPOCHREALTIME/./}" -lt $until ]; do
        tick
        sleep 0.5
    done
}
await () # CMD...
{
    local until=$((SECONDS + at_most_whole))
    until "$@"; do
        [ $SECONDS -lt $until ] || { status; fail "not within $at_most_whole s: $*"; }
        tick
        sleep 0.3
    done
}

# ---- faults ----

# gone NAME SIGNAL: end the server, and start it again after up to 4 s. Wait
# until the client has reconnected.
gone ()
{
    local n=$1 before status=0
    before=$(reconnects "$n")
    rm -f "$tmp/$n.addr"
    kill "-$2" "${pid[$n]}"
    wait "${pid[$n]}" 2>"$tmp/wait.err" || status=$?
    # 143: the signal came before the server had a handler for it.
    case $2$status in
    KILL137|TERM0|TERM143) ;;
    *) fail "server $n: exit status $status after SIG$2" ;;
    esac
    sleep "$((RANDOM % 4)).$((RANDOM % 10))"
    serve "$n"
    await back "$n" "$before"
}
freeze ()
{
    halt "$((RANDOM % 5)).$((2 + RANDOM % 8))" "${pid[$1]}"
}
# halt SECONDS PID...: stop these processes for that long.
halt ()
{
    local s=$1
    shift
    frozen=("$@")
    kill -STOP "$@"
    sleep "$s"
    kill -CONT "$@"
    frozen=()
}
stop () { halt "$((1 + RANDOM % 15)).$((RANDOM % 10))" $nbdkit; }
suspend ()
{
    local fio
    mapfile -t fio < <(pgrep -P "$load" -x fio)
    halt $((35 + RANDOM % 26)) $nbdkit "${fio[@]}"
}
cut ()
{
    ip link set "$cable" down
    sleep "$((2 + RANDOM % 14)).$((RANDOM % 10))"
    ip link set "$cable" up
}
drain ()
{
    local n=$1 job status=0
    farpage drain --rate $((4 + RANDOM % 28))M "$tmp/status" "${addr[$n]}" >"$tmp/drain" 2>&1 &
    job=$!
    sleep "$((RANDOM % 4)).$((RANDOM % 10))"
    kill -INT $job 2>/dev/null || : # the drain may have ended
    wait $job || status=$?
    case $status in
    0) farpage drain --cancel "$tmp/status" "${addr[$n]}" >>"$tmp/drain" 2>&1 ||
        { cat "$tmp/drain"; fail "the drain of $n could not be cancelled"; } ;;
    # After another fault the other servers may have no room yet. That is no
    # error.
    1) grep -qE 'missing|cancelled' "$tmp/drain" || { cat "$tmp/drain"; fail "drain of $n"; } ;;
    130) ;; # interrupted before it asked for the drain
    *) cat "$tmp/drain"; fail "drain of $n: exit status $status" ;;
    esac
}

await whole
while [ $((SECONDS - began)) -lt "$seconds" ]; do
    next=$((SECONDS + 5 + RANDOM % 16))
    n=${names[RANDOM % 3]}
    kind=${kinds[RANDOM % ${#kinds[@]}]}
    hurt=$SECONDS
    case $kind in
    kill) gone "$n" KILL ;;
    term) gone "$n" TERM ;;
    freeze) freeze "$n" ;;
    drain) drain "$n" ;;
    *) $kind ;;
    esac
    faults[$kind]=$((faults[$kind] + 1))
    await whole
    if [ $((SECONDS - hurt)) -gt $whole_max ]; then whole_max=$((SECONDS - hurt)); fi
    while [ $SECONDS -lt $next ] && [ $((SECONDS - began)) -lt "$seconds" ]; do rest 1; done
    # The client may notice a freeze late.
    await whole
done

: >"$tmp/enough"
until=$((SECONDS + 600))
while kill -0 "$load" 2>/dev/null; do
    [ $SECONDS -lt $until ] || fail "fio does not end"
    sleep 0.5
done
wait "$load" || { cat "$tmp/load.log"; fail "fio failed"; }
load=''
kill -0 $nbdkit || fail "nbdkit ended"
line

# ---- growth ----

# most FROM COUNT VALUE...: print the largest of COUNT values after the first
# FROM.
most ()
{
    local from=$1 count=$2
    shift 2
    printf '%s\n' "${@:from + 1:count}" | sort -n | tail -n 1
}
# grown WHAT ALLOWED VALUE...: fail if the values, one a minute, grew by more
# than ALLOWED.
grown ()
{
    local what=$1 allowed=$2 first last
    shift 2
    first=$(most 0 10 "$@")
    last=$(most $(($# - 10)) 10 "$@")
    say "$what: at most $first in the first ten minutes, $last in the last ten"
    if [ "$last" -gt $((first + allowed)) ]; then fail "$what grew"; fi
}
if [ $minute -ge 20 ]; then
    grown 'rss, KiB' 2048 "${max_rss[@]:0:minute}"
    grown 'locked, KiB' 2048 "${max_lck[@]:0:minute}"
    # Allow for status requests that come at the same time.
    grown descriptors 3 "${max_fds[@]:0:minute}"
    grown threads 3 "${max_threads[@]:0:minute}"
    if [ "$transport" = rdma ]; then
        grown 'queue pairs' 3 "${max_qps[@]:0:minute}"
        grown MRs 3 "${max_mrs[@]:0:minute}"
    fi
else
    say "too short to tell growth"
fi
say "ok"
