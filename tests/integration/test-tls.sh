#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A volume over TLS, with a key and with certificates. Control and data work, a
# listener on the network learns nothing, and strangers are kept out.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"

[ "$NBDSH" != no ] || skip "no nbdsh (Debian: python3-libnbd)"
command -v openssl >/dev/null || skip "no openssl"

farpage keygen "$tmp/key"
farpage keygen --user stranger "$tmp/strange"
farpage keygen "$tmp/wrong"

# says TEXT CMD ARG...: check that the command fails, and prints TEXT.
says ()
{
    local text=$1 limit="timeout 60"
    shift
    [ "$1" != probe ] || limit= # a function, with a limit of its own
    # shellcheck disable=SC2086
    if $limit "$@" </dev/null >"$tmp/out" 2>&1; then cat "$tmp/out"; fail "works: $*"; fi
    grep -q -e "$text" "$tmp/out" || { cat "$tmp/out"; fail "no '$text': $*"; }
}
probe () { timeout 60 env "LD_PRELOAD=$SANITIZER_PRELOAD" ASAN_OPTIONS=detect_leaks=0 \
    nbdkit -U - "$FARPAGE_PLUGIN" "$MLOCK" size=4M "$@" --run true; }

# random_ops NAME ARG...: make random requests to a volume of 26M with extents
# of 4M.
random_ops ()
{
    local name=$1
    shift
    start_nbdkit "$name" "$FARPAGE_PLUGIN" "$@" "$MLOCK" connections=2 size=26M "status=$tmp/$name.status" \
        ${SANITIZER_PRELOAD:+timeout=20000}
    export uri="nbd+unix:///?socket=$tmp/$name.sock" seed=${SEED:-$RANDOM} ops=100 slab=$((4 << 20))
    "$NBDSH" -c - <"$top_srcdir/tests/integration/random-ops.py" >"$tmp/out" ||
        { cat "$tmp/out"; fail "$name: run again with SEED=$seed"; }
    farpage status --socket "$tmp/$name.status" >"$tmp/$name.said"
    stop "$(cat "$tmp/$name.pid")"
}

# listen_in NAME PORT: record connections to PORT. Their new address is in $way.
listen_in ()
{
    python3 "$top_srcdir/tests/integration/listen-in.py" "$2" "$tmp/$1.capture" "$tmp/$1.port" 2>"$tmp/$1.log" &
    cleanup_fn stop $!
    wait_until 30 test -s "$tmp/$1.port"
    way=127.0.0.1:$(cat "$tmp/$1.port")
}

# ---- a key ----

start_memserver psk --listen "unix:$tmp/psk.usock" --size 64M --slab 4M --reserve 0 --tls-psk "$tmp/key" --log-level debug
psk=$(grep -v ^unix: "$tmp/psk.addr")
# Send half a handshake. By the end of this test the server must have hung up.
exec {half}<>"/dev/tcp/127.0.0.1/${psk##*:}"
printf '\x16\x03\x01\x01\x00\x01\x00' >&$half
listen_in way "${psk##*:}"
random_ops one "$way" transport=tcp "tls-psk=$tmp/key" volume=secret-name
grep -q 'up over tcp, control tls' "$tmp/one.said" || fail "status: $(cat "$tmp/one.said")"
grep -q 'transport tcp, control tls' "$tmp/one.log" || fail "it is not said in the log"
grep -q 'over TLS as farpage' "$tmp/psk.log" || fail "the server does not say who it is"
# The name, the data of random-ops, and frames do not occur in clear.
[ "$(stat -c %s "$tmp/way.capture")" -gt 1000000 ] || fail "there is little on the way"
for text in secret-name nbdkit; do
    if grep -qaF "$text" "$tmp/way.capture"; then fail "'$text' is there in clear"; fi
done
# Four bytes alone may occur by chance. So include the bytes that follow.
for frame in 'FPgC\x00\x02\x00' 'FPgD[\x01\x02]\x00\x00\x00' 'FPgR.{4}\x00\x00\x00\x00'; do
    if LC_ALL=C grep -qaP "$frame" "$tmp/way.capture"; then fail "'$frame' is there in clear"; fi
