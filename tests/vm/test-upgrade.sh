#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The Debian packages of the last release are upgraded to those of this one, in a guest
# that is a memory server and its client, with a file system and swap in use.
# FARPAGE_DEBS and FARPAGE_RELEASE_DEBS are directories with the packages: see
# test-packages and 'build-release --packages'.

# shellcheck source=lib/test.sh
. "$(dirname "$0")/lib/test.sh"
requires_reboot
requires jq mkfs.ext4
[[ -n ${FARPAGE_DEBS:-} && -n ${FARPAGE_RELEASE_DEBS:-} ]] ||
    skip "set FARPAGE_DEBS and FARPAGE_RELEASE_DEBS to directories with packages"

mkdir -p "$tmp/share/old" "$tmp/share/new"
cp "$FARPAGE_RELEASE_DEBS"/*.deb "$tmp/share/old"
cp "$FARPAGE_DEBS"/*.deb "$tmp/share/new"
claim 0 "an upgrade while all is in use" "$vm/run" --systemd --memory 1024 --share "$tmp/share" \
    --timeout "${TEST_REBOOT_TIMEOUT:-850}" "$vm/guest/upgrade-cases"
claim_output '^ok$' "to its end"
finish
