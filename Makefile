# Each target runs `go` with the flags for one purpose. CI (.ci/run and
# .github/workflows/ci.yml) uses the same targets.

GO            ?= go
BIN           := $(CURDIR)/bin
GOLANGCI      := v2.15.0
GOLANGCI_BIN  := $(BIN)/golangci-lint-$(GOLANGCI)

GORELEASER    := github.com/goreleaser/goreleaser/v2@v2.17.0

SEEDS         ?= 100000
SEED          ?=
FIRST         ?= 1
N             ?= 1000
FUZZTIME      ?= 2s
PKG           ?= ./...
FLIGHTS       ?= flights-3m.parquet
RECORDS       ?= 0
comma         := ,

.PHONY: build test race vet lint fmt generate pages bench ratios figures fuzz sim model mutate crash crash-server crash-replicate load memory memory-server balance demo examples replicate-flights interop interop-go interop-js interop-java interop-python interop-raw interop-record support compare-java install-check release-check deploy-check deploy-trial image-check chart-check keda-check azure-recorded azure check clean

## build: compile everything, and write the command to bin/
build:
	$(GO) build ./...
	$(GO) build -o $(BIN)/changefeed ./cmd/changefeed

## test: run all tests, with 300 seeds of the simulation (2.5 minutes on 2 cores)
test:
	$(GO) test ./...

## race: run the tests with the race detector and 50 seeds, except those that it cannot judge (6 minutes on 2 cores)
race:
	$(GO) test -race -timeout=20m ./...

vet:
	$(GO) vet ./...

## lint: run golangci-lint; the pinned version is in bin/ and not in go.mod
lint: $(GOLANGCI_BIN)
	$(GOLANGCI_BIN) run
	cd examples && $(GOLANGCI_BIN) run
	cd examples/flights && $(GOLANGCI_BIN) run
	cd sonicjson && $(GOLANGCI_BIN) run
	cd deploy/charttest && $(GOLANGCI_BIN) run
	cd interop/keda && $(GOLANGCI_BIN) run

## fmt: format the code as lint requires
fmt: $(GOLANGCI_BIN)
	$(GOLANGCI_BIN) fmt

$(GOLANGCI_BIN):
	mkdir -p $(BIN)
	GOBIN=$(BIN) $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI)
	mv $(BIN)/golangci-lint $(GOLANGCI_BIN)

## generate: write the query parser from its grammar, with the version of goyacc that internal/query/syntax/parser.go names
generate:
	$(GO) generate ./internal/query/syntax

## pages: write docs/command.md, docs/metrics.md and the tables of docs/json.md and docs/simulation.md from the code
pages:
	$(GO) test ./cmd/changefeed -run '^Test(Command|JSON|Metrics)PageIsCurrent$$' -pages.update
	$(GO) test ./internal/simulation -run '^TestSimulationPageIsCurrent$$' -pages.update

## bench: run every benchmark once; PKG=./internal/engine selects one package
bench:
	$(GO) test -run '^$$' -bench . -benchtime 1x -benchmem $(PKG)

## fuzz: run every fuzz target for FUZZTIME
fuzz:
	GO=$(GO) .ci/fuzz $(FUZZTIME)

## sim: run SEEDS=n seeds of the simulation from seed FIRST=m on, by default many more than go test; SEED=n replays one with its trace
sim:
ifeq ($(SEED),)
	$(GO) test ./internal/simulation -run '^TestSimulation$$' -timeout 0 -v -sim.seeds=$(SEEDS) -sim.first=$(FIRST)
else
	$(GO) test ./internal/simulation -run '^TestSimulation$$' -timeout 0 -v -sim.seed=$(SEED) -sim.trace
endif

## mutate: check that a test fails for each mutant that was not killed before; MUTANT=regexp selects some, PART=K/N every N-th, FRESH=1 runs all again
mutate:
	$(GO) run ./internal/mutate -seeds 500 $(if $(MUTANT),-run '$(MUTANT)') $(if $(PART),-part '$(PART)') $(if $(FRESH),-fresh)

