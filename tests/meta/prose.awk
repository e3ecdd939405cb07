# SPDX-License-Identifier: BSD-3-Clause
# Print FILE:LINE: FINDING for each place where a text breaks a rule of prose that
# a program can check. The texts are the comments of .c and .h files, and .md and
# .pod files without their code:
#   awk -f prose.awk FILE...
# The rules:
#   - None of the words and phrases of "forbidden" below.
#   - No sentence starts with Who, Whoever, What or Nobody, unless it is a question.
#   - No comment starts with Of, The same, Likewise, It or Its.
#   - A sentence has at most 25 words and one colon. A code span is one word.
#   - A line of a document has at most 100 columns, except in tables and code.
#   - A comment of a header has at most 40 lines.
# It is written for any POSIX awk: mawk has no {N,M} in regular expressions.

BEGIN {
    n = split("anew|as ever|by and by|in vain|manieth|shall|such a|such an|of which|" \
              "is to be|are to be|was to be|were to be|nobody|nobody's|" \
              "whoever|whoever's|whomever|by who|for who|from who|of who|than who|to who|with who",
              list, "|")
    for (i = 1; i <= n; i++)
        forbidden[list[i]]
}

FNR == 1 {
    check()
    file = FILENAME
    kind = file
    sub(/.*\./, "", kind)
    in_comment = in_code = verbatim = 0
    blank = 1
}

kind == "c" || kind == "h" { c_line($0); next }
kind == "md" { md_line($0); next }
kind == "pod" { pod_line($0); next }

END { check() }

function report(line, finding) { print file ":" line ": " finding }

# Add a line to the paragraph. "what" is what the paragraph is: "text", "heading",
# or "opening", the first one of a comment.
function add(line, what)
{
    if (text == "") {
        text_line = FNR
        text_is = what
        text = line
    } else
        text = text "\n" line
}

# Check the paragraph, and begin another one.
function check(    rows, n, r, row, tokens, m, t, token, word)
{
    if (text == "")
        return
    n = split(mask(text), rows, "\n")
    text = ""
    begin_sentence()
    for (r = 1; r <= n; r++) {
        row = text_line + r - 1
        m = split(rows[r], tokens, /[ \t]+/)
        for (t = 1; t <= m; t++) {
            token = tokens[t]
            word = tolower(token)
            gsub(/^[^a-z0-9_]+|[^a-z0-9_]+$/, "", word)
            if (word != "")
                check_word(row, token, word)
            if (ends_sentence(token, word))
                end_sentence(token ~ /\?/)
        }
    }
    end_sentence(0)
}

function begin_sentence()
{
    words = colons = 0
    first = before = before2 = ""
}

