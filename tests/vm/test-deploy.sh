#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The Ansible playbook of docs/deploy sets up a memory server and a client, from
# packages. A second run changes nothing. FARPAGE_DEBS is a directory with the packages.

# shellcheck source=lib/test.sh
. "$(dirname "$0")/lib/test.sh"
requires_reboot
requires ansible-playbook
[[ -n ${FARPAGE_DEBS:-} ]] || skip "set FARPAGE_DEBS to a directory with packages"

mkdir -p "$tmp/share/debs"
cp "$FARPAGE_DEBS"/*.deb "$tmp/share/debs"
cp "$vm/../../docs/deploy/farpage.yml" "$tmp/share"
claim 0 "the playbook" "$vm/run" --systemd --memory 1024 --share "$tmp/share" \
    --timeout "${TEST_REBOOT_TIMEOUT:-850}" "$vm/guest/deploy-cases"
claim_output '^ok$' "to its end"
finish
