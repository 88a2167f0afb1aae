#!/usr/bin/env bash
# Installs the servers that the tests run on, as far as they are missing, from the
# packages of Debian or Ubuntu: Redis, Valkey, PostgreSQL, MariaDB; a C compiler, for the library
# that sets the clocks of running servers; systemd-analyze, which checks the units of
# deploy/systemd; Chromium, for the page of "fenlock ui"; Prometheus with promtool, for
# deploy/prometheus and deploy/grafana; ZooKeeper's jars with a Java to run them; Python and
# Node.js, for the clients of "fenlock hold"; MkDocs with its theme Material, for the site; and z3,
# which proves. As root or through sudo. Arguments name the only ones that are wanted:
# install-servers.sh mkdocs
#
# It starts no service, makes no database cluster and leaves the system's package
# sources alone: the tests start servers of their own (internal/testserver).
# Valkey may be unavailable; it fails if neither Valkey nor Redis can be had, or
# no PostgreSQL server.
set -euo pipefail
export LC_ALL=C DEBIAN_FRONTEND=noninteractive

# One at a time, as make verify and make setup may run beside each other. A server that is started by its package does not
# inherit the lock (-o).
if [ "$(id -u)" = 0 ] && [ -z "${ALONE:-}" ] && command -v flock >/dev/null; then
	ALONE=1 exec flock -o "$0" bash "$0" "$@"
fi

