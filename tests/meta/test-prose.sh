#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Comments and documents follow the rules that meta/prose.awk checks.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"
# shellcheck source=tests/meta/files.sh
. "$top_srcdir/tests/meta/files.sh"

# findings: check the files on standard input, one a line.
findings ()
{
    tr '\n' '\0' | LC_ALL=C xargs -0 awk -f tests/meta/prose.awk
}

# ---- the checks find what they should, and nothing else ----

mkdir "$tmp/sample"
cat >"$tmp/sample/a.h" <<'SAMPLE'
/* Return true if the lane is up. "who reads" in a string is code. */
const char *s = "nobody /* is not a comment */";
/* Of the lane. */
int a; /* it is up */
/* The first line is made
 * anew: why: because.
 *
 * Nobody waits. Who reads? Whoever
 * does.
 */
SAMPLE
cat >"$tmp/sample/b.md" <<'SAMPLE'
# What a heading may be called

A code span is one word: `a b c d e f g h i j k l m n o p q r s t u v w x y z shall`, and not more
than that.
One two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
seventeen eighteen nineteen twenty twentyone twentytwo twentythree twentyfour twentyfive twentysix.
This line is longer than one hundred columns. This line is longer than one hundred columns. Is it so?

    indented code is not checked, nobody reads it, and it may be longer than one hundred columns, too

| A table may be longer than one hundred columns. | It may. | But each cell is such a paragraph. | |
SAMPLE
cat >"$tmp/sample/c.pod" <<'SAMPLE'
=item B<shall>

What fails is in C<nobody>. What fails?

 nobody reads verbatim text
SAMPLE
cat >"$tmp/expected" <<'SAMPLE'
a.h:3: comment starts with: of
a.h:4: comment starts with: it
a.h:6: anew
a.h:5: sentence with 2 colons
a.h:8: nobody
a.h:8: sentence starts with: Nobody
a.h:8: whoever
a.h:8: sentence starts with: Whoever
b.md:7: line of 101 columns
b.md:5: sentence of 26 words
b.md:11: such a
c.pod:1: shall
c.pod:3: sentence starts with: What
SAMPLE
printf '%s\n' "$tmp"/sample/* | findings | sed "s,^$tmp/sample/,," >"$tmp/found"
diff "$tmp/expected" "$tmp/found" || fail "prose.awk finds something else (>) in its sample"

# ---- the files ----

# report/ is written by "make report".
source_files | grep -E '\.([ch]|md|pod)$' | grep -v '^report/' | sort >"$tmp/texts"
grep -qx README.md "$tmp/texts" || fail "found no texts"
findings <"$tmp/texts" >"$tmp/findings"
if [ -s "$tmp/findings" ]; then
    cat "$tmp/findings"
    fail "see above; tests/meta/prose.awk has the rules"
fi