done
key=$(cut -d: -f2 "$tmp/key")
if grep -qF "$key" "$tmp"/*.log "$tmp"/*.said; then fail "the key is in a log"; fi

# The tools, with parameters and with a pool.
farpage servers "$psk" "tls-psk=$tmp/key" | grep -q 'in slabs of 4M' || fail "farpage servers"
printf 'server = %s\ntls-psk = %s\n' "$psk" "$tmp/key" >"$tmp/pool.conf"
farpage volumes "pool=$tmp/pool.conf" | grep -q '^secret-name: ' || fail "farpage volumes"
says "pool: .*line 2: 'tls-key': unknown in a pool" farpage servers "pool=$(printf 'server = a\ntls-key = b\n' >"$tmp/p.conf"; echo "$tmp/p.conf")"
# The Unix socket has no TLS, and needs none.
farpage servers "unix:$tmp/psk.usock" | grep -q 'offers.*shm' || fail "over the Unix socket"
farpage servers "unix:$tmp/psk.usock" tls=require "tls-psk=$tmp/key" >/dev/null || fail "unix, with a key"

# With tls=require a Unix socket, which is in clear, is used only if it is
# named.
start_memserver beside --listen "unix:$tmp/beside.usock" --size 64M --slab 4M --reserve 0 --tls-psk "$tmp/key"
start_nbdkit listed "$FARPAGE_PLUGIN" "$psk" "server=unix:$tmp/beside.usock" transport=tcp tls=require \
    "tls-psk=$tmp/key" volume=listed size=4M "$MLOCK"
stop "$(cat "$tmp/listed.pid")"
says 'used only if it is given: give server=unix:' probe "$psk" transport=tcp tls=require "tls-psk=$tmp/key" volume=listed
probe "$psk" "server=unix:$tmp/beside.usock" transport=tcp tls=require "tls-psk=$tmp/key" volume=listed ||
    fail "both servers are named"

# A volume is changed through its plugin, which has the key. top and show ask
# the servers themselves.
start_memserver psk2 --size 64M --slab 4M --reserve 0 --tls-psk "$tmp/key"
psk2=$(cat "$tmp/psk2.addr")
start_nbdkit used "$FARPAGE_PLUGIN" "$psk" transport=tcp "tls-psk=$tmp/key" volume=used size=16M reserve=full "$MLOCK" \
    "status=$tmp/used.status" ${SANITIZER_PRELOAD:+timeout=20000}
top_shows () # REGEX ARG...: the second look prints a match of REGEX
{
    local text=$1
    shift
    timeout 60 farpage top --batch --interval 0.3 --count 2 "$@" >"$tmp/top.log" 2>&1 ||
        fail "farpage top: exit $?"
    grep -qE "$text" "$tmp/top.log"
}
# farpage top does not wait for a slow server, so look again.
top_says () { wait_until 60 top_shows "$@"; }
top_says "^$psk +tcp .* 48M " "$tmp/used.status" "tls-psk=$tmp/key"
top_says "^$psk .*(no answer|requires TLS)" "$tmp/used.status"
says "unknown TLS parameter" farpage top --batch "$tmp/used.status" tls-key=x
says "another key, or not know the user" farpage volumes show used "$psk" "tls-psk=$tmp/wrong"
farpage volumes show used "$psk" "tls-psk=$tmp/key" | grep -q 'in step, 16M' || fail "farpage volumes show"
farpage servers add "$tmp/used.status" "$psk2" >"$tmp/out" 2>&1 || { cat "$tmp/out"; fail "farpage servers add"; }
farpage drain "$tmp/used.status" "$psk" >"$tmp/out" 2>&1 || { cat "$tmp/out"; fail "farpage drain"; }
farpage servers remove "$tmp/used.status" "$psk" >"$tmp/out" 2>&1 || { cat "$tmp/out"; fail "farpage servers remove"; }
stop "$(cat "$tmp/used.pid")"
farpage volumes delete --yes used "$psk2" "tls-psk=$tmp/key" >"$tmp/out" 2>&1 ||
    { cat "$tmp/out"; fail "farpage volumes delete"; }
if farpage volumes "$psk2" "tls-psk=$tmp/key" | grep -q '^used: '; then fail "it was deleted"; fi
if [ -z "$SANITIZER_PRELOAD" ]; then # farpage bench starts nbdkit without the sanitizer's runtime
    start_memserver large --size 512M --slab 16M --reserve 0 --tls-psk "$tmp/key"
    large=$(cat "$tmp/large.addr")
    short="--seconds 0.02 --rounds 1 --size 64M --layers engine-tcp,nbd-farpage"
    # shellcheck disable=SC2086 # several words
    {
        says 'requires TLS' farpage bench $short --server "$large"
        farpage bench $short --server "$large" "tls-psk=$tmp/key" >"$tmp/out" 2>&1 ||
            { cat "$tmp/out"; fail "farpage bench"; }
        [ "$(grep -cE '^(engine-tcp|nbd-farpage) ' "$tmp/out")" = 12 ] ||
            { cat "$tmp/out"; fail "farpage bench has not all rows"; }
        says 'needs --server' farpage bench $short "tls-psk=$tmp/key"
    }
    stop "$(cat "$tmp/large.pid")"
fi

# A client without a key, with another key, or with another protocol is refused.
says 'requires TLS' farpage servers "$psk"
says 'requires TLS' probe "$psk" transport=tcp
says 'another key, or not know the user' farpage servers "$psk" "tls-psk=$tmp/wrong"
says 'another key, or not know the user' probe "$psk" "tls-psk=$tmp/strange"
wait_until 20 grep -q 'TLS: its key differs from ours' "$tmp/psk.log"
says 'alert' openssl s_client -connect "$psk" -tls1_2 -psk "$key" -psk_identity farpage
says 'alert' openssl s_client -connect "$psk" -tls1_3
printf 'GET / HTTP/1.0\r\n\r\n' | timeout 60 openssl s_client -connect "$psk" -tls1_3 -psk "$key" \
    -psk_identity farpage >"$tmp/out" 2>&1 || :
grep -q 'TLSv1.3' "$tmp/out" || { cat "$tmp/out"; fail "another client, with the key"; }
farpage servers "$psk" "tls-psk=$tmp/key" >/dev/null || fail "the server is not there any more"

says 'choose one with tls-username=NAME' farpage servers "$psk" \
    "tls-psk=$(cp "$tmp/key" "$tmp/two" && farpage keygen --user x "$tmp/two"; echo "$tmp/two")"
farpage servers "$psk" "tls-psk=$tmp/two" tls-username=farpage >/dev/null || fail "tls-username="
says 'tls needs tls-psk' farpage servers "$psk" tls=require
says "not one of off, on, require" probe "$psk" tls=yes
says "unknown TLS parameter" farpage servers "$psk" tls-key=x

# A user is added without a restart. A bad file changes nothing.
cp "$tmp/key" "$tmp/key.old"
says 'not know the user' farpage servers "$psk" "tls-psk=$tmp/strange"
cat "$tmp/strange" >>"$tmp/key"
kill -HUP "$(cat "$tmp/psk.pid")"
wait_until 20 grep -q 'SIGHUP: read the keys' "$tmp/psk.log"
farpage servers "$psk" "tls-psk=$tmp/strange" >/dev/null || fail "a user that was added"
echo nonsense >>"$tmp/key"
kill -HUP "$(cat "$tmp/psk.pid")"
wait_until 20 grep -q 'SIGHUP: the keys are unchanged: .*key 3: not USER:KEY' "$tmp/psk.log"
farpage servers "$psk" "tls-psk=$tmp/strange" >/dev/null || fail "after a file that is wrong"
cp "$tmp/key.old" "$tmp/key"

# ---- no downgrade ----

start_memserver plain --size 64M --slab 4M --reserve 0
plain=$(cat "$tmp/plain.addr")
says 'does not speak TLS .*but tls=require' farpage servers "$plain" "tls-psk=$tmp/key"
says 'does not speak TLS .*but tls=require' probe "$plain" tls=require "tls-psk=$tmp/key"
# A client that accepts both goes on without TLS, and shows that.
random_ops both "$plain" transport=tcp tls=on "tls-psk=$tmp/key"
grep -q 'up over tcp, control local' "$tmp/both.said" || fail "status: $(cat "$tmp/both.said")"
start_memserver mixed --size 64M --slab 4M --reserve 0 --tls on --tls-psk "$tmp/key"
mixed=$(cat "$tmp/mixed.addr")
farpage servers "$mixed" >/dev/null || fail "--tls on, in clear"
random_ops mix "$mixed" transport=tcp tls=on "tls-psk=$tmp/key"
grep -q 'up over tcp, control tls' "$tmp/mix.said" || fail "status: $(cat "$tmp/mix.said")"
FAKE='HTTP/1.0 400 no' listen_in fake 1
says 'does not speak TLS .*but tls=require' farpage servers "$way" "tls-psk=$tmp/key"
if grep -qaF FPgC "$tmp/fake.capture"; then fail "a HELLO was said in clear"; fi
FAKE=silent listen_in silent 1
says 'did not answer the TLS handshake within' probe "$way" timeout=300 "tls-psk=$tmp/key"

# ---- certificates ----

certificate () # DIR NAME SUBJECT CA
{
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout "$tmp/$1/$2-key.pem" \
        -subj "/CN=$3" -out "$tmp/req" 2>/dev/null
    openssl x509 -req -in "$tmp/req" -CA "$tmp/$4/ca-cert.pem" -CAkey "$tmp/$4/ca-key.pem" \
        -CAcreateserial -days 2 -extfile <(echo subjectAltName=IP:127.0.0.1) -out "$tmp/$1/$2-cert.pem" 2>/dev/null
}
for ca in good other; do
    mkdir "$tmp/$ca"
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout "$tmp/$ca/ca-key.pem" \
        -addext keyUsage=critical,keyCertSign,cRLSign \
        -subj "/CN=$ca" -days 2 -out "$tmp/$ca/ca-cert.pem" 2>/dev/null
    certificate $ca server farm $ca
    certificate $ca client alice $ca
done
mkdir "$tmp/bare"
cp "$tmp/good/ca-cert.pem" "$tmp/bare"
start_memserver x509 --size 64M --slab 4M --reserve 0 --tls-certificates "$tmp/good" --tls-verify-peer --log-level debug
x509=$(cat "$tmp/x509.addr")
random_ops certs "$x509" transport=tcp "tls-certificates=$tmp/good"
grep -q 'up over tcp, control tls' "$tmp/certs.said" || fail "status: $(cat "$tmp/certs.said")"
grep -q 'over TLS as alice' "$tmp/x509.log" || fail "the server does not say who it is"
says 'its certificate is not accepted.*issuer is unknown' farpage servers "$x509" "tls-certificates=$tmp/other"
says 'Certificate is required' farpage servers "$x509" "tls-certificates=$tmp/bare"
says 'does not match the expected' farpage servers "localhost:${x509##*:}" "tls-certificates=$tmp/good"
says 'ca-cert.pem' farpage servers "$x509" "tls-certificates=$tmp/nothing"
# Three requests in one TLS record get three replies. The socket gives no
# further event for the rest of a record.
timeout 60 /usr/bin/python3 - "${x509##*:}" "$tmp/good" >"$tmp/out" 2>&1 <<'EOF' || { cat "$tmp/out"; fail "three at once"; }
import os, socket, ssl, struct, sys
context = ssl.create_default_context(cafile=sys.argv[2] + "/ca-cert.pem")
context.load_cert_chain(sys.argv[2] + "/client-cert.pem", sys.argv[2] + "/client-key.pem")
s = context.wrap_socket(socket.create_connection(("127.0.0.1", int(sys.argv[1]))), server_hostname="127.0.0.1")
def message(type, sequence, body=b""):
    return struct.pack(">IHHIIII", 0x46506743, 2, type, len(body), sequence, 0, 0) + body
hello = struct.pack(">HHIQ16sH", 2, 2, 7, 0, os.urandom(16), 5) + b"three"
s.sendall(message(1, 1, hello) + message(8, 2) + message(8, 3))
f = s.makefile("rb")
for sequence in 1, 2, 3:
    header = struct.unpack(">IHHIIII", f.read(24))
    assert header[4:6] == (sequence, 0), header
    f.read(header[3])
EOF
# A token that was given over TLS is worthless without TLS.
start_memserver either --size 4M --slab 1M --reserve 0 --tls on --tls-certificates "$tmp/good"
port=$(cut -d: -f2 "$tmp/either.addr")
timeout 60 /usr/bin/python3 - "$port" "$tmp/good" >"$tmp/out" 2>&1 <<'EOF' || { cat "$tmp/out"; fail "its token"; }
import os, socket, ssl, struct, sys
def ask(s, type, body):
    s.sendall(struct.pack(">IHHIIII", 0x46506743, 2, type, len(body), 1, 0, 0) + body)
    f = s.makefile("rb")
    header = struct.unpack(">IHHIIII", f.read(24))
    return header[5], f.read(header[3])
def plain():
    return socket.create_connection(("127.0.0.1", int(sys.argv[1])))
context = ssl.create_default_context(cafile=sys.argv[2] + "/ca-cert.pem")
def tls():
    return context.wrap_socket(plain(), server_hostname="127.0.0.1")
control = tls()
status, reply = ask(control, 1, struct.pack(">HHIQ16sH", 2, 2, 7, 0, os.urandom(16), 5) + b"token")
assert status == 0, reply
name = struct.unpack_from(">H", reply, 30)[0]
session = reply[60 + name:68 + name]
def proof():
    status, reply = ask(control, 19, bytes(4))
    assert status == 0 and len(reply) == 16, (status, reply)
    return session + reply + bytes(4)
status, reply = ask(plain(), 11, proof())
assert status == 8 and b"same user as the control connection" in reply, (status, reply)
data_hello = proof()
status, reply = ask(tls(), 11, data_hello)
assert status == 3 and b"no volume open" in reply, (status, reply)
# A token can be used once.
status, reply = ask(tls(), 11, data_hello)
assert status == 8 and b"good for one connection" in reply, (status, reply)
EOF

status=0
farpage-memserver --size 1M --slab 1M --tls require 2>"$tmp/out" || status=$?
[ $status = 2 ] || fail "--tls require without a key: $status"
says 'give only one' farpage-memserver --size 1M --slab 1M --tls-psk a --tls-certificates b
says 'key: No such file' farpage-memserver --size 1M --slab 1M --tls-psk "$tmp/no-key"
says 'tls-verify-peer needs' farpage-memserver --size 1M --slab 1M --tls-verify-peer --tls-psk "$tmp/key"

timeout 60 cat <&$half >/dev/null || fail "half a handshake is waited for"
