#!/usr/bin/env bash
# Installs the solver of make proof, z3 or $1 (cvc5), from the packages of Debian or Ubuntu, if it is
# missing. As root or through sudo.
set -euo pipefail
export LC_ALL=C DEBIAN_FRONTEND=noninteractive
solver=${1:-z3}
command -v "$solver" >/dev/null && exit
root=()
[ "$(id -u)" = 0 ] || root=(sudo)
if ! "${root[@]}" apt-get install -y -qq "$solver" >/dev/null 2>&1; then
	"${root[@]}" apt-get update -qq
	"${root[@]}" apt-get install -y -qq "$solver" >/dev/null
fi
command -v "$solver" >/dev/null || {
	echo "$solver is not there after its installation: nothing is proved" >&2
	exit 1
}
