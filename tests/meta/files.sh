# SPDX-License-Identifier: BSD-3-Clause
# Sourced by the meta tests. Changes to the top of the source, and lists its
# files.

# shellcheck shell=bash disable=SC2154 # $tmp comes from functions.sh
cd "$top_srcdir" || exit

# source_files: print the files of the project, one a line, without generated
# ones. In a git checkout these are the files that git knows or would add. In a
# tarball they are all files. (Root may run this in another user's checkout.)
source_files ()
{
    local f
    if [ -e .git ] &&
       git -c safe.directory='*' ls-files -co --exclude-standard >"$tmp/files"
    then :; else
        find . \( -name _build -o -name _inst -o -path ./build -o -name autom4te.cache \
                  -o -name build-aux -o -name m4 \) -prune -o \
             -type f ! -name Makefile.in ! -name aclocal.m4 ! -name configure \
             ! -name config.h.in -print | sed 's,^\./,,' >"$tmp/files"
    fi
    while IFS= read -r f; do
        if [ -f "$f" ]; then echo "$f"; fi # not deleted since
    done <"$tmp/files"
}

c_files ()
{
    source_files | grep '\.[ch]$'
}

# shell_scripts: print the files that a shell reads, by name or by first line.
shell_scripts ()
{
    local f line
    source_files | while IFS= read -r f; do
        line=
        IFS= read -r line <"$f" || :
        case $f:$line in
        *.sh:*|*.sh.in:*|*/completion/farpage*|*:'#!'*bash*|*:'#!/bin/sh'*) echo "$f" ;;
        esac
    done 2>/dev/null
}
