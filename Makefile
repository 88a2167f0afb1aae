# The index of what can be run here. Continuous integration (.ci/run) calls the
# same targets as a person.
SHELL := /bin/bash
GOFMT := find . -name '*.go' -not -path './.*' -print0 | xargs -0 gofmt
# In the order of how long their tests take: make test begins with the longest.
MODULES := tests node/valkeynode . cmd/fenlock node/goredisnode node/zknode node/etcdnode node/pgnode node/mysqlnode node/natsnode bench node/bucketnode deploy/check tools examples fence/fencepgx integration/fenlockcertmagic integration/fenlockcron integration/fenlockgocron integration/fenlockgoose integration/fenlockmigrate integration/fenlockotel

.PHONY: help build man site picture setup test campaigns race interop search-three search-shared search-export search-given search-full search-steps proof proof-audit sim faults compare overload fuzz bench bench-against verify verify-fmt verify-vet \
	version release release-check verify-workflows verify-staticcheck verify-tidy verify-docs verify-clean fix fix-fmt fix-tidy fix-docs

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "%-20s%s\n", $$1, $$2}' $(MAKEFILE_LIST)

# Without cgo, which only looks up names: hosts that only a plugin of nsswitch.conf knows need it. It
# has each start, of fenlock and of its watchdog, load the C library and make a thread more.
build: ## the command, as bin/fenlock and bin/fenlock-all, which it becomes for what is seldom wanted
	cd cmd/fenlock && CGO_ENABLED=0 go build -ldflags="-s -w" -o $(CURDIR)/bin/ . ./fenlock-all

man: ## the manual pages, in bin/man
	mkdir -p bin/man && cd cmd/fenlock && go run . man $(CURDIR)/bin/man

site: ## the documents as a static site with a search, in bin/site; installs MkDocs if missing
	@scripts/install-servers.sh mkdocs
	@go run ./tools/site -out bin/site

picture: setup ## record three terminals anew, as docs/run.svg, which moves: for an idle machine
	cd tests && go run ./picture -out ../docs/run.svg

setup: ## install what the tests start, from the distribution's packages, if missing
	@scripts/install-servers.sh

test: setup ## the tests of all modules, on real servers, in some minutes: what a person runs before a change lands
	@scripts/test.sh $(MODULES)

campaigns: setup ## the tests that take minutes: searches to their end, 10,000 seeds, every broken variant, histories of every engine. As many as fit into CAMPAIGN_MINUTES (15), the most valuable first; ALL=1: all; SINCE=main: those whose files differ from main; CAMPAIGNS="searches ...": these (scripts/campaigns.sh -list)
	@scripts/campaigns.sh $(CAMPAIGNS)

race: setup ## make test under the race detector
	@scripts/test.sh -race $(MODULES)

interop: setup ## locks shared with npm redlock (needs node and npm)
	cd tests && go test -count=1 -tags npm -run NPM -v ./...

search-three: ## explore three attempts to the end, which takes some minutes
	go test -count=1 -tags three -timeout 0 -run ThreeAttempts -v ./internal/core

search-shared: ## explore names that are shared further than make campaigns does
	SEARCH_SHARED=1 go test -count=1 -tags campaign -timeout 0 -run EveryInterleavingShared -v ./internal/core

search-export: ## explore locks that are exported further than make campaigns does
	SEARCH_EXPORT=1 go test -count=1 -tags campaign -timeout 0 -run "EveryInterleavingExport|AdoptedOnce" -v ./internal/core

search-given: ## explore names that are given at a release further than make campaigns does
	SEARCH_GIVEN=1 go test -count=1 -tags campaign -timeout 0 -run 'EveryInterleavingGiven|GivenExclusion' -v ./internal/core

search-full: ## explore every state, also where make campaigns leaves out those that make no difference
	SEARCH_FULL=1 go test -count=1 -tags campaign -timeout 0 -run 'EveryInterleaving$$' -v ./internal/core

search-steps: ## have each move of the exhaustive check be one of the models that are proved
	SEARCH_STEPS=1 go test -count=1 -tags campaign -timeout 0 -run EveryInterleaving -v ./internal/core