newest_postgres() { # the newest server's path
	local found
	found=$(find /usr/lib/postgresql -path '*/bin/postgres' 2>/dev/null | sort -V | tail -n 1)
	[ -n "$found" ] || found=$(type -P postgres) || return 1
	echo "$found"
}
mariadb_server() { type -P mariadbd || echo /usr/sbin/mariadbd; }
have() {
	case $1 in
	systemd-analyze) command -v systemd-analyze >/dev/null && [ -e /lib/systemd/system/multi-user.target ] ;;
	postgresql) newest_postgres >/dev/null ;;
	pgbouncer) [ -x /usr/sbin/pgbouncer ] ;;
	zookeeper) command -v java >/dev/null && [ -e /usr/share/java/zookeeper.jar ] ;;
	mariadb) [ -x "$(mariadb_server)" ] && command -v mariadb-install-db >/dev/null && command -v my_print_defaults >/dev/null ;;
	prometheus) command -v prometheus >/dev/null && command -v promtool >/dev/null ;;
	mkdocs) command -v mkdocs >/dev/null && mkdocs build --help | grep material >/dev/null ;;
	*) command -v "$1" >/dev/null ;;
	esac
}
report() {
	local line=""
	[ $# -gt 1 ] || return 0
	if have redis-server; then line+="Redis $(redis-server --version | sed 's/.* v=\([^ ]*\).*/\1/'), "; fi
	if have valkey-server; then line+="Valkey $(valkey-server --version | sed 's/.* v=\([^ ]*\).*/\1/'), "; fi
	if have postgresql; then line+="PostgreSQL $("$(newest_postgres)" --version | awk '{print $3}'), "; fi
	if have mariadb; then line+="MariaDB $("$(mariadb_server)" --version | sed 's/.*Ver \([0-9.]*\).*/\1/'), "; fi
	if have prometheus; then line+="Prometheus $(prometheus --version 2>&1 | awk 'NR == 1 {sub(/\+.*/, "", $3); print $3}'), "; fi
	if have zookeeper; then line+="ZooKeeper $(find /usr/share/java -name 'zookeeper-[0-9]*.jar' | sed 's/.*zookeeper-\(.*\)\.jar/\1/'), "; fi
	echo "servers for the tests: ${line%, }"
}

if [ $# = 0 ]; then
	set -- redis-server valkey-server postgresql pgbouncer mariadb cc systemd-analyze chromium prometheus zookeeper python3 node mkdocs z3
fi
missing=()
for server in "$@"; do
	have $server || missing+=("$server")
done
if [ ${#missing[@]} = 0 ]; then
	report "$@"
	exit
fi
if ! command -v apt-get >/dev/null; then
	echo "install ${missing[*]} by hand: this script knows Debian and Ubuntu only" >&2
	exit 1
fi
if [ "$(id -u)" != 0 ]; then
	if ! command -v sudo >/dev/null; then
		echo "installing ${missing[*]} takes root, and there is no sudo" >&2
		exit 1
	fi
	exec sudo bash "$0" "$@"
fi

tmp=$(mktemp -d)
chmod 755 "$tmp" # apt downloads as a user of its own
cleanup=("rm -rf '$tmp'")
trap 'for step in "${cleanup[@]}"; do eval "$step"; done' EXIT
trap 'exit 1' INT TERM # a signal must not leave policy-rc.d behind

policy=/usr/sbin/policy-rc.d
if [ ! -e $policy ]; then
	cleanup+=("rm -f $policy")
	printf '#!/bin/sh\nexit 101\n' >$policy
	chmod 755 $policy
fi

# What apt says is shown only if it fails.
quietly() {
	if ! "$@" >"$tmp/log" 2>&1; then
		cat "$tmp/log" >&2
		return 1
	fi
}
apt=(apt-get -qq -o DPkg::Lock::Timeout=300)
# Not grep -q: it would end early, and apt-cache with it, and so pipefail.
known() { apt-cache policy "$1" | grep '^ *Candidate: [0-9]' >/dev/null; }
install() { # package [apt option...]
	local package=$1
	shift
	echo "installing $package"
	quietly "${apt[@]}" "$@" install -y --no-install-recommends "$package"
}

# On Debian 12 Valkey is in the backports. They are read through a list of our own,
# with indexes and caches of our own, so that the system never hears of them.
install_valkey_from_backports() {
	local mirror signed=""
	# shellcheck disable=SC2016 # apt expands it
	mirror=$(apt-get indextargets --format '$(RELEASE) $(COMPONENT) $(REPO_URI)' 'Created-By: Packages' |
		awk '$1 == "bookworm" && $2 == "main" && !n++ {print $3}')
	mirror=${mirror:-http://deb.debian.org/debian}
	if [ -e /usr/share/keyrings/debian-archive-keyring.gpg ]; then
		signed="[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] "
	fi
	mkdir -p "$tmp/lists/partial"
	printf "deb $signed%s %s main\n" "$mirror" bookworm "$mirror" bookworm-backports >"$tmp/sources.list"
	local options=(
		-o Dir::Etc::sourcelist="$tmp/sources.list" -o Dir::Etc::sourceparts=/dev/null
		-o Dir::State::lists="$tmp/lists" -o Dir::Cache::pkgcache="" -o Dir::Cache::srcpkgcache=""
	)
	quietly "${apt[@]}" "${options[@]}" update && install valkey-server "${options[@]}"
}

quietly "${apt[@]}" update || echo "apt-get update failed; going on with the indexes at hand" >&2

for server in "${missing[@]}"; do
	case $server in
	redis-server)
		if known redis-server; then install redis-server || true; fi
		have redis-server || echo "Redis is not to be had on this system"
		;;
	valkey-server)
		if known valkey-server; then
			install valkey-server || true
		elif [ "$(. /etc/os-release && echo "$ID ${VERSION_CODENAME:-}")" = "debian bookworm" ]; then
			install_valkey_from_backports || true
		fi
		have valkey-server || echo "Valkey is not to be had on this system"
		;;
	postgresql)
		# This package's configuration decides whether the server's makes a cluster.
		install postgresql-common
		config=/etc/postgresql-common/createcluster.conf
		cp -p $config "$tmp/createcluster.conf"
		cleanup=("cp -p '$tmp/createcluster.conf' $config" "${cleanup[@]}")
		echo "create_main_cluster = false" >>$config
		install postgresql
		;;
	mariadb)
		# The programs and no service: that is mariadb-server. What makes a data folder needs
		# my_print_defaults, which some versions have among the clients.
		install mariadb-server-core
		have mariadb || install mariadb-client-core
		;;
	cc)
		install libc6-dev
		install gcc
		;;
	systemd-analyze)
		# The program and systemd's units, not an init system: that is systemd-sysv.
		install systemd
		;;
	chromium)
		# Ubuntu has it as a snap only: there it is to be installed by hand.
		if known chromium; then install chromium || true; fi
		have chromium || echo "Chromium is not to be had on this system: the tests of the page in a browser fail without it"
		;;
	node)
		install nodejs
		;;
	mkdocs)
		install mkdocs
		install mkdocs-material
		;;
	zookeeper)
		# The jars, not the service, which Debian has in a package of its own.
		command -v java >/dev/null || install default-jre-headless
		install libzookeeper-java
		;;
	*) # pgbouncer, python3, prometheus, z3, cvc5
		install "$server"
		;;
	esac
done

report "$@"
if [ $# -gt 1 ] && ! have redis-server && ! have valkey-server; then
	echo "neither Redis nor Valkey could be installed: the tests need one of them" >&2
	exit 1
fi