## crash: kill a writing process N times, and lose power N*20 times in memory
crash:
	$(GO) test ./internal/engine -run '^(TestKilledProcessKeepsEveryAcknowledgement|TestPowerLossKeepsEveryAcknowledgement)$$' -timeout 0 -v -crash.n=$(N) -crash.points=$$(( $(N) * 20 ))

## crash-server: kill (kill -9) a server N times while 32 connections write
crash-server:
	$(GO) test ./cmd/changefeed -run '^TestKilledServerKeepsEveryAcknowledgedDocument$$' -timeout 0 -v -crash.server=$(N)

## crash-replicate: kill (kill -9) a server N times while its container is copied through a proxy that cuts connections
crash-replicate:
	$(GO) test ./cmd/changefeed -run '^TestKilledServersCopyIsCompletedAndNoUnfinishedRunExitsWithZero$$' -timeout 0 -v -crash.replicate=$(N)

## model: run SEEDS=n seeds of the store's model test
model:
	$(GO) test ./internal/engine -run '^TestModel$$' -timeout 0 -v -model.seeds=$(SEEDS)

## memory: check that a million documents of 1 KB need at most 512 MiB
memory:
	$(GO) test ./internal/engine -run '^TestMemory' -timeout 0 -v -memory.documents=1000000

## balance: check how fast leases are balanced, in every size with ten times the seeds (half an hour)
balance:
	$(GO) test ./internal/balance -run '^TestBalance' -timeout 0 -v -balance.full -balance.report

## ratios: measure the store's speed as ratios to raw Pebble, and the server's to plain handlers, with the required ratios
ratios:
	$(GO) test ./internal/engine ./cmd/changefeed/internal/serve -p 1 -run '^TestRatio' -timeout 0 -v -ratios

## figures: measure the requests of a processor at its defaults, and the time from a write to its handler
figures:
	$(GO) test ./internal/integration/cosmos -run '^TestFigure' -timeout 0 -v -figures

## load: measure a server with 500 connections, 50 of which are slow or send garbage
load:
	$(GO) test ./cmd/changefeed/internal/serve -run '^TestBadClientsHardlySlowTheOthers$$' -timeout 0 -v -load.connections=500

## memory-server: measure the memory of a server that is idle, that reads 100,000 documents, and that is under attack with 256 MiB
memory-server:
	$(GO) test ./cmd/changefeed -run '^(TestServersMemoryStaysBounded|TestServerSurvivesEveryAttackOnItsMemory)$$' -timeout 0 -v -serve.memory

## demo: move the 20,000 flights to another partition key; SEED=n changes the events
demo:
	$(GO) run ./cmd/changefeed demo $(if $(SEED),--seed $(SEED))

## examples: test the modules of their own: the examples, each of which runs as a process against a server, and sonicjson
examples:
	cd sonicjson && $(GO) vet ./... && $(GO) test ./...
	cd examples && $(GO) vet ./... && $(GO) test ./...
	cd examples/flights && $(GO) vet ./... && $(GO) test ./...

## replicate-flights: copy the flights of a Parquet file under another key with two processes, and kill one; FLIGHTS=file RECORDS=n
replicate-flights: build
	cd examples/flights && $(GO) test ./... && $(GO) run . accept -input $(abspath $(FLIGHTS)) -records $(RECORDS) -changefeed $(BIN)/changefeed

## interop: run the official SDKs and raw HTTP against `changefeed serve`, over TLS and plain HTTP; then the short scene of leases that our hosts share with Java's (needs Node 20, Python 3.11, Java 17 and Maven)
interop:
	$(GO) run ./interop/runner
	$(GO) test ./interop/mixed -run '^TestHostsShareLeasesWithJava$$' -timeout 0 -v -mixed

## interop-go, interop-js, interop-java, interop-python, interop-raw: run one suite (for Python both clients); TRANSPORTS=tls or plain selects one transport. interop-java also runs every scene of shared leases (half an hour)
interop-go interop-js interop-java interop-python interop-raw:
	$(GO) run ./interop/runner -suites $(@:interop-%=%)$(if $(filter interop-python,$@),$(comma)python-async) $(if $(TRANSPORTS),-transports $(TRANSPORTS))
	$(if $(filter interop-java,$@),$(GO) test ./interop/mixed -run '^TestHostsShareLeasesWithJava$$' -timeout 0 -v -mixed.full)

