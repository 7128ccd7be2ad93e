# make test is the whole suite; make help lists the rest.
GO ?= go

# Not in go.mod: its hundred linters would be a hundred requirements.
GOLANGCI = github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

# Most of what a first make test does is compile. The compiler and the linker collect
# garbage only beyond a gigabyte, else they would spend a fifth of their time on it.
TOOLS = -toolexec 'env GOGC=off GOMEMLIMIT=1GiB'

# The go commands that tests run share what these compile: without the path of the
# clone, a copy of the tree compiles to the same packages. What a debugger needs is
# not written, since go test links without it anyway.
test test-short tidy: export GOFLAGS := $(shell $(GO) env GOFLAGS) -trimpath -gcflags=all=-dwarf=false

# The race detector watches our code and all it calls but SQLite, whose C is
# translated to Go: there, and in the library of C below it, it takes six times as
# long and finds nothing of ours.
RACE = -race $(foreach package,sqlite/lib libc memory,-gcflags='modernc.org/$(package)=-race=false -dwarf=false')

# How long make soak simulates.
SIM ?= 2h

.PHONY: help build test test-short deps check tidy analyse staticcheck modules windows lint bench soak shared-hosting replay fuzz generate dist dist-twice dist-test

help:
	@echo "make build       build ./ration"
	@echo "make test        every test, 15 seconds of the simulator among them, and the quick ones with -race"
	@echo "make test-short  what is quick"
	@echo "make check       gofmt, go vet, luacheck, go mod verify and tidy (make tidy); staticcheck, the modules in docs, govulncheck (make analyse)"
	@echo "make lint        golangci-lint, as .golangci.yml configures it"
	@echo "make bench       benchmarks beside their baselines"
	@echo "make shared-hosting  the 32-bit binary within 512 MB"
	@echo "make soak        the property and process tests at length, then the simulator for SIM=2h"
	@echo "make replay SEED=N  one world of the simulator, with all that happens in it"
	@echo "make fuzz        each fuzz test for half a minute"
	@echo "make dist        the release in dist/: archives, Debian packages, lists of components, SHA256SUMS (PLATFORMS=...)"
	@echo "make dist-twice  build it in two folders with caches of their own, and compare"
	@echo "make dist-test   install, run and remove the Debian package; lintian (as root)"
	@echo "make windows     vet and compile all packages and tests for Windows"
	@echo "make generate    the routes, from the discovery document, and docs/upstreams.md"

build:
	$(GO) build -o ration ./cmd/ration

# The tests start redis-server themselves, on a free port. Without one, go test
# alone says so and skips those tests; here that is a failure. Most of what the
# longest tests do is wait: so more of them run at once than there are processors.
# go vet is part of make check.
TEST = RATION_REQUIRE_REDIS=1 RATION_REQUIRE_POSTGRES=1 $(GO) test $(TOOLS) -vet=off -p 3 -parallel 4 -timeout 20m

# Ledgers sync their files, and what the linker writes is large: temporary files
# are in memory, if there is room where programs may run.
test test-short: export TMPDIR = $(shell \
  probe=/dev/shm/ration-probe.$$$$; folder=$${TMPDIR:-/tmp}; \
  if { echo 'exit 0' > $$probe && chmod 700 $$probe && sh -c $$probe && [ "$$(df -Pk /dev/shm | awk 'END {print $$4}')" -gt 4000000 ]; } 2>/dev/null; then folder=/dev/shm; fi; \
  rm -f $$probe; echo $$folder)

# A process of a race build waits a second when it ends, by default.
test: export GORACE = atexit_sleep_ms=20

# -short skips the tests that take seconds, which say why, and RAPID_CHECKS draws a
# part of the cases. The race detector watches the packages behind the command line
# that start goroutines, or whose tests do; make soak watches all.
CONCURRENT = $(shell grep -rlE 'go func|\.Go\b' --include='*.go' quota costs jobs internal | xargs -n 1 dirname | sort -u | sed 's,^,./,')
test: deps
	RATION_SIM_DURATION=15s $(TEST) ./cmd/... ./quota/... ./...
	RAPID_CHECKS=10 $(TEST) $(RACE) -short $(CONCURRENT)

test-short: deps
	RAPID_CHECKS=20 $(TEST) -short ./cmd/... ./quota/... ./...

# $(call installed,PROGRAM,PACKAGE,ELSEWHERE) installs a program from Debian's packages
# if it is missing.
define installed
	@command -v $(1) >/dev/null 2>&1 || { \
	  if command -v apt-get >/dev/null 2>&1; then \
	    sudo=; [ "$$(id -u)" = 0 ] || sudo=sudo; \
	    [ -z "$$sudo" ] || command -v sudo >/dev/null 2>&1 || { echo "$(1) is missing, and there is no sudo: let an administrator run apt-get install $(2)" >&2; exit 1; }; \
	    echo "installing $(2) from the system's packages"; \
	    $$sudo apt-get update -qq && $$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $(2) >/dev/null; \
	  else \
	    echo "$(1) is missing: install it ($(3)), then run make again" >&2; exit 1; \
	  fi; }
endef

deps:
	$(call installed,redis-server,redis-server,brew install redis; dnf install redis; apk add redis)
	$(call installed,pgbouncer,pgbouncer,brew install pgbouncer; dnf install pgbouncer; apk add pgbouncer)
	$(call installed,pg_lsclusters,postgresql,brew install postgresql; dnf install postgresql-server; apk add postgresql)

check: tidy analyse

