#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Measure what checksums and encryption cost the engine, without NBD
# (sealed-lat.c), over shm and tcp on this machine.
#
#   make -C tests bench/sealed-lat
#   ./run tests/bench/sealed-cost.sh [SECONDS [TRANSPORT...]]

set -eu
# shellcheck source=tests/bench/common
. "$(dirname "$0")/common"
seconds=${1:-10}
transports=(shm tcp)
if [ $# -gt 1 ]; then transports=("${@:2}"); fi
lat=${top_builddir:-.}/tests/bench/sealed-lat
[ -x "$lat" ] || { echo "$lat is not built" >&2; exit 1; }

start test -s "$tmp/a.addr" -- farpage-memserver --size 512M --slab 16M --reserve 0 \
    --listen 127.0.0.1:0 --listen "unix:$tmp/a.usock" --address-file "$tmp/a.addr"
for transport in "${transports[@]}"; do
    if [ "$transport" = shm ]; then addr=unix:$tmp/a.usock
    else addr=$(grep -v '^unix:' "$tmp/a.addr"); fi
    echo "$transport:"
    "$lat" "$transport" "$seconds" "$addr"
done