proof: ## prove the rules for any number of nodes, with z3 or SOLVER=cvc5 (docs/proof.md)
	@scripts/install-servers.sh $${SOLVER:-z3}
	@go run ./proof/prove -solver $${SOLVER:-z3} $(PROVE)

proof-audit: ## remove each condition of the proved rules in turn, and tell which are needless
	@scripts/install-servers.sh z3
	@go run ./proof/prove -audit

sim: ## simulate SEEDS runs (default 10000) from seed SEED on (default 1)
	go run ./internal/sim/run -seeds $${SEEDS:-10000} -seed $${SEED:-1}

faults: setup ## real servers under faults: HISTORIES (default 100) of LASTING seconds (30) from seed SEED on, on ENGINE (valkey), LOCKS (exclusive, or shared, several, slots, lead); FAULTS=-rolling has servers go one after the other, FAULTS="-h" lists engines and flags
	cd tests && go run ./faults -engine $${ENGINE:-valkey} -locks $${LOCKS:-exclusive} -histories $${HISTORIES:-100} -seconds $${LASTING:-30} -seed $${SEED:-1} $(FAULTS)

compare: setup ## the same faults for fenlock, redsync and redislock: what each of them loses, in HISTORIES (3) of LASTING seconds (10)
	cd tests && go run ./faults -compare -histories $${HISTORIES:-3} -seconds $${LASTING:-10} -seed $${SEED:-1} $(FAULTS)

overload: setup ## real servers that stand still, have little of a processor, or are asked for more than they can do: what is lost and when all is normal, beside redsync and valkeylock, as a table; half an hour to hours (OVERLOAD="-scenes held -with fenlock -servers 5"; OVERLOAD=-h lists the flags)
	cd tests && go run ./overload $(OVERLOAD)

fuzz: ## every fuzz target for FUZZTIME (default 30s)
	@scripts/fuzz.sh $(MODULES)

bench: setup ## figures about speed and waiting, beside other lock libraries (BENCH="-figures line -quick"; BENCH=-h lists the flags)
	cd bench && go run . $(BENCH)

bench-against: setup ## time and allocations of acquire + release, this tree against the revision REV
	@scripts/bench-against.sh $(REV)

verify: verify-fmt verify-vet verify-staticcheck verify-tidy verify-docs verify-clean verify-workflows release-check proof ## everything that is checked without running tests

verify-fmt: ## gofmt has nothing to say
	@files=$$($(GOFMT) -l) || exit 1; [ -z "$$files" ] || { echo "not formatted, run make fix-fmt:"; echo "$$files"; exit 1; }

verify-vet: ## go vet, all modules
	@for m in $(MODULES); do (cd $$m && go vet ./...) || exit 1; done

verify-staticcheck: ## staticcheck, all modules
	@tool=$$(go tool -n staticcheck) && for m in $(MODULES); do (cd $$m && $$tool ./...) || exit 1; done

verify-tidy: ## go.mod and go.sum of all modules are tidy
	@scripts/tidy.sh --check

verify-docs: ## documents whose code compiles, whose links lead somewhere, whose commands can be run and whose English is plain, an API with comments and examples
	@go run ./tools/doccheck .
	@go run ./tools/apicheck .
	@go run ./tools/site -llms /dev/stdout | diff -u llms.txt - || { echo "llms.txt is not what its sources say: run make fix-docs"; exit 1; }

verify-clean: ## the README's commands, go doc and go list leave a clean clone clean
	@scripts/clean.sh

verify-workflows: ## the forge's workflows
	@go run github.com/rhysd/actionlint/cmd/actionlint@v1.7.12 -shellcheck= .github/workflows/*.yml

version: ## name VERSION in all go.mod, go.sum, go.work and CHANGELOG.md (docs/releasing.md)
	@scripts/release.sh version "$(VERSION)"

release: ## check VERSION, tag it here, and write what is published into dist (docs/releasing.md)
	@scripts/release.sh make "$(VERSION)"

release-check: ## try a release of the files as they are, as users do: go install, go get, upgrades; DIST=folder: write what would be published there
	@scripts/release.sh check $(DIST)

fix: fix-fmt fix-tidy fix-docs ## mend what verify finds, where a tool can

fix-fmt:
	@$(GOFMT) -w

fix-tidy:
	@scripts/tidy.sh

fix-docs:
	@go run ./tools/site -llms llms.txt
