#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The documents and man pages as HTML: every link leads to a page, and to a heading
# of it.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"
requires markdown_py --version

"$top_srcdir/docs/make-html" "$tmp/html"
cat >"$tmp/links.py" <<'END'
import os, re, sys
top = sys.argv[1]
pages = [os.path.join(d, f) for d, _, files in os.walk(top) for f in files if f.endswith(".html")]
texts = {page: open(page).read() for page in pages}
headings = {page: set(re.findall(r'\bid="([^"]+)"', text)) for page, text in texts.items()}
bad = count = 0
for page, text in texts.items():
    for link in re.findall(r'\bhref="([^"]+)"', text):
        if re.match("[a-z]+:", link):
            continue
        count += 1
        path, _, heading = link.partition("#")
        to = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
        if not os.path.exists(to) or heading and heading not in headings[to]:
            print(f"{os.path.relpath(page, top)}: there is no {link}")
            bad = 1
if count < 300:
    sys.exit(f"found only {count} links")
sys.exit(bad)
END
python3 "$tmp/links.py" "$tmp/html" || fail "see above"
