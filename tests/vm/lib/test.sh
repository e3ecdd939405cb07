# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2034
#
# Sourced first by every test-*.sh here. A test makes claims, each with a PASS
# or FAIL line, and calls finish. A test that cannot run calls skip.

set -u
vm=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
tmp=$(mktemp -d "${TMPDIR:-/tmp}/farpage-test.XXXXXX")
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
failures=0

skip ()
{
    echo "SKIP: $*"
    exit 77
}

pass ()
{
    echo "PASS: $*"
}

fail ()
{
    echo "FAIL: $*"
    failures=$((failures + 1))
}

finish ()
{
    exit $((failures > 0))
}

# requires COMMAND...: skip unless this host has these programs, which the guest
# needs.
requires ()
{
    local command

    for command; do
        command -v "$command" >/dev/null || skip "$command is not installed"
    done
}

# Skip if no guest can run here, for want of QEMU or of a kernel.
requires_guest ()
{
    local reason

    # shellcheck source=/dev/null
    reason=$(. "$vm/lib/cache.sh"; vm_prepare 2>&1) ||
        skip "no guest here: ${reason##*$'\n'}"
}

# Skip unless guests with systemd can run here, and were asked for: they start
# twice, which takes longer than a test may. Set $build to the build tree.
requires_reboot ()
{
    [[ -n ${TEST_REBOOT:-} ]] || skip "takes minutes: set TEST_REBOOT=yes"
    requires_guest
    requires nbdkit python3
    [[ -x /lib/systemd/systemd ]] || skip "systemd is not installed"
    build=${top_builddir:-$(cd "$vm/../.." && pwd)}
    [[ -x $build/run ]] || skip "no build tree at $build: set top_builddir"
}

# Wait until a memory server of this host has written $tmp/address. Set $address
# to what a guest calls it (--net user).
server_address ()
{
    local i

    for ((i = 0; i < 300; i++)); do
        if [[ -s $tmp/address ]]; then break; fi
        sleep 0.1
    done
    address=10.0.2.2:$(sed 's/.*://' "$tmp/address")
}

# requires_module NAME: skip unless build-modules can make it.
requires_module ()
{
    "$vm/build-modules" "$1" > "$tmp/build" 2>&1 ||
        skip "no module $1: $(tail -n 1 "$tmp/build")"
}

# put_farpage BUILD: put farpage into $tmp/share, for a guest to install. It is
# the packages in FARPAGE_DEBS, or else the files of make install.
put_farpage ()
{
    mkdir -p "$tmp/share"
    if [[ -n ${FARPAGE_DEBS:-} ]]; then
        mkdir "$tmp/share/debs"
        cp "$FARPAGE_DEBS"/*.deb "$tmp/share/debs"
    else
        make -s -C "$1" install DESTDIR="$tmp/share/root" >"$tmp/install.log" 2>&1 ||
            { cat "$tmp/install.log"; fail "make install"; finish; }
    fi
}

# claim STATUS WHAT COMMAND...: claim that COMMAND ends with STATUS. Its output
# is in $tmp/output, and is shown if the claim is false.
claim ()
{
    local want=$1 what=$2 status=0
    shift 2

    "$@" > "$tmp/output" 2>&1 || status=$?
    if (( status == want )); then
        pass "$what"
    else
        fail "$what: status $status, not $want"
        sed 's/^/    /' "$tmp/output"
    fi
}

# claim_output REGEX WHAT: claim that the last command's output has a line that
# matches REGEX.
claim_output ()
{
    if grep -q -E -e "$1" "$tmp/output"; then
        pass "$2"
    else
        fail "$2: no line like '$1' in the output"
        sed 's/^/    /' "$tmp/output"
    fi
}

# Set $hog to the memory hog of the build tree. If there is none, build the hog,
# or skip.
requires_hog ()
{
    hog=${top_builddir:-}/tests/vm/hog
    if [[ -z ${top_builddir:-} || ! -x $hog ]]; then
        hog=$tmp/hog
        "${CC:-cc}" -O2 -D_GNU_SOURCE -o "$hog" "$vm/hog.c" \
            > "$tmp/build" 2>&1 ||
            skip "hog cannot be built: $(tail -n 1 "$tmp/build")"
    fi
}
