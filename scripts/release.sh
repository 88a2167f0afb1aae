#!/usr/bin/env bash
# Names, tries and makes releases of all modules, under one version (docs/releasing.md).
#
#   scripts/release.sh version VERSION   names VERSION in every go.mod, go.sum, go.work and CHANGELOG.md
#   scripts/release.sh check [FOLDER]    tries a release of the files as they are, and changes nothing here.
#                                        FOLDER gets what would be published
#   scripts/release.sh make VERSION      checks the commit, tags it here, and writes what is published into dist
#
# All of it happens in a clone with tags, which git is told to take for the forge: the go command fetches
# modules from it as it does from the forge. A module is released if its folder has a CHANGELOG.md.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD ours=github.com/fenlock/fenlock
goreleaser=github.com/goreleaser/goreleaser/v2@v2.16.0
cyclonedx=github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0
apidiff=golang.org/x/exp/cmd/apidiff@v0.0.0-20261014143641-f0251eb4aa3e

die() { echo "release: $*" >&2; exit 1; }
what=${1:-} version=${2:-}
case $what:$# in
check:[12]) version=v1.999.0 ;; # newer than any that users can have
version:2 | make:2) [[ $version =~ ^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$ ]] || die "\"$version\" is no version: one is v0.1.0 or v0.1.0-rc.1" ;;
*) die "usage: release.sh version VERSION, check [FOLDER], make VERSION" ;;
esac

unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE FENLOCK_NODES
tmp=$(mktemp -d)
trap 'chmod -R u+w "$tmp"; rm -rf "$tmp"' EXIT
trap 'exit 1' INT TERM
forge=$tmp/forge home=$tmp/home
mkdir "$home"
cat >"$home/gitconfig" <<END
[url "file://$forge"]
	insteadOf = https://$ours
[user]
	name = release
	email = release@localhost
[safe]
	directory = *
[advice]
	detachedHead = false
END
# A user has nothing of the caller's but Go's caches: versions that are tried stay out of the module cache.
user=(env "HOME=$home" "GIT_CONFIG_GLOBAL=$home/gitconfig" GIT_CONFIG_NOSYSTEM=1 GOENV=off GOWORK=off GOTOOLCHAIN=local
	GOFLAGS=-trimpath "GOMODCACHE=$home/mod" "GOPATH=$home/go" "GOBIN=$home/bin" "GOCACHE=$(go env GOCACHE)"
	"GOPROXY=file://$(go env GOMODCACHE)/cache/download,$(go env GOPROXY)" "GONOPROXY=$ours,$ours/*" GOSUMDB=off
	CGO_ENABLED=0 GOOS= GOARCH= GOEXPERIMENT=)
as_user() { "${user[@]}" "$@"; }
commit() { git add --all && as_user git commit -q --no-verify -m "$1"; }
step() { # name, command...: what it prints is shown if it fails
	local began=$SECONDS status
	set +e # and no condition, in which errexit would be off in the function, too
	(set -e; "${@:2}") >"$tmp/said" 2>&1
	status=$?
	set -e
	[ $status = 0 ] || { cat "$tmp/said" >&2; die "$1: failed"; }
	printf '%4d s  %s\n' $((SECONDS - began)) "$1"
}

requires() { sed -nE "s#^(require)?\s*$ours(/(\S+))? v.*#\3#p" "$1/go.mod" | sed 's/^$/./'; }
# The folders of the released modules, each after those that it requires.
modules=$(git ls-files --cached --others --exclude-standard -- CHANGELOG.md '*/CHANGELOG.md' | xargs -n 1 dirname | while read -r dir; do
	echo "$dir $dir"
	requires "$dir" | sed "s#\$# $dir#"
done | tsort)
path() { [ "$1" = . ] && echo $ours || echo "$ours/$1"; }
tag() { [ "$1" = . ] && echo "$2" || echo "$1/$2"; }
section() { sed -n "/^## $1\( (.*\)\?\$/,/^## /p" "$2" | grep -v '^## ' || true; } # of a changelog

