#!/usr/bin/env bash
# Runs the tests of the given modules: scripts/test.sh [go test flags] FOLDER...
# A skipped test is a failure: what was not run was not shown to work. Most tests wait for servers:
# JOBS modules (default 2) are run at a time, in the order given, and one package of each: more would only slow each other
# down. The root's tests compute: they leave the servers their time.
set -uo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/programs.sh
. scripts/programs.sh
built || exit 1
flags=""
while [[ "${1:-}" == -* ]]; do
	flags+=" $1"
	shift
done
# A hang has to end early enough for the others, and for another run of it: CI (AGAIN) has half an hour for all. The longest
# package takes ten minutes there.
limit=40m
if [ -n "${AGAIN:-}" ]; then
	limit=15m
	flags+=" -vet=off" # CI has make verify run all of go vet, on the same files
fi
export flags limit

# tested runs the tests of one module, and prints what came of it when they have ended.
tested() {
	local module=$1 status=0 niceness=0 began=$SECONDS packages=./...
	[ "$module" = . ] && niceness=10
	if [ -n "${WITHOUT:-}" ]; then # a package that CI tests elsewhere
		packages=$(cd "$module" && go list ./... | grep -vxF "$WITHOUT") || { echo "== $module: go list fails"; return 1; }
	fi
	local log="$folder/of-${module//\//-}"
	TIMEFORMAT='%U %S'
	# shellcheck disable=SC2086 # flags are words
	{ time (cd "$module" && nice -n $niceness go test -count=1 -p 1 -parallel 4 -timeout $limit -v $flags $packages >"$log" 2>&1); } 2>"$log.cpu" || status=1
	report "$module, $((SECONDS - began)) s, $(awk '{printf "%d", $1 + $2}' "$log.cpu") s of a core" "$log" $status && return
	[ -n "${AGAIN:-}" ] && (cd "$module" && again "$log")
}

# again runs the failed tests of a module once more, alone: CI sets AGAIN. A slow moment of the machine must not stop a change that
# has nothing to do with it. The test is named, and has to be mended. All tests of its package are run that are not known to have
# passed. Where the time was up, that is what hung, and what was to come. What panicked, raced, was skipped, ended in another way,
# or failed without the name of a test is not run again.
again() {
	local log=$1 failed package names passed
	grep -E '^panic|DATA RACE|--- SKIP: \S+ \([0-9.]+s\)' "$log" | grep -qv '^panic: test timed out after' && return 1
	[ "$(tail -n 1 "$log")" = FAIL ] || return 1 # go test has not come to its end
	# What tests print is between these lines, may be like them, and may end without a newline. So a test that is not seen to pass
	# has not, and the package says FAIL in the end if all its tests have ended.
	failed=$(awk '
		function failed(name) {if (!(name in bad)) names = names "|" name; bad[name]}
		/^--- FAIL: / {failed($3)}
		/^--- PASS: / {good[$3]}
		/^panic: test timed out after/ {late = listed = 1}
		/^$/ {listed = 0}
		listed && /^\t\t/ {sub("/.*", "", $1); failed($1)}
		/^FAIL\t/ {
			for (name in good) if (!(name in bad)) passed = passed "|" name
			print $2, names && (late || last == "FAIL") ? substr(names, 2) : "-", substr(passed, 2)
			names = passed = late = ""
			delete bad
		}
		/^(ok |FAIL\t)/ {delete good}
		{last = $0}' "$log")
	[ -n "$failed" ] || return 1
	while read -r package names passed; do
		[ "$names" != - ] || return 1
		# shellcheck disable=SC2086 # flags are words
		go test -count=1 -parallel 4 -timeout "$limit" -v $flags -skip "^($passed)\$" "$package" </dev/null >"$log.again" 2>&1 &&
			report "$package again" "$log.again" 0 >"$log.said" || { report "$package again" "$log.again" 1; return 1; }
		echo "FLAKY: $names of $package failed, and passed when it ran alone: mend it"
	done <<<"$failed"
}
export -f tested again

printf '%s\n' "$@" | xargs -P "${JOBS:-2}" -I{} bash -c 'tested "$1"' - {}
