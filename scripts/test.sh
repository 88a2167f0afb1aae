#!/usr/bin/env bash
# Runs the tests of the given modules: scripts/test.sh [go test flags] FOLDER...
# A skipped test is a failure: what was not run was not shown to work.
set -uo pipefail
cd "$(dirname "$0")/.."
flags=()
while [[ "${1:-}" == -* ]]; do
	flags+=("$1")
	shift
done
# What is installed has to be tested: without this, a test would make do with one
# kind of server.
TESTSERVER_REQUIRE=""
for kind in valkey redis; do
	command -v "$kind-server" >/dev/null && TESTSERVER_REQUIRE+=" $kind"
done
export TESTSERVER_REQUIRE
log=$(mktemp)
trap 'rm -f "$log"' EXIT
status=0
for module in "$@"; do
	echo "== $module"
	if ! (cd "$module" && go test -count=1 -timeout 15m -v "${flags[@]}" ./...) >"$log" 2>&1; then
		# What failed, before what was said: that may be long.
		grep -E '^\s*--- FAIL|^FAIL\s|^panic' "$log"
		# Everything that a failed test said; the passing ones' output would bury it.
		grep -vE '^\s*(=== (RUN|PAUSE|CONT|NAME)|--- PASS)' "$log" | tail -n 300
		status=1
	else
		grep -E '^(ok|FAIL)\s' "$log"
		# What the exhaustive check covered is a result, not noise.
		grep -oE '[0-9]+ states, .*' "$log"
	fi
	if grep -E '^\s*--- SKIP' "$log"; then
		echo "skipped tests count as failed" >&2
		status=1
	fi
done
exit $status