# prepare names the version in the forge, whose newest commit has the files as they are here, and tags it.
prepare() {
	git clone -q "$root" "$forge"
	cd "$forge"
	git rm -rqf .
	tar -c -C "$root" --exclude=./.git --exclude=./.cache --exclude=./bin --exclude=./dist . | tar -x
	git add --all
	git clean -qfdX # what is ignored is in no clone
	git diff --cached --quiet || commit "the files as they are"
	git tag asis
	local dir log
	git ls-files -- go.work '*/go.work' go.mod '*/go.mod' | xargs sed -Ei "s#^((require|replace)?\s*$ours(/\S+)?) v\S+#\1 $version#"
	for dir in $modules; do
		! grep '^replace' "$dir/go.mod" || die "$dir/go.mod has a replace directive: put it into go.work"
		log=$dir/CHANGELOG.md
		[ -e "$log" ] || die "a module that is released requires $dir, which has no CHANGELOG.md and so is not"
		if ! grep -q "^## $version (" "$log"; then
			sed -i "s/^## Unreleased\$/## $version ($(date -u +%F))/" "$log"
		fi
		if ! grep -q "^## $version (" "$log"; then
			sed -i "0,/^## /s/^## /## $version ($(date -u +%F))\n\n- Nothing has changed but the version.\n\n&/" "$log"
			echo "$log has no section Unreleased: has nothing changed there?"
		fi
		! grep -q '^## Unreleased' "$log" || die "$log has both a section Unreleased and one for $version: make it one"
	done
	git diff --quiet || commit "release: $version"
	# A build of a clone with GOWORK=off, such as a distribution's, needs the sums of siblings in go.sum.
	for dir in $modules; do
		if [ -n "$(requires "$dir")" ]; then
			[ ! -e "$dir/go.sum" ] || sed -i "\#^${ours}[/ ]#d" "$dir/go.sum"
			(cd "$dir" && as_user env GOFLAGS=-mod=mod go list -deps -test ./... >/dev/null)
			git diff --exit-code "$dir/go.mod" || die "$dir/go.mod is not complete"
			[ -z "$(git status --porcelain)" ] || commit "$dir: sums"
		fi
		as_user git tag -f "$(tag "$dir" "$version")" >/dev/null
	done
	for dir in $modules; do # all in one commit
		as_user git tag -f "$(tag "$dir" "$version")" >/dev/null
	done
}