function check_word(row, token, word)
{
    if (++words == 1) {
        first = token
        sentence_line = row
    }
    if (word in forbidden)
        report(row, word)
    if ((before " " word) in forbidden)
        report(row, before " " word)
    if ((before2 " " before " " word) in forbidden)
        report(row, before2 " " before " " word)
    if (text_is == "opening") {
        if (words == 1 && word ~ /^(of|likewise|its?)$/)
            report(row, "comment starts with: " word)
        if (words == 2 && before == "the" && word == "same")
            report(row, "comment starts with: the same")
        if (words == 2)
            text_is = "text"
    }
    if (token ~ /:["')*]*$/)
        colons++
    before2 = before
    before = word
}

function ends_sentence(token, word)
{
    return token ~ /[.?!]["')*>]*$/ && token !~ /\.\.\.["')*>]*$/ &&
        word !~ /^(e\.g|i\.e|cf|vs)$/
}

function end_sentence(question)
{
    if (words > 0 && text_is != "heading") {
        gsub(/^[^A-Za-z]+|[^A-Za-z]+$/, "", first)
        if (!question && first ~ /^(Who|Whoever|What|Nobody)$/)
            report(sentence_line, "sentence starts with: " first)
        if (words > 25)
            report(sentence_line, "sentence of " words " words")
        if (colons > 1)
            report(sentence_line, "sentence with " colons " colons")
    }
    if (words > 0 && text_is == "opening")
        text_is = "text"
    begin_sentence()
}

# Make each code span and each link one word, also if it goes over several lines.
function mask(s)
{
    if (kind == "md") {
        s = mask_all(s, "`[^`]+`")
        gsub(/\]\([^) ]*\)/, "]", s)
    } else if (kind == "pod") {
        s = mask_all(s, "[CFLX]<<+ [^>]* >>+")
        s = mask_all(s, "[CFLX]<[^<>]*>")
        gsub(/[BI]</, "", s)
        gsub(/>/, "", s)
    }
    return s
}

function mask_all(s, pattern,    done, span, newlines)
{
    done = ""
    while (match(s, pattern)) {
        span = substr(s, RSTART, RLENGTH)
        newlines = span
        gsub(/[^\n]/, "", newlines)
        done = done substr(s, 1, RSTART - 1) "Code" newlines
        s = substr(s, RSTART + RLENGTH)
    }
    return done s
}

# One word, such as an address, cannot be wrapped.
function check_columns(line,    rest)
{
    gsub(/[\200-\277]/, "", line) # count the first byte of each UTF-8 character
    rest = line
    gsub(/^[ \t]*([*+-] +)?|[ \t]+$/, "", rest)
    if (length(line) > 100 && rest ~ /[ \t]/)
        report(FNR, "line of " length(line) " columns")
}

function md_line(line,    cells, n, i)
{
    if (line ~ /^ *```/) {
        check()
        in_code = !in_code
        return
    }
    if (in_code)
        return
    if (line ~ /^[ \t]*$/) {
        check()
        blank = 1
        return
    }
    if (blank && line ~ /^(    |\t)/) # indented code goes on to the next blank line
        verbatim = 1
    else if (blank)
        verbatim = 0
    blank = 0
    if (verbatim)
        return
    if (line ~ /^ *\|/) {
        check()
        n = split(mask(line), cells, "|")
        for (i = 1; i <= n; i++) {
            if (cells[i] ~ /[A-Za-z]/)
                add(cells[i], "text")
            check()
        }
        return
    }
    check_columns(line)
    if (line ~ /^#/ || line ~ /^<!--/) {
        check()
        add(line, "heading")
        check()
        return
    }
    if (sub(/^ *([*+-]|[0-9]+\.|:) +/, "", line))
        check()
    add(line, "text")
}

function pod_line(line)
{
    if (line ~ /^[ \t]*$/) {
        check()
        blank = 1
        return
    }
    if (blank)
        verbatim = line ~ /^[ \t]/
    blank = 0
    if (verbatim)
        return
    if (line ~ /^=/) {
        check()
        if (sub(/^=(head[1-4]|item) +/, "", line))
            add(line, "heading")
        return
    }
    check_columns(line)
    add(line, "text")
}

function c_line(line,    end, quote)
{
    while (line != "") {
        if (in_comment) {
            end = index(line, "*/")
            if (!end) {
                comment_line(line)
                return
            }
            comment_line(substr(line, 1, end - 1))
            line = substr(line, end + 2)
            end_comment()
        } else if (!match(line, /["']|\/\*|\/\//))
            return
        else {
            quote = substr(line, RSTART, 1)
            end = substr(line, RSTART, 2)
            line = substr(line, RSTART + (quote == "/" ? 2 : 1))
            if (end == "/*" || end == "//") {
                in_comment = 1
                comment_begin = FNR
                indent = 0
                opening = 1
                if (end == "//") { # it ends with the line
                    comment_line(line)
                    end_comment()
                    return
                }
            } else
                line = after_quote(line, quote)
        }
    }
    if (in_comment)
        comment_line("")
}

function after_quote(line, quote,    found)
{
    while (match(line, /\\.|["']/)) {
        found = substr(line, RSTART, RLENGTH)
        line = substr(line, RSTART + RLENGTH)
        if (found == quote)
            return line
    }
    return ""
}

# A paragraph of a comment ends at an empty line, before an item of a list, and
# where the text is indented less.
function comment_line(line,    was)
{
    if (FNR > comment_begin)
        sub(/^[ \t]*\*?/, "", line)
    sub(/[ \t]+$/, "", line)
    if (line == "") {
        check()
        return
    }
    was = indent
    match(line, /^[ \t]*/)
    indent = FNR == comment_begin ? 1 : RLENGTH
    if (indent < was || line ~ /^[ \t]*([-*]|[0-9]+\.) / || line ~ /^[ \t]*[A-Z][a-z]+:  /)
        check()
    sub(/^[ \t]*([-*]|[0-9]+\.) /, "", line)
    add(line, opening ? "opening" : "text")
    opening = 0
}

function end_comment()
{
    check()
    in_comment = 0
    if (kind == "h" && FNR - comment_begin + 1 > 40)
        report(comment_begin, "comment of " FNR - comment_begin + 1 " lines")
}
