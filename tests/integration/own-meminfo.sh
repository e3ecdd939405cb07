# SPDX-License-Identifier: BSD-3-Clause
# Sourced in place of functions.sh by tests that need a host short of memory.
# Sources functions.sh in a mount namespace of the test's own, where the test
# decides what /proc/meminfo says.

# shellcheck shell=bash disable=SC2034 # used by the scripts that source this

# In a user namespace, CAP_IPC_LOCK gives no right to lock memory. Drop it, so
# that programs do not rely on it.
_ns=(unshare -m)
[ "$(id -u)" = 0 ] || _ns=(unshare -rm setpriv --bounding-set=-ipc_lock)
if [ -z "${FARPAGE_OWN_MEMINFO:-}" ] && "${_ns[@]}" true 2>/dev/null; then
    FARPAGE_OWN_MEMINFO=1 exec "${_ns[@]}" "$0"
fi
# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"
[ -n "${FARPAGE_OWN_MEMINFO:-}" ] || skip "no mount namespace for this user"

# available MIB: make this much memory available from here on.
available ()
{
    sed "s/^MemAvailable:.*/MemAvailable: $(($1 * 1024)) kB/" "$tmp/real" >"$tmp/new"
    cat "$tmp/new" >"$tmp/meminfo" # keep the file: it is mounted
}
# stalled US: set how long tasks have waited for memory in total.
stalled () { echo "some avg10=0.00 avg60=0.00 avg300=0.00 total=$1" >"$tmp/psi"; }

cp /proc/meminfo "$tmp/real"
touch "$tmp/meminfo"
available 4096
mount --bind "$tmp/meminfo" /proc/meminfo || skip "cannot mount over /proc/meminfo"
psi=no
stalled 0
# Mount it read-only: the server sets a PSI trigger by writing to this file. If
# it cannot, it reads the counter.
if [ -e /proc/pressure/memory ] && mount --bind "$tmp/psi" /proc/pressure/memory &&
       mount -o remount,ro,bind "$tmp/psi" /proc/pressure/memory; then
    psi=yes
fi
