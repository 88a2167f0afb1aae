#!/usr/bin/env bash
# Runs the tests of the given modules: scripts/test.sh [go test flags] FOLDER...
# A skipped test is a failure: what was not run was not shown to work. The engines'
# tests mostly wait for servers, so that two of them are run at a time, and before the root
# module's, which compute, and have what is left; the others are run alone, in the order given.
set -uo pipefail
cd "$(dirname "$0")/.."
flags=""
while [[ "${1:-}" == -* ]]; do
	flags+=" $1"
	shift
done
# What is installed has to be tested: without this, a test would make do with one
# kind of server.
TESTSERVER_REQUIRE=""
for kind in valkey redis; do
	command -v "$kind-server" >/dev/null && TESTSERVER_REQUIRE+=" $kind"
done
export TESTSERVER_REQUIRE flags
logs=$(mktemp -d)
export logs
trap 'rm -rf "$logs"' EXIT

# tested runs the tests of one module, and prints what came of it when they have ended.
tested() {
	local module=$1 status=0 niceness=0 limit=15m
	[ "$module" = . ] && niceness=19 limit=25m
	local log="$logs/of-${module//\//-}"
	# shellcheck disable=SC2086 # flags are words
	(cd "$module" && nice -n $niceness go test -count=1 -timeout $limit -v $flags ./...) >"$log" 2>&1 || status=1
	{
		echo "== $module"
		if [ $status != 0 ]; then
			# What failed, before what was said: that may be long.
			grep -E '^\s*--- FAIL|^FAIL\s|^panic' "$log"
			# Everything that a failed test said; the passing ones' output would bury it.
			grep -vE '^\s*(=== (RUN|PAUSE|CONT|NAME)|--- PASS)' "$log" | tail -n 300
		else
			grep -E '^(ok|FAIL)\s' "$log"
			# What the exhaustive check covered is a result, not noise.
			grep -oE '[0-9]+ states, .*' "$log"
		fi
		if grep -E '^\s*--- SKIP' "$log"; then
			echo "skipped tests count as failed"
			status=1
		fi
	} >"$log.report"
	cat "$log.report"
	return $status
}
export -f tested

status=0
pairs=()
root=""
together() {
	if [ ${#pairs[@]} != 0 ]; then
		printf '%s\n' "${pairs[@]}" | xargs -P 2 -I{} bash -c 'tested "$1"' - {} || status=1
		pairs=()
	fi
	if [ -n "$root" ]; then
		wait "$root" || status=1
		root=""
	fi
}
for module in "$@"; do
	case $module in
	.)
		tested . &
		root=$!
		;;
	node/* | examples | examples/* | fence/* | integration/*) pairs+=("$module") ;;
	*)
		together
		tested "$module" || status=1
		;;
	esac
done
together
exit $status
