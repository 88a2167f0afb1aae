#!/usr/bin/env bash
# Fuzzes every target of the given modules, one after the other, each for FUZZTIME:
# scripts/fuzz.sh [-only REGEXP] FOLDER...
#
# FUZZTIME is 30s unless set; a campaign takes 10m. -only picks the targets for which
# "package Name" matches. For each target it prints how many inputs were tried, and
# how many of them reached something new. A finding is a failure: its input is in
# testdata/fuzz beside the target, where plain go test runs it from then on.
set -uo pipefail
cd "$(dirname "$0")/.."
only=.
if [[ "${1:-}" == -only ]]; then
	only=$2
	shift 2
fi
fuzztime=${FUZZTIME:-30s}
if ! [[ $fuzztime =~ ^([1-9][0-9]*)([smh])$ ]]; then
	echo "FUZZTIME is $fuzztime: a number and s, m or h are expected" >&2
	exit 64
fi
declare -A unit=([s]=1 [m]=60 [h]=3600)
# Building with coverage takes minutes where a database is part of it.
most=$((BASH_REMATCH[1] * unit[${BASH_REMATCH[2]}] + 900))
log=$(mktemp)
trap 'rm -f "$log"' EXIT
status=0 targets=0

fuzz() { # module, package, target
	local code began=$SECONDS last verdict=ok
	# One worker at a time. Go would spend up to a minute on making each new input
	# smaller, and most of the time on nothing else.
	(cd "$1" && exec timeout -k 30 "$most" go test -run '^$' -fuzz "^$3\$" -fuzztime "$fuzztime" \
		-fuzzminimizetime 1x -parallel=1 -timeout 0 "$2") >"$log" 2>&1 </dev/null
	code=$?
	last=$(grep -oE 'execs: [0-9]+ .*' "$log" | tail -n 1)
	if [ $code -ne 0 ]; then
		verdict=FINDING
		# Go up to 1.26 races with itself when the time is over (golang.org/issue/75804).
		if [ $code -eq 1 ] && grep -qE '^\s+context deadline exceeded$' "$log" && ! grep -qE 'Failing input|panic|fuzz_test.go' "$log"; then
			verdict=ok
		fi
	fi
	printf '%-8s%s %s: %ss, %s\n' "$verdict" "$2" "$3" $((SECONDS - began)) \
		"$(sed -E 's/execs: ([0-9]+) .*new interesting: ([0-9]+) .*/\1 executions, \2 new interesting inputs/' <<<"${last:-nothing was run}")"
	if [ $verdict = FINDING ]; then
		[ $code -ge 124 ] && echo "it was ended after ${most}s: it hangs" >&2
		grep -v '^fuzz: ' "$log" | tail -n 100
		status=1
	fi
}

for module in "$@"; do
	# Whatever does not compile has no targets, and is no success.
	packages=$(cd "$module" && go list -f '{{.ImportPath}} {{.Dir}}' ./...) || status=1
	while read -r package dir; do
		[ -n "$dir" ] || continue
		for target in $(grep -hoE '^func Fuzz[A-Za-z0-9_]*\(f \*testing\.F\)' "$dir"/*_test.go 2>/dev/null | grep -oE 'Fuzz[A-Za-z0-9_]*'); do
			[[ "$package $target" =~ $only ]] || continue
			targets=$((targets + 1))
			fuzz "$module" "$package" "$target"
		done
	done <<<"$packages"
done
if [ $targets -eq 0 ]; then
	echo "no target was found" >&2
	exit 1
fi
exit $status
