#!/usr/bin/env bash
# Fails if one of the commands that README.md names, or that every developer runs first,
# leaves a trace in a clean clone: a go.work.sum that was incomplete, a program, a
# file of state. The clone is a copy of this folder as it is, not of a commit.
set -euo pipefail
cd "$(dirname "$0")/.."
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' INT TERM
clone=$tmp/clone most=155

# Neither the caller's configuration nor the caller's locks.
unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE GOWORK FENLOCK_NODES
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 GOFLAGS=-buildvcs=false XDG_STATE_HOME=$tmp/state

mkdir "$clone"
tar -c --exclude=./.git --exclude=./.cache --exclude=./bin --exclude=./dist . | tar -x -C "$clone"
cd "$clone"
git init -q
git add -A
git -c user.name=clean -c user.email=clean@localhost commit -qm clean
git clean -qfdX # what is ignored is in no clone

try() { # folder, command...
	if ! (cd "$1" && "${@:2}") >"$tmp/said" 2>&1 </dev/null; then
		echo "in $1: ${*:2}: failed in a clean clone" >&2
		cat "$tmp/said" >&2
		exit 1
	fi
	local left
	left=$(git status --porcelain)
	if [ -n "$left" ]; then
		echo "in $1: ${*:2}: leaves this in a clean clone (go.work.sum: run make fix-tidy)" >&2
		echo "$left" >&2
		git --no-pager diff >&2
		exit 1
	fi
}

try . go doc .
try . go doc ./node
try . go list -m all
try . go list all
try . go tool -n staticcheck
# The first command of a newcomer waits for each go.mod that the root's workspace has go fetch. An engine of fenlock-all
# costs some: that of object stores 34, or about a second of the 45 that this command may take.
try . env "GOMODCACHE=$tmp/mod" "GOPROXY=file://$(go env GOMODCACHE)/cache/download" GOSUMDB=off GOFLAGS="-buildvcs=false -modcacherw" \
	go list -deps ./cmd/fenlock
fetched=$(find "$tmp/mod/cache/download" -name '*.mod' | wc -l)
if [ "$fetched" -gt $most ]; then
	echo "go fetches $fetched files go.mod for the first command in a clone, and at most $most are wanted: give the module" >&2
	echo "that requires so many libraries a go.work of its own (CONTRIBUTING.md)" >&2
	exit 1
fi
for module in $(find . -name go.mod -printf '%h\n' | sort); do
	in=() # its workspace, unless it is in none
	[[ $module = ./tools/?* ]] && in=(env GOWORK=off)
	try "$module" "${in[@]}" go list -m all
	try "$module" "${in[@]}" go list -deps -test ./...
done
try . make -s build
try cmd/fenlock go build
readme=$(sed -n 's/^    \(go run .*\)/\1/p' README.md)
if [ -z "$readme" ]; then
	echo "README.md has no command with go run any more: what is to be tried?" >&2
	exit 1
fi
while read -r command; do
	try . bash -c "$command"
done <<<"$readme"
