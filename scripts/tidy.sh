#!/usr/bin/env bash
# Tidies the go.mod and go.sum of every module, and the go.work.sum of every workspace.
# With --check it changes nothing, and fails if a module is not tidy; whether
# go.work.sum is complete is for clean.sh to say.
#
# "go mod tidy" alone cannot do it: the modules require each other in the version
# that they will be released as, which no proxy has yet. A replace directive in
# go.mod would help, but "go install ...@version" refuses modules that have one.
# So each module is tidied through a copy of its go.mod with replacements.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
check=0
[ "${1:-}" = "--check" ] && check=1
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

modules=$(find . -name go.mod -not -path './.cache/*' -printf '%h\n' | sort)
replace=() drop=()
for dir in $modules; do
	path=$(awk '$1 == "module" {print $2; exit}' "$dir/go.mod")
	replace+=("-replace=$path=$root/$dir")
	drop+=("-dropreplace=$path")
done

# siblings takes the sums of siblings over from the first go.sum into the second, from
# which "go mod tidy" has dropped them: they are of the version that was released, for
# users that build a clone of its tag without the workspace (make version writes them).
siblings() {
	local ours=github.com/fenlock/fenlock
	[ -s "$1" ] || return 0
	touch "$2"
	awk -v ours=$ours '
		FNR == NR { if ($1 == ours || index($1, ours "/") == 1) kept = kept $0 "\n"; next }
		$1 == ours || index($1, ours "/") == 1 { next }
		!done && $1 > ours { printf "%s", kept; done = 1 }
		{ print }
		END { if (!done) printf "%s", kept }
	' "$1" "$2" >"$tmp/siblings"
	mv "$tmp/siblings" "$2"
}

status=0
for dir in $modules; do
	cp "$dir/go.mod" "$tmp/go.mod"
	rm -f "$tmp/go.sum"
	[ -f "$dir/go.sum" ] && cp "$dir/go.sum" "$tmp/go.sum"
	go mod edit "${replace[@]}" "$tmp/go.mod"
	(cd "$dir" && GOWORK=off GOFLAGS=-mod=mod go mod tidy -modfile="$tmp/go.mod")
	go mod edit "${drop[@]}" "$tmp/go.mod"
	siblings "$dir/go.sum" "$tmp/go.sum"
	[ -s "$tmp/go.sum" ] || rm -f "$tmp/go.sum"
	for file in go.mod go.sum; do
		if cmp -s "$tmp/$file" "$dir/$file" || { [ ! -e "$tmp/$file" ] && [ ! -e "$dir/$file" ]; }; then
			continue
		fi
		if [ $check = 1 ]; then
			echo "$dir/$file is not tidy: run make fix-tidy" >&2
			status=1
		elif [ -e "$tmp/$file" ]; then
			cp "$tmp/$file" "$dir/$file"
		else
			rm -f "$dir/$file"
		fi
	done
done
if [ $check = 0 ]; then
	# What is asked for, go adds; what is stale stays, unless the file begins anew.
	for workspace in $(find . -name go.work -not -path './.cache/*' -printf '%h\n' | sort); do
		(cd "$workspace" && rm -f go.work.sum && go list -m all >/dev/null && go list all >/dev/null)
	done
fi
exit $status
