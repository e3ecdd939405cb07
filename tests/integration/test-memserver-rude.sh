#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A thousand rude clients leave no slab, file descriptor or thread in use. A
# polite client is still served.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"
# shellcheck source=tests/integration/memserver.sh
. "$top_srcdir/tests/integration/memserver.sh"

memrude="$top_builddir/tests/integration/memrude"
serve 1 1
before=$(server_resources)
"$memrude" "$tcp" 1000 || fail "a rude client could not connect"
client "$tcp" guest open:2:ce:tcp grant:1 check:0 fill:9 check:9 discard
"$memrude" "$unix" 1000 || fail "a rude client could not connect"
wait_until 60 all_free
wait_until 30 resources_are "$before"

# One client sends more slowly than its lease allows. Another is silent for as
# long.
"$memrude" "$tcp" trickle || fail "a trickling client was not dropped"
client "$tcp" silent open:3:ce:tcp grant:3 wait-end
wait_until 30 all_free
wait_until 30 resources_are "$before"
kill -0 "$server_pid" || fail "the server is gone"