## interop-record: run every suite, record the results in interop/results.json, and write docs/support.md; SUITES=go,js selects some
interop-record:
	$(GO) run ./interop/runner $(if $(SUITES),-suites $(SUITES)) -record interop/results.json
	$(GO) run ./interop/runner -support

## support: write docs/support.md from the table of routes and interop/results.json
support:
	$(GO) run ./interop/runner -support

## compare-java: measure the rates of this module's processor and of Java's on the same server (3 to 5 minutes)
compare-java:
	$(GO) test ./interop/compare -run '^TestRatesBesideJava$$' -timeout 0 -v -compare

## azure-recorded: compare the server's answers with the recorded ones of the hosted service; CASE=N prints one case in full
azure-recorded:
	$(GO) run ./internal/recorded $(if $(CASE),-case $(CASE))

## azure: send the recorded requests to an account of yours and print what has changed, run the conformance suites and a processor there, and write REPORT=file; it costs money, and asks first (ENDPOINT=URL, and the key as KEY=… or in the environment's COSMOS_KEY)
azure:
	@test -n '$(ENDPOINT)' || { echo 'make azure needs ENDPOINT=https://NAME.documents.azure.com:443/, and KEY=… or the variable COSMOS_KEY of the environment'; exit 2; }
	@COSMOS_KEY="$${KEY:-$$COSMOS_KEY}" $(GO) run ./internal/recorded -endpoint '$(ENDPOINT)' -suites $(if $(REPORT),-report '$(REPORT)')

## install-check: install the command with `go install` from a module proxy in a directory (5 minutes, because it compiles every dependency anew)
install-check:
	$(GO) test ./deploy -run '^TestCommandIsInstalledFromAProxy$$' -v -deploy.install

## release-check: check .goreleaser.yaml and build a snapshot for this machine to dist/, with goreleaser itself, which go run compiles first (some minutes); install-check, too
release-check: install-check
	$(GO) run $(GORELEASER) check
	$(GO) run $(GORELEASER) build --snapshot --clean --single-target

# PROMETHEUS is the directory of prometheus and promtool.
PROMETHEUS    ?= $(or $(patsubst %/,%,$(dir $(shell command -v promtool))),$(BIN)/prometheus/usr/bin)

## deploy-check: check the alerts and the dashboard with Prometheus, which it downloads on a Debian machine that has none
deploy-check: $(PROMETHEUS)/promtool
	$(PROMETHEUS)/promtool check rules deploy/prometheus/changefeed.rules.yml
	$(PROMETHEUS)/promtool test rules deploy/prometheus/changefeed.rules.test.yml
	$(GO) test ./deploy -run '^TestEveryPanelShowsSomething$$' -count=1 -v -deploy.prometheus=$(PROMETHEUS)/prometheus

$(BIN)/prometheus/usr/bin/promtool:
	mkdir -p $(BIN)/prometheus
	cd $(BIN)/prometheus && apt-get download prometheus && dpkg-deb -x prometheus_*.deb . && rm prometheus_*.deb

## deploy-trial: restart three hosts of a processor one by one while orders are written, as systemd and Kubernetes do (1 minute)
deploy-trial:
	$(GO) test ./deploy -run '^TestRollingRestartLosesAndRedeliversNothing$$' -count=1 -v -deploy.trial

## image-check: build the root file systems of both images by the steps of their Dockerfiles, without Docker, and run them read-only as another user (as root, on Linux)
image-check:
	$(GO) test ./deploy -run '^TestImageServesAsAnotherUserOnAReadOnlyRoot$$' -count=1 -v -deploy.image

# A cached result would ignore changes of the charts, which are outside of the module.
## chart-check: render the Helm charts with Helm's module, decode them strictly into the types of Kubernetes and KEDA, and run the server as its chart does (4 minutes at first)
chart-check:
	cd deploy/charttest && $(GO) vet ./... && $(GO) test -count=1 ./...

## keda-check: run the code of KEDA's scaler on leases of ours (13 minutes of CPU time at first, because it is compiled with all of KEDA's scalers)
keda-check:
	cd interop/keda && $(GO) test -vet=off -count=1 -v ./...

clean:
	rm -rf $(BIN)
