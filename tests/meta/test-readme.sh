#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# All that README.md tells people to type exists: programs, files, subcommands,
# options, parameters. (tests/vm/test-readme-recipes.sh runs the recipes.)

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"

readme=$top_srcdir/README.md
bad=0
complain () { echo "README.md: $*"; bad=1; }

# Take the commands from blocks marked sh, one a line.
awk '/^```sh( |$)/ { on = 1; next } /^```/ { on = 0 } on' "$readme" |
    sed -e ':a' -e '/\\$/{N;s/\\\n */ /;ba}' >"$tmp/commands"
grep -q '^farpage attach' "$tmp/commands" || fail "found no commands"

# has_options HELP COMMAND WORD...: check that HELP has each option among the
# words.
has_options ()
{
    local help=$1 command=$2 w
    shift 2
    for w; do
        case $w in
        -*) grep -qE -e "(^|[ ,])${w%%=*}([ =,]|$)" "$help" ||
                complain "$command has no option $w" ;;
        esac
    done
}

# has_parameters WORD...: check that the plugin has each parameter NAME=VALUE.
has_parameters ()
{
    local w
    for w; do
        case $w in
        -*|\"*) ;;
        *=*) grep -qE "^\[?${w%%=*}=" "$tmp/plugin" ||
                complain "the plugin has no parameter $w" ;;
        esac
    done
}

requires nbdkit --version
LD_PRELOAD=$SANITIZER_PRELOAD nbdkit "$FARPAGE_PLUGIN" --help >"$tmp/plugin"
n=0
while read -r -a words; do
    if [ "${words[0]:-#}" = sudo ]; then words=("${words[@]:1}"); fi
    n=$((n + 1))
    program=${words[0]:-#}
    args=("${words[@]:1}")
    case $program in
    farpage)
        farpage "${args[0]}" --help >"$tmp/help" 2>&1 ||
            complain "farpage has no command ${args[0]}"
        has_options "$tmp/help" "farpage ${args[0]}" "${args[@]:1}"
        has_parameters "${args[@]:1}" ;;
    farpage-memserver)
        command=()
        case ${args[0]} in -*) ;; *) command=("${args[0]}") ;; esac
        farpage-memserver "${command[@]}" --help >"$tmp/help" || complain "farpage-memserver has no command ${args[0]}"
        has_options "$tmp/help" "$program ${command[*]}" "${args[@]}" ;;
    nbdkit)
        has_parameters "${args[@]}" ;;
    tools/*|tests/*)
        "$top_srcdir/$program" --help >"$tmp/help" ||
            complain "no $program, or no --help of it"
        has_options "$tmp/help" "$program" "${args[@]}" ;;
    ../configure)
        "$top_srcdir/configure" --help >"$tmp/help"
        has_options "$tmp/help" "$program" "${args[@]}" ;;
    apt|autoreconf|cat|chown|echo|printf|systemctl|cd|date|dd|fio|kill|make|mkdir|mkfs.ext4|modprobe|mount) ;;
    nbd-client|umount) ;;
    *) complain "unknown program in: ${words[*]}" ;;
    esac
done <"$tmp/commands"
[ $n -gt 10 ] || fail "only $n commands"

# Check the files that the text names, except those that exist only in a build
# or on the system.
# shellcheck disable=SC2016 # these are no expansions
grep -oE '`(docs|tests|tools|lib)/[^` ]*`|`[A-Z]+(\.md)?`' "$readme" | tr -d '`' |
    sort -u >"$tmp/named"
while read -r f; do
    case $f in RDMA|READ|WRITE|SIGTERM) continue ;; esac
    [ -e "$top_srcdir/$f" ] || complain "there is no $f"
done <"$tmp/named"
[ $bad = 0 ] || fail "see above"
