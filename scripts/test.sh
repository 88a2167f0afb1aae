#!/usr/bin/env bash
# Runs the tests of the given modules: scripts/test.sh [go test flags] FOLDER...
# A skipped test is a failure: what was not run was not shown to work. Most tests wait for servers:
# JOBS modules (default 2) are run at a time, in the order given, and one package of each: more would only slow each other
# down. The root's tests compute: they leave the servers their time.
set -uo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/programs.sh
. scripts/programs.sh
flags=""
while [[ "${1:-}" == -* ]]; do
	flags+=" $1"
	shift
done
# A hang has to end early enough for the others, and for another run of it: CI (AGAIN) has half an hour for all. The longest
# package takes ten minutes there.
limit=40m
[ -n "${AGAIN:-}" ] && limit=15m
export flags limit

# tested runs the tests of one module, and prints what came of it when they have ended.
tested() {
	local module=$1 status=0 niceness=0 began=$SECONDS
	[ "$module" = . ] && niceness=10
	local log="$folder/of-${module//\//-}"
	TIMEFORMAT='%U %S'
	# shellcheck disable=SC2086 # flags are words
	{ time (cd "$module" && nice -n $niceness go test -count=1 -p 1 -parallel 4 -timeout $limit -v $flags ./... >"$log" 2>&1); } 2>"$log.cpu" || status=1
	report "$module, $((SECONDS - began)) s, $(awk '{printf "%d", $1 + $2}' "$log.cpu") s of a core" "$log" $status && return
	[ -n "${AGAIN:-}" ] && (cd "$module" && again "$log")
}

# again runs the failed tests of a module once more, alone: CI sets AGAIN. A slow moment of the machine must not stop a change that
# has nothing to do with it. The test is named, and has to be mended. Where the time was up, all tests of the package are run that
# have not passed: what hung, and what was to come. What panicked, raced, was skipped, or failed without the name of a test is not
# run again.
again() {
	local log=$1 failed package how what names
	grep -E '^panic|DATA RACE|^\s*--- SKIP' "$log" | grep -qv '^panic: test timed out after' && return 1
	failed=$(awk '
		/^--- FAIL: / {names = names "|" $3}
		/^--- PASS: / {passed = passed "|" $3}
		/^panic: test timed out after/ {late = listed = 1}
		/^$/ {listed = 0}
		listed && /^\t\t/ {sub("/.*", "", $1); if (index(names "|", "|" $1 "|") == 0) names = names "|" $1}
		/^FAIL\t/ {print $2, late ? "-skip" : "-run", names, late ? passed : names}
		/^(ok |FAIL\t)/ {names = passed = late = ""}' "$log")
	[ -n "$failed" ] || return 1
	while read -r package how what names; do
		[ -n "$what" ] || return 1
		go test -count=1 -parallel 4 -timeout "$limit" -v "$how" "^(${names#|})\$" "$package" </dev/null >"$log.again" 2>&1 ||
			{ report "$package again" "$log.again" 1; return 1; }
		grep -qE '^\s*--- SKIP' "$log.again" && return 1
		echo "FLAKY: ${what#|} of $package failed, and passed when it ran alone: mend it"
	done <<<"$failed"
}
export -f tested again

printf '%s\n' "$@" | xargs -P "${JOBS:-2}" -I{} bash -c 'tested "$1"' - {}
