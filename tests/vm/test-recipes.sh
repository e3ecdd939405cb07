#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The recipes of docs/RECIPES.md, word for word: md RAID 1 with a local disk,
# dm-crypt, zswap and zram over an attached volume. Memory servers and client
# share a guest, whose loopback addresses are called donor and other. Each
# marked block of the document must have run. TEST_CASES="md_files zram" runs
# only those.

# shellcheck source=lib/test.sh
. "$(dirname "$0")/lib/test.sh"
requires_guest
requires cryptsetup fio jq lvm mdadm mkfs.ext4 mkswap nbdkit resize2fs
requires_hog
build=${top_builddir:-$(cd "$vm/../.." && pwd)}
[[ -x $build/run ]] || skip "no build tree at $build: set top_builddir"
document=$(cd "$vm/../.." && pwd)/docs/RECIPES.md

# run_cases SECONDS MIB CASE...: run them in a guest of their own. It has no
# udev, so -M loads the modules. Without KVM the kernel's self-test of
# aesni_intel crashes (QEMU 7.2), so the guest's processor has no AES
# instructions.
run_cases ()
{
    local seconds=$1 mib=$2 c
    shift 2

    claim 0 "recipes: $*" "$vm/run" --memory "$mib" --timeout "$seconds" -M "raid1 dm_crypt xts dm_mod" \
        --qemu "-cpu max,aes=off" \
        "$build/run" "$vm/guest/recipes-cases" "$document" "$@"
    for c; do
        claim_output "^ok $c\$|^skipped $c:" "$c"
    done
    grep '^skipped' "$tmp/output"
    cat "$tmp/output" >>"$tmp/all"
}

# shellcheck disable=SC2154 # requires_hog sets it
export FARPAGE_HOG=$hog
if [[ -n ${TEST_CASES:-} ]]; then
    # shellcheck disable=SC2086 # words
    run_cases 1700 3072 $TEST_CASES
    finish
fi
run_cases 1000 3072 md_files md_back md_behind md_swap
run_cases 700 2048 crypt_swap luks lvm zswap zram
(( failures == 0 )) || finish
cp "$tmp/all" "$tmp/output"
blocks=0
while read -r block; do
    claim_output "^ran $block\$|^skipped ${block%%-*}:" "block $block"
    blocks=$((blocks + 1))
done < <(awk '/^```sh / { print $2 }' "$document")
(( blocks > 0 )) || fail "$document has no marked block"
finish
