#!/usr/bin/env bash
# Runs the tests that take minutes, those of the build tag campaign: searches to their end, thousands of
# seeds, every broken variant, histories of every engine. scripts/campaigns.sh [NAME...]
#
#   NAME...     these, whatever has changed
#   ALL=1       all of them
#   SINCE=REV   those whose files differ from where this tree has left the revision REV, however long they take
#   otherwise   as many as fit into CAMPAIGN_MINUTES (default 15), the most valuable first
#
# Those of lane "compute" go on, one after the other, beside those of lane "servers", which mostly wait.
set -uo pipefail
cd "$(dirname "$0")/.."
export limit=$((${CAMPAIGN_MINUTES:-15} * 60))

# name | lane | seconds on two idle cores | folder of the module | what go test is given | files that it is about
campaigns='
searches   | compute | 380 | .            | ./internal/core | internal/core node/rule node/node.go node/holder.go node/queue.go fence proof internal/proof
three      | compute | 250 | .            | -tags three -run ThreeAttempts/at_the_same_time ./internal/core | internal/core node/rule node/node.go node/holder.go node/queue.go fence
simulation | compute | 300 | .            | ./internal/sim | internal/sim internal/core internal/shell internal/check node/rule node/admit node/node.go node/holder.go node/queue.go fence proof internal/proof
files      | compute | 200 | .            | ./node/filenode | node/filenode node/rule
histories  | servers | 320 | tests        | -run Campaign ./faults ./faults/slots | tests/faults tests/history internal/core internal/shell node lock.go locker.go
counters   | servers | 280 | tests        | -run Campaign ./engines | tests/engines cmd/fenlock internal/shell internal/core node
names      | servers | 400 | tests        | -run CampaignNewNames . | node/pgnode node/mysqlnode node/etcdnode
'
table() { sed 's/ *| */|/g; s/^ *//; s/ *$//; /^$/d' <<<"$campaigns"; }

if [ "${1:-}" = -list ]; then
	table | awk -F'|' '{printf "%-12s about %3d s: go test -tags campaign %s (in %s), when these change: %s\n", $1, $3, $5, $4, $6}'
	exit
fi

changed=""
if [ -n "${SINCE:-}" ]; then
	# A branch's first push has none: as if nothing were known of what changed.
	if base=$(git merge-base HEAD "$SINCE"); then
		changed=$(git diff --name-only "$base"; git ls-files --others --exclude-standard)
	else
		echo "SINCE=$SINCE has no ancestor in common with this tree: as many campaigns as fit" >&2
		SINCE=""
	fi
fi
touched() { # touched FILE...: is one of them, or a file in one of them, changed?
	local path
	for path in "$@"; do
		grep -qE "^${path//./\\.}(/|$)" <<<"$changed" && return 0
	done
	return 1
}

chosen="" must="" # must: however long it takes
while IFS='|' read -r name lane seconds module arguments files; do
	for file in $files; do
		[ -e "$file" ] || { echo "$name: there is no $file" >&2; exit 2; }
	done
	if [ $# != 0 ]; then
		[[ " $* " == *" $name "* ]] || continue
		must=1
	elif [ -n "${ALL:-}" ]; then
		must=1
	elif [ -n "${SINCE:-}" ]; then
		# shellcheck disable=SC2086 # files are words
		touched $files || { echo "== $name: not run, its files are those of $SINCE"; continue; }
		must=1
	fi
	chosen+="$name|$lane|$seconds|$module|$arguments|$must"$'\n'
done < <(table)
for name in "$@"; do
	grep -q "^$name|" <<<"$chosen" || { echo "there is no campaign $name: scripts/campaigns.sh -list" >&2; exit 2; }
done
[ -n "$chosen" ] || exit 0
# shellcheck source=scripts/programs.sh
. scripts/programs.sh
if grep -q '|servers|' <<<"$chosen"; then
	built || exit 1
fi

SECONDS=0
run() { # run LANE: one campaign after the other
	local status=0 name lane seconds module arguments must log came began niceness
	while IFS='|' read -r name lane seconds module arguments must; do
		[ "$lane" = "$1" ] || continue
		if [ -z "$must" ] && ((SECONDS + seconds > limit)); then
			echo "== $name: not run, $((limit / 60)) minutes are not enough; scripts/campaigns.sh $name runs it"
			continue
		fi
		began=$SECONDS came=0 niceness=0 log="$folder/of-$name"
		[ "$lane" = compute ] && niceness=19
		# shellcheck disable=SC2086 # arguments are words
		(cd "$module" && nice -n $niceness go test -count=1 -tags campaign -parallel 4 -p 1 -timeout 60m -v $arguments) >"$log" 2>&1 </dev/null || came=1
		if ! grep -qE '^\s*--- ' "$log"; then
			echo "no test was run" >>"$log"
			came=1
		fi
		report "$name, $((SECONDS - began)) s" "$log" $came || status=1
	done <<<"$chosen"
	return $status
}
run compute &
status=0
run servers || status=1
wait $! || status=1
exit $status
