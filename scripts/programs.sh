# shellcheck shell=bash
# What scripts/test.sh and scripts/campaigns.sh share: programs that are built once, and how results are told.

# What is installed has to be tested: without this, a test would make do with one
# kind of server.
TESTSERVER_REQUIRE=""
for kind in valkey redis; do
	command -v "$kind-server" >/dev/null && TESTSERVER_REQUIRE+=" $kind"
done
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export TESTSERVER_REQUIRE folder

# built builds the command, for the packages that start it, with fenlock-all beside it; servers of etcd and NATS go into
# Go's cache.
TESTSERVER_FENLOCK=$folder/fenlock
export TESTSERVER_FENLOCK
built() {
	go build -o "$folder/" ./cmd/fenlock ./cmd/fenlock/fenlock-all &&
		(cd tools/etcd && GOWORK=off GOFLAGS="" go tool -n go.etcd.io/etcd/server/v3 >/dev/null) &&
		(cd tools/nats && GOWORK=off GOFLAGS="" go tool -n github.com/nats-io/nats-server/v2 >/dev/null)
}

# report prints what is in a log of go test -v, and returns its status: report WHAT LOG STATUS
report() {
	local log=$2 status=$3
	{
		echo "== $1"
		if [ "$status" != 0 ]; then
			# What failed, before what was said: that may be long.
			grep -E '^\s*--- FAIL|^FAIL\s|^panic' "$log"
			# Where the time was up, what was running, and what the goroutines of tests wait for.
			sed -n '/^panic: test timed out after/,/^$/p' "$log"
			grep -q '^panic: test timed out after' "$log" &&
				awk -v RS= -v ORS='\n\n' '/^goroutine / && /_test\.go:/ && !/testing\.\(\*T\)\.Parallel/' "$log" | head -n 300
			# Everything that a failed test said; the passing ones' output would bury it.
			grep -vE '^\s*(=== (RUN|PAUSE|CONT|NAME)|--- PASS)' "$log" | tail -n 300
		else
			grep -E '^(ok|FAIL)\s' "$log"
			# What the exhaustive check covered is a result, not noise.
			grep -oE '[0-9]+ states, .*' "$log"
		fi
		# Anywhere in a line: what a test prints may end without a newline.
		if grep -E -- '--- SKIP: \S+ \([0-9.]+s\)' "$log"; then
			echo "skipped tests count as failed"
			status=1
		fi
	} >"$log.report"
	cat "$log.report"
	return "$status"
}
export -f report