program() { # a new one, in a folder of its own
	cd "$(mktemp -d -p "$home")"
	as_user go mod init example.com/program
}
imports() { # MODULE: the program imports each package of it
	as_user go list -f "{{if ne .Name \"main\"}}{{.Module.Path}} {{.ImportPath}}{{end}}" "$1/..." |
		awk -v m="$1" '$1 == m && $2 !~ "/internal(/|$)" {print "import _ \"" $2 "\""}' >imports
	[ -s imports ] || die "$1 has no package to import"
	{ echo "package program"; cat imports; } >program.go
	as_user go build .
}
others() { # the program has no other version of a sibling than this one
	as_user go list -m all >all
	! grep "^${ours}[/ ]" all | grep -v " $version\$" || die "another version than $version is there"
}
gets() { # MODULE
	as_user go get "$1@$version"
	imports "$1"
	others
}
upgrades() { # MODULE OLD: the root module alone first, unless that is said to be incompatible
	program
	as_user go get "$1@$2"
	imports "$1"
	if [ "$1" != $ours ] && ! section "$version" "$forge/CHANGELOG.md" | grep -q Incompatible:; then
		as_user go get "$ours@$version"
		imports "$1"
	fi
	gets "$1"
}
library() {
	program
	gets "$1"
}
installs() {
	cd "$home"
	as_user go install "$1@$version" # alone, and then with what it becomes
	as_user "$home/bin/fenlock" version | grep " $version "
	{ as_user "$home/bin/fenlock" ui 2>&1 || [ $? = 69 ]; } | grep "go install $1/...@$version"
	as_user go install "$1/...@$version"
	{ as_user "$home/bin/fenlock" ui --host : 2>&1 || [ $? = 64 ]; } | grep "is no name of a host"
	as_user "$home/bin/fenlock" run hello -- echo "it holds" | grep "it holds"
}
readme() {
	program
	sed -n '/^```go$/,/^```$/p' "$forge/README.md" | awk '/^```/ {if (found) exit; next} /^package main$/ {found = 1} found' >main.go
	grep -oE "\"${ours}[^\"]*\"" main.go | tr -d '"' | sed "s/\$/@$version/" | as_user xargs go get
	as_user go mod tidy
	as_user go build -o /dev/null .
	others
}
# api compares the exported names with those of OLD. What is not compatible needs a line in the module's changelog.
api() { # OLD
	local dir m changes
	GOFLAGS="" CGO_ENABLED=0 GOBIN=$tmp/bin go install $apidiff
	cd "$forge"
	git worktree add -q --detach "$tmp/was" "$1"
	for dir in $modules; do
		[[ $dir != cmd/* && -e $tmp/was/$dir/go.mod ]] || continue
		m=$(path "$dir")
		(cd "$tmp/was/$dir" && GOWORK="" "$tmp/bin/apidiff" -m -w "$tmp/api" "$m")
		changes=$(cd "$forge/$dir" && GOWORK="" "$tmp/bin/apidiff" -m -incompatible "$tmp/api" "$m")
		[ -z "$changes" ] || section "$version" "$forge/$dir/CHANGELOG.md" | grep -q '^- Incompatible:' ||
			die "$m is not compatible with $1, and its CHANGELOG.md has no line \"- Incompatible:\""$'\n'"$changes"
	done
}
trial() {
	local dir m old
	old=$(cd "$forge" && git -c versionsort.suffix=- tag --list 'v*' --sort=-v:refname | sed "0,/^$version\$/d" | head -n 1)
	[ -z "$old" ] || step "the exported names since $old" api "$old"
	for dir in $modules; do
		m=$(path "$dir")
		case $dir in
		cmd/*) step "go install $m@$version" installs "$m" ;;
		*)
			step "go get $m@$version" library "$m"
			if [ -n "$old" ] && git -C "$forge" rev-parse -q --verify "$(tag "$dir" "$old")" >/dev/null; then
				step "an upgrade from $old" upgrades "$m" "$old"
			fi
			;;
		esac
	done
	step "the program of README.md" readme
}

# licenses prints those of everything in the command but this repository's: a binary is passed on with them.
licenses() {
	local name dir file found
	{
		echo "Go $(go env GOVERSION)|$(go env GOROOT)"
		for os in linux darwin freebsd; do
			as_user env GOOS=$os go list -deps -f '{{with .Module}}{{.Path}} {{.Version}}|{{.Dir}}{{end}}' ./fenlock-all
		done | sed "\#^${ours}[/ ]#d" | sort -u
	} | while IFS='|' read -r name dir; do
		[ -n "$name" ] || continue
		found=""
		for file in $(find "$dir" -maxdepth 1 -type f -printf '%f\n' | grep -iE '^(licen[cs]e|copying|notice|patents)([.-].*)?$' | LC_ALL=C sort); do
			printf '==== %s: %s\n\n' "$name" "$file"
			cat "$dir/$file"
			echo
			found=1
		done
		[ -n "$found" ] || die "$name is in the command and has no licence that could be passed on"
	done
}
# publishes writes what is published into a folder. The command is built from modules in their versions, as users build it.
publishes() { # FOLDER
	GOFLAGS="" CGO_ENABLED=0 GOBIN=$tmp/bin go install $goreleaser
	GOFLAGS="" CGO_ENABLED=0 GOBIN=$tmp/bin go install $cyclonedx
	as_user git clone -q --branch "$version" "https://$ours" "$tmp/clone"
	cd "$tmp/clone/cmd/fenlock"
	mkdir -p ../../bin/{man,completions,deb}
	as_user go build -o ../../bin/ . ./fenlock-all
	licenses >../../bin/THIRD_PARTY_LICENSES
	cd ../../bin
	as_user ./fenlock man man
	as_user ./fenlock completion bash >completions/fenlock.bash
	as_user ./fenlock completion zsh >completions/_fenlock
	as_user ./fenlock completion fish >completions/fenlock.fish
	cp man/* ../CHANGELOG.md deb
	gzip -9n deb/*
	cd ..
	as_user env "PATH=$tmp/bin:$PATH" "GORELEASER_CURRENT_TAG=$version" goreleaser release --clean --skip=publish,announce
	rm -rf "$1"
	mkdir -p "$1"
	cp dist/*.tar.gz dist/*.deb dist/*.cdx.json dist/SHA256SUMS "$1"
	section "$version" CHANGELOG.md >"$1/NOTES.md"
}

case $what in
version)
	prepare
	cd "$forge"
	git diff --name-only asis HEAD | tar -c -T - | tar -x -C "$root"
	echo "All modules name $version now. Read \"git diff\", and commit all of it, new files too."
	;;
check)
	step "the modules, tagged" prepare
	trial
	[ $# = 1 ] || step "what is published" publishes "$(realpath -m "$2")"
	;;
make)
	[ -z "$(git status --porcelain)" ] || die "there are changes that are not committed"
	for dir in $modules; do
		at=$(git rev-parse -q --verify "$(tag "$dir" "$version")^{commit}" || git rev-parse HEAD)
		[ "$at" = "$(git rev-parse HEAD)" ] || die "$(tag "$dir" "$version") is a tag of another commit: module proxies keep the first one for ever, take another version"
	done
	step "the modules, tagged" prepare
	git -C "$forge" diff --exit-code --stat asis HEAD || die "not prepared for $version: run make version VERSION=$version and commit what it changes"
	trial
	step "what is published" publishes "$root/dist"
	tags=()
	for dir in $modules; do
		tags+=("$(tag "$dir" "$version")")
		git rev-parse -q --verify "refs/tags/${tags[-1]}" >/dev/null || git tag -a -m "fenlock $version" "${tags[-1]}"
	done
	cat <<-END

		dist has what is published. The tags are here only. To release, push the commit, then the modules'
		tags, and last and alone the one that starts the forge's work:

		    git push origin HEAD
		    git push --atomic origin ${tags[*]:1}
		    git push origin ${tags[0]}

		Until then "git tag -d" takes them back.
	END
	;;
esac
