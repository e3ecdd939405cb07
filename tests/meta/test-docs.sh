#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# All that README.md and docs/*.md refer to exists: files behind links, options
# of programs, parameters of the plugin, metrics, and tests in docs/FAILURES.md.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"
# shellcheck source=tests/meta/files.sh
. "$top_srcdir/tests/meta/files.sh"

requires nbdkit --version
bad=0 links=0 options=0 names=0
complain () { echo "$*"; bad=1; }
pages=("$top_srcdir"/README.md "$top_srcdir"/docs/*.md)

# ---- links ----

for page in "${pages[@]}"; do
    while read -r link; do
        links=$((links + 1))
        case $link in
        *://*|mailto:*|'#'*) continue ;;
        esac
        [ -e "${page%/*}/${link%%#*}" ] || complain "${page#"$top_srcdir"/}: there is no $link"
    done < <(grep -oE '\]\([^) ]+\)' "$page" | sed 's/^](//; s/)$//')
done

# ---- commands: in code spans, and in blocks ----

LD_PRELOAD=$SANITIZER_PRELOAD nbdkit "$FARPAGE_PLUGIN" --help >"$tmp/plugin"
farpage-memserver --help >"$tmp/farpage-memserver"
cat "$top_srcdir/memserver/farpage-memserver.pod" >>"$tmp/farpage-memserver"

# has_option HELP OPTION: succeed if HELP names this option.
has_option () { grep -qE -e "(^|[^a-z-])$2([^a-z-]|\$)" "$1"; }

# look PAGE WORD...: check the options and parameters of one of our commands.
look ()
{
    local page=${1#"$top_srcdir"/} help what w
    shift
    what=$1
    shift
    case $what in
    farpage-memserver) help=$tmp/farpage-memserver ;;
    farpage)
        case ${1:-} in
        -*|''|COMMAND) return ;;
        esac
        w=$1
        what="farpage $w"
        help=$tmp/farpage-$w
        shift
        if [ ! -e "$help" ]; then
            if [ ! -e "$top_srcdir/tools/farpage-$w.pod" ] || ! farpage "$w" --help >"$help"; then
                rm -f "$help"
                complain "$page: there is no $what"
                return
            fi
            cat "$top_srcdir/tools/farpage-$w.pod" >>"$help"
        fi
        case $w:${1:-} in
        doctor:*)
            for w; do
                case $w in
                [a-z]*) grep -q "^=item B<$w>\$" "$help" || complain "$page: $what has no check $w" ;;
                esac
            done ;;
        esac ;;
    esac
    for w; do
        case $w in
        -*)
            options=$((options + 1))
            has_option "$help" "${w%%=*}" || complain "$page: $what has no option $w" ;;
        [a-z]*=*)
            options=$((options + 1))
            grep -qE "^\[?${w%%=*}=" "$tmp/plugin" || complain "$page: the plugin has no parameter $w" ;;
        esac
    done
}

for page in "${pages[@]}"; do
    # Take code spans, one a line, even if they end on the next line. Also take
    # indented and fenced blocks.
    # shellcheck disable=SC2016 # these are no expansions
    awk '/^```/ { on = !on; next } on || /^    / { print }' "$page" >"$tmp/lines"
    # shellcheck disable=SC2016
    awk '/^```/ { on = !on; next } !on && !/^    /' "$page" | tr '\n' ' ' | grep -oE '`[^`]+`' |
        tr -d '`' >>"$tmp/lines" || :
    # A command ends at a comment, a pipe or another command. ./run and sudo are
    # not part of it.
    sed -e ':a' -e '/\\$/{N;s/\\\n */ /;ba}' "$tmp/lines" |
        sed -E 's/^ *//; s/( |^)#.*//; s/[|;&)>].*//; s,^([A-Za-z./]*run|sudo) +,,' |
        grep -E '^farpage(-memserver)? ' >"$tmp/commands" || :
    while read -r -a words; do
        look "$page" "${words[@]}"
    done <"$tmp/commands"
done

# ---- man pages ----

# section FILE: print the section of the page that this pod becomes.
section ()
{
    case $1 in
    *.conf.pod) echo 5 ;;
    *.service.pod) echo 7 ;;
    */nbdkit-plugin/*) echo 1 ;;
    *) echo 8 ;;
    esac
}
for file in "$top_srcdir"/{tools,memserver,nbdkit-plugin}/*.pod; do
    name=${file##*/}
    echo "${name%.pod}($(section "$file"))"
done >"$tmp/manual"
while IFS=: read -r page name; do
    names=$((names + 1))
    grep -qxF "$name" "$tmp/manual" || complain "${page#"$top_srcdir"/}: there is no $name"
done < <(cd "$top_srcdir" && source_files |
    xargs grep -oHE '\b(nbdkit-)?farpage[a-z.-]*\([1-9]\)' | sort -u)

# ---- metrics ----

# A histogram has three names. Take the one without a suffix.
while IFS=: read -r page name; do
    names=$((names + 1))
    name=${name%_bucket}
    grep -q "^ $name (" "$top_srcdir/memserver/farpage-memserver.pod" \
        "$top_srcdir/tools/farpage-exporter.pod" || complain "${page##*/}: there is no metric $name"
done < <(grep -oE '\bfarpage_(memserver|volume|server|plugin|build|device|exporter)_[a-z_]+' "${pages[@]}" \
    "$top_srcdir/docs/grafana/farpage.json" "$top_srcdir/docs/prometheus/farpage.rules.yml" | sort -u)

# ---- tests of FAILURES.md ----

# Each row ends with names of tests, and with other words.
while read -r name; do
    names=$((names + 1))
    found=
    for file in "$top_srcdir"/tests/{unit,integration,vm}/"$name".{c,sh}; do
        if [ -e "$file" ]; then found=$file; fi
    done
    [ -n "$found" ] || complain "docs/FAILURES.md: there is no $name"
done < <(awk -F '|' '/^\|/ { print $(NF - 1) }' "$top_srcdir/docs/FAILURES.md" |
    sed 's,tests/vm/,,g; s,\.sh,,g' | grep -oE '\btest-[a-z0-9-]+' | sort -u)
# A function may follow in brackets: three_copies of test-volume-copies is
# test_three_copies there.
while read -r name function; do
    names=$((names + 1))
    grep -qE "^(test_)?$function \(" "$top_srcdir/tests/unit/$name.c" ||
        complain "docs/FAILURES.md: $name has no $function"
done < <(grep -oE 'test-[a-z-]+ \([a-z_]+\)' "$top_srcdir/docs/FAILURES.md" | tr -d '()')

if [ $links -lt 10 ] || [ $options -lt 40 ] || [ $names -lt 30 ]; then
    fail "found only $links links, $options options, $names names"
fi
[ $bad = 0 ] || fail "see above"
