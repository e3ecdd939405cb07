#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# promtool accepts the alert rules. With the series of alerts.yml, each alert fires
# when it should, and not before.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"

requires promtool --version
cp "$top_srcdir/docs/prometheus/farpage.rules.yml" "$top_srcdir/tests/integration/alerts.yml" "$tmp"
promtool check rules "$tmp/farpage.rules.yml" || fail "promtool refuses the rules"
promtool test rules "$tmp/alerts.yml" || fail "an alert fires at another time"
# alerts.yml tries each alert.
grep -oE 'alert: .*' "$tmp/farpage.rules.yml" | sort >"$tmp/there"
grep -oE 'alertname: .*' "$tmp/alerts.yml" | sed 's/alertname/alert/' | sort -u >"$tmp/tried"
diff "$tmp/there" "$tmp/tried" || fail "alerts that exist (<) and those that are tried (>) differ"
