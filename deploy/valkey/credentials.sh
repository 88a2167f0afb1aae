#!/bin/sh
# Makes what a new group needs to know each other, in the current folder:
#
#   credentials.sh HOST:PORT...        one argument for each server, as its clients name it
#
#   users.acl          for every server: users and permissions. Only hashes of passwords
#   nodes.env          for the clients: FENLOCK_NODES, with the password in it
#   operator.password  for you: redis-cli --user operator
#
# It overwrites nothing: a second run would lock out the clients of the first. A server
# may have parameters of its URL behind it, as in 127.0.0.1:7001?name=1.
set -eu
example=$(dirname "$0")/users.acl.example

if [ $# -lt 1 ]; then
	echo "usage: credentials.sh HOST:PORT..., once for each server of the group" >&2
	exit 64
fi
for file in users.acl nodes.env operator.password; do
	if [ -e "$file" ]; then
		echo "credentials.sh: $file exists: move it away if the group is really to have new passwords" >&2
		exit 73
	fi
done

# 192 random bits, of characters that mean nothing in a URL, a shell or an ACL file.
# They cannot be guessed from their hash, so that users.acl is no secret.
password() { head -c 24 /dev/urandom | base64 | tr '+/' '-_'; }
hash() {
	if command -v sha256sum >/dev/null; then
		printf %s "$1" | sha256sum
	else
		printf %s "$1" | shasum -a 256
	fi | cut -c 1-64
}

lock=$(password) operator=$(password)
umask 077
nodes=
for server in "$@"; do
	nodes=$nodes,valkey://lock-user:$lock@$server
done
echo "FENLOCK_NODES=${nodes#,}" >nodes.env
echo "$operator" >operator.password
sed -e "s/LOCK-PASSWORD-SHA256/$(hash "$lock")/" -e "s/OPERATOR-PASSWORD-SHA256/$(hash "$operator")/" "$example" >users.acl
# Servers run as users of their own, and a bind mount keeps the owner.
chmod 644 users.acl
