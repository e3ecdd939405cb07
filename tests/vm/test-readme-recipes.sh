#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The recipes of README.md, word for word, in a guest with soft-RoCE whose own
# address is called donor. Each recipe ends with nothing attached and nothing
# lent.

# shellcheck source=lib/test.sh
. "$(dirname "$0")/lib/test.sh"
requires_guest
requires fio jq mkfs.ext4 nbd-client nbdkit
build=${top_builddir:-$(cd "$vm/../.." && pwd)}
[[ -x $build/run ]] || skip "no build tree at $build: set top_builddir"
readme=$vm/../../README.md

# recipe NAME: print the commands of the README's blocks that are marked so.
recipe ()
{
    awk -v "mark=\`\`\`sh $1" \
        '$0 == mark { on = 1; next } /^```/ { on = 0 } on' "$readme"
}

# shellcheck disable=SC2016 # for the guest
in_guest='
set -eu
echo "10.0.0.1 donor" >>/etc/hosts
eval "$1" &
server () { farpage servers --json donor 2>/dev/null | jq ".servers[0].$1"; }
# until_is NUMBER NAME: wait up to 90 s until the number NAME of the server is
# that.
until_is ()
{
    local end=$((SECONDS + 90))
    until [ "$(server "$2")" = "$1" ]; do
        [ $SECONDS -lt $end ] || { echo "$2 is $(server "$2")"; exit 1; }
        sleep 0.2
    done
}
until_is 0 slabs_unpopulated
shift
for recipe; do
    echo "-- $recipe"
    bash -eux -c "$recipe"
    until_is 0 slabs_lent
    [ "$(cat /sys/block/nbd0/size)" = 0 ]
done
kill %1
wait
echo "all recipes done"
'

recipes=()
for name in servers swap disk bench nbd-client; do
    text=$(recipe "$name")
    [[ -n $text ]] || fail "README.md has no recipe $name"
    # Add the block that uses and deletes the volume of this recipe.
    if [[ $name == disk ]]; then text+=$'\n'$(recipe again); fi
    # The first recipe attaches nothing, but /sys/block/nbd0/size must be there.
    recipes+=("modprobe nbd max_part=0"$'\n'"$text")
done
claim 0 "the recipes of README.md work" \
    "$vm/run" --net rxe --memory 3072 --timeout 1200 \
    "$build/run" bash -c "$in_guest" recipes "$(recipe donor)" "${recipes[@]}"
claim_output '^all recipes done$' "all of them ran"
claim_output '^data: 512 *M.*last used by' "a volume with a name stays"
claim_output '^ +server +donor.* up over rdma, control insecure$' "over rdma"
finish