tidy:
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); [ -z "$$unformatted" ] || { echo "gofmt these: $$unformatted" >&2; exit 1; }
	$(GO) vet ./...
	@# Windows: all that needs no SQLite, whose build takes longer than everything else's; make windows builds that too.
	GOOS=windows $(GO) build $$(GOOS=windows $(GO) list -f '{{if .GoFiles}}{{.ImportPath}} {{join .Deps " "}}{{end}}' ./... | grep -v modernc.org/sqlite | cut -d ' ' -f 1)
	$(call installed,luacheck,lua-check,brew install luacheck; luarocks install luacheck)
	luacheck -q $$(git ls-files '*.lua')
	$(GO) mod verify
	@# With differences it fails, and prints them.
	@diff=$$($(GO) mod tidy -diff 2>&1) || { echo "run go mod tidy:"; echo "$$diff"; exit 1; } >&2

# What looks at every dependency too, or is a module of its own.
analyse: staticcheck modules

staticcheck:
	$(GO) tool staticcheck ./...

modules:
	@for module in $$(git ls-files 'docs/*/go.mod' | xargs -n 1 dirname); do \
	  diff=$$(cd $$module && $(GO) mod tidy -diff 2>&1) || { echo "run go mod tidy in $$module:"; echo "$$diff"; exit 1; } >&2; done
	cd docs/bench && $(GO) vet ./...
	cd docs/dist && $(GO) vet ./...
	cd docs/observe/otel && $(GO) vet ./... && $(GO) test ./...
	@found=$$($(GO) tool govulncheck ./... 2>&1) || { \
	  echo "$$found" | grep -qE "fetching vulnerabilities|no such host|dial tcp|Forbidden|connection refused|i/o timeout" \
	  && echo "govulncheck: its database cannot be reached from here; going on without it" || { echo "$$found"; exit 1; } >&2; }

# It has staticcheck too, but takes minutes to build.
lint:
	$(GO) run $(GOLANGCI) run ./...

bench:
	RATION_REQUIRE_REDIS=1 RATION_REQUIRE_POSTGRES=1 $(GO) test -run '^$$' -bench . -benchmem ./quota/... ./costs ./internal/gateway ./jobs/... ./cmd/ration

# The 32-bit binary within the memory of shared hosting; the first time it compiles for minutes.
shared-hosting: deps
	RATION_SHARED_HOSTING=1 RATION_REQUIRE_REDIS=1 $(GO) test -count=1 -v -run TestSharedHosting ./cmd/ration

soak: deps
	RATION_REQUIRE_REDIS=1 RATION_SOAK=1 $(GO) test $(RACE) -count=5 -timeout 60m ./quota/...
	$(TEST) $(RACE) ./...
	RAPID_CHECKS=5000 RATION_REQUIRE_REDIS=1 RATION_REQUIRE_POSTGRES=1 $(GO) test -timeout 60m ./quota/... -run 'Contract.*/AgainstAModel|TestAFoldIsAFunctionOfItsRecords|TestDrawnFaultsAdmitOnlyWhatNoHostCouldKnow'
	RATION_SOAK=1 $(GO) test -run StreamFills -v ./internal/gateway
	cd quota/ledgertest && RATION_SIM_DURATION=$(SIM) RATION_SIM_SEED=$$(date +%s) $(GO) test -timeout 0 -count=1 -run ThePromiseHolds

# One world is a week of simulated time; SEED is what a failure printed.
replay:
	@[ -n "$(SEED)" ] || { echo "name a world: make replay SEED=N" >&2; exit 1; }
	RATION_SIM_REPLAY=$(SEED) $(GO) test -count=1 -v -run TestReplay ./quota/ledgertest

fuzz:
	@for target in $$(git grep -lE '^func Fuzz' -- '*_test.go'); do \
	  for name in $$(sed -nE 's/^func (Fuzz[A-Za-z0-9_]*).*/\1/p' $$target); do \
	    $(GO) test -run '^$$' -fuzz "^$$name$$" -fuzztime 30s ./$$(dirname $$target) || exit 1; \
	  done; done

# What is released; docs/deploy describes the files.
PLATFORMS = linux/amd64 linux/arm64 linux/386 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64
DIST ?= $(CURDIR)/dist
dist:
	cd docs/dist && $(GO) run . -out "$(DIST)" -platforms "$(PLATFORMS)"

# The commit is built, not the working tree. Minutes for each platform.
dist-twice:
	@work=$$(mktemp -d) && trap 'chmod -R u+w "$$work"; rm -rf "$$work"' EXIT && \
	for folder in one a/longer/two; do \
	  git clone -q . "$$work/$$folder" && \
	  GOCACHE="$$work/$$folder.cache" $(MAKE) -C "$$work/$$folder" dist DIST="$$work/$$folder.out" PLATFORMS="$(PLATFORMS)" || exit 1; \
	done && diff -r "$$work/one.out" "$$work/a/longer/two.out" && echo "the two builds are equal:" && cat "$$work/one.out/SHA256SUMS"

dist-test:
	cd docs/deploy/kubernetes && $(GO) test .
	cd docs/dist && RATION_REQUIRE_DEB=1 RATION_REQUIRE_LINTIAN=1 $(GO) test -v -count=1 .

windows:
	GOOS=windows $(GO) vet ./...
	GOOS=windows $(GO) test -exec true -count=1 ./... >/dev/null

generate:
	$(GO) test ./costs -run 'TestRoutesAreCurrent|TestUpstreamsPage' -update
