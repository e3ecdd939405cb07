#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Four guests in a network: a client with three memory servers, each taken down
# in another way. Neither a volume with two copies nor one with a single copy
# loses anything, and no command is needed on the client.

# shellcheck source=lib/test.sh
. "$(dirname "$0")/lib/test.sh"
# shellcheck source=lib/lan.sh
. "$vm/lib/lan.sh"

touch "$tmp/share/hold.donor1"
lan_guests drain-cases donor1:2 donor2:1 donor3:1 client:1
finish
