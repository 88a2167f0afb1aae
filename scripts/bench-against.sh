#!/usr/bin/env bash
# Measures this tree against another revision: scripts/bench-against.sh REV
#
# What is printed are ratios of paired runs, on the same servers and one after the
# other, because the speed of a machine drifts by more than most changes do.
# ROUNDS pairs are made (default 20).
#
# The other revision may be older than the folder bench, so the program that is
# measured is put into the one module that needs nothing else: node/valkeynode.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ $# != 1 ] || ! commit=$(git rev-parse --verify --quiet "$1^{commit}"); then
	echo "usage: scripts/bench-against.sh REV (a revision that git knows)" >&2
	exit 64
fi
tmp=$(mktemp -d)
trap 'git worktree remove --force "$tmp/tree" || true; rm -rf "$tmp"' EXIT
trap 'exit 1' INT TERM

git worktree add --quiet --detach "$tmp/tree" "$commit"
if [ ! -e "$tmp/tree/node/valkeynode/go.mod" ]; then
	echo "$1 has no node/valkeynode" >&2
	exit 1
fi
mkdir "$tmp/tree/node/valkeynode/benchcycle"
cp bench/cycle/main.go "$tmp/tree/node/valkeynode/benchcycle/"
(cd "$tmp/tree/node/valkeynode" && go build -o "$tmp/old" ./benchcycle)
cd bench
go build -o "$tmp/new" ./cycle
go build -o "$tmp/bench" .
echo "old is $1 ($(git log -1 --format='%h %s' "$commit")), new is this tree"
"$tmp/bench" -old "$tmp/old" -new "$tmp/new" -rounds "${ROUNDS:-20}"
