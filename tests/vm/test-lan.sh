#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Three guests in a network, as in "Swap to two donors" of README: one command on
# each of two memory servers, and one on a client. Then each of the three is
# rebooted in turn.

# shellcheck source=lib/test.sh
. "$(dirname "$0")/lib/test.sh"
# shellcheck source=lib/lan.sh
. "$vm/lib/lan.sh"

lan_guests lan-cases donor1:2 donor2:2 client:2
finish
