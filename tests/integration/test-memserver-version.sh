#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A client that speaks another version of the protocol is told so in words. A
# client that also speaks ours is served.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"
# shellcheck source=tests/integration/memserver.sh
. "$top_srcdir/tests/integration/memserver.sh"

serve 30 1
ours=$(sed -n 's/^#define FP_VERSION \([0-9]*\).*/\1/p' "$top_srcdir/lib/proto/messages.h")

# hello HEADER MIN MAX: send HELLO, and print the reply's status, the version in
# its header, and its body as text.
hello ()
{
    python3 - "$tcp" "$@" <<'EOF'
import socket, struct, sys
host, port = sys.argv[1].rsplit(":", 1)
header, least, most = map(int, sys.argv[2:])
body = struct.pack(">HHIQ", least, most, 7, 0) + bytes(16) + struct.pack(">H", 3) + b"old"
s = socket.create_connection((host, int(port)), 60)
s.settimeout(60)
s.sendall(struct.pack(">IHHIIII", 0x46506743, header, 1, len(body), 1, 0, 0) + body)
f = s.makefile("rb")
magic, version, kind, length, sequence, status, _ = struct.unpack(">IHHIIII", f.read(24))
reply = f.read(length)
assert kind == 0x8001 and sequence == 1
if status == 0:
    print(status, version, struct.unpack(">H", reply[:2])[0])
else:
    print(status, version, reply[2:].decode())
EOF
}

# says TEXT COMMAND...: check that the command prints TEXT.
says ()
{
    local want=$1
    shift
    "$@" >"$tmp/said"
    grep -qx "$want" "$tmp/said" || { cat "$tmp/said"; fail "$*: not '$want'"; }
}

last=$((ours - 1)) next=$((ours + 1))
says "2 $ours this server speaks version $ours of the protocol, not $last to $last" \
    hello $last $last $last
says "2 $ours this server speaks version $ours of the protocol, not $next to 9" \
    hello 9 $next 9
# If both speak our version, the version in the header of HELLO does not matter.
says "0 $ours $ours" hello "$ours" "$ours" "$ours"
says "0 $ours $ours" hello $last $last $next
says "0 $ours $ours" hello $next $last $next
