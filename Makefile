# Everything is plain `go`; the targets only remember the flags.
# CI (.ci/run, .github/workflows/ci.yml) calls the same ones.

GO            ?= go
BIN           := $(CURDIR)/bin
GOLANGCI      := v2.15.0
GOLANGCI_BIN  := $(BIN)/golangci-lint-$(GOLANGCI)
VALE          := v3.21.0
VALE_BIN      := $(BIN)/vale-$(VALE)

SEEDS         ?= 100000
SEED          ?=
N             ?= 1000
FUZZTIME      ?= 5s
PKG           ?= ./...
FLIGHTS       ?= flights-3m.parquet
RECORDS       ?= 0
comma         := ,

.PHONY: build test race vet lint prose draw fmt generate pages picture bench ratios figures fuzz sim model mutate crash crash-server crash-replicate load memory memory-server balance demo examples replicate-flights interop interop-go interop-js interop-java interop-python interop-raw interop-record support compare-java count check clean

## build: compile everything; the command goes to bin/
build:
	$(GO) build ./...
	$(GO) build -o $(BIN)/changefeed ./cmd/changefeed

## test: the whole suite, 5,000 simulation seeds included (8 minutes on 2 cores)
test:
	$(GO) test ./...

## race: the whole suite under the race detector, with 300 seeds
race:
	$(GO) test -race -timeout=20m ./...

vet:
	$(GO) vet ./...

## lint: golangci-lint in the pinned version, kept in bin/ and out of go.mod, and prose; the examples are modules of their own
lint: $(GOLANGCI_BIN) prose
	$(GOLANGCI_BIN) run
	cd examples && $(GOLANGCI_BIN) run
	cd examples/flights && $(GOLANGCI_BIN) run

## prose: check comments, messages and pages by the rules in .vale/Changefeed; Vale is kept in bin/ and needs a C compiler
prose: $(VALE_BIN)
	PROSE_VALE=$(VALE_BIN) $(GO) test ./internal/prose
	$(GO) run ./internal/prose -vale $(VALE_BIN)

## draw: print 30 comments and 10 pages for a reader to rate, drawn at random; SEED=n draws others
draw:
	$(GO) run ./internal/prose -draw $(or $(SEED),1)

## fmt: format as lint wants it
fmt: $(GOLANGCI_BIN)
	$(GOLANGCI_BIN) fmt

$(GOLANGCI_BIN):
	mkdir -p $(BIN)
	GOBIN=$(BIN) $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI)
	mv $(BIN)/golangci-lint $(GOLANGCI_BIN)

$(VALE_BIN):
	mkdir -p $(BIN)
	GOBIN=$(BIN) CGO_ENABLED=1 $(GO) install github.com/vale-cli/vale/v3/cmd/vale@$(VALE)
	mv $(BIN)/vale $(VALE_BIN)

## generate: the query parser from its grammar, by goyacc in the version that internal/query/syntax/parser.go names
generate:
	$(GO) generate ./internal/query/syntax

## pages: write docs/command.md from the commands' help, and docs/metrics.md from the instruments
pages:
	$(GO) test ./cmd/changefeed -run '^Test(Command|Metrics)PageIsCurrent$$' -pages.update

## picture: play the demo, and draw docs/demo.svg from its output
picture:
	$(GO) run ./cmd/changefeed demo --records 3000 | $(GO) run ./internal/recording -title 'changefeed demo --records 3000' > docs/demo.svg

## bench: every benchmark once, to see that it runs; PKG=./internal/engine for one package
bench:
	$(GO) test -run '^$$' -bench . -benchtime 1x -benchmem $(PKG)

## fuzz: every fuzz target for FUZZTIME
fuzz:
	GO=$(GO) .ci/fuzz $(FUZZTIME)

## sim: SEEDS=n seeds of the simulation; SEED=n replays one with its trace
sim:
ifeq ($(SEED),)
	$(GO) test ./changefeedtest -run '^TestSimulation$$' -timeout 0 -v -sim.seeds=$(SEEDS)
else
	$(GO) test ./changefeedtest -run '^TestSimulation$$' -timeout 0 -v -sim.seed=$(SEED) -sim.trace
endif

## mutate: every deliberate breakage must be found; MUTANT=regexp picks some, PART=K/N every N-th
mutate:
	$(GO) run ./changefeedtest/internal/mutate -seeds 500 $(if $(MUTANT),-run '$(MUTANT)') $(if $(PART),-part '$(PART)')

## crash: N kills of a writing process, and N*20 power losses in memory
crash:
	$(GO) test ./internal/engine -run '^(TestKilledProcessKeepsEveryAcknowledgement|TestPowerLossKeepsEveryAcknowledgement)$$' -timeout 0 -v -crash.n=$(N) -crash.points=$$(( $(N) * 20 ))

## crash-server: N kills (kill -9) of a server that 32 connections write to
crash-server:
	$(GO) test ./cmd/changefeed -run '^TestKilledServerKeepsEveryAcknowledgedDocument$$' -timeout 0 -v -crash.server=$(N)

## crash-replicate: N kills (kill -9) of a server whose container is copied through a proxy that cuts connections
crash-replicate:
	$(GO) test ./cmd/changefeed -run '^TestKilledServersCopyIsCompletedAndNoUnfinishedRunExitsWithZero$$' -timeout 0 -v -crash.replicate=$(N)

## model: SEEDS=n seeds of the store's model test
model:
	$(GO) test ./internal/engine -run '^TestModel$$' -timeout 0 -v -model.seeds=$(SEEDS)

## memory: a million documents of 1 KB within 512 MiB
memory:
	$(GO) test ./internal/engine -run '^TestMemory' -timeout 0 -v -memory.documents=1000000

## balance: the convergence of leases in every size, ten times the seeds (half an hour)
balance:
	$(GO) test ./internal/balance -run '^TestBalance' -timeout 0 -v -balance.full -balance.report

## ratios: the store's speed as ratios to raw Pebble, and the server's to plain handlers, beside their bars
ratios:
	$(GO) test ./internal/engine ./cmd/changefeed/internal/serve -p 1 -run '^TestRatio' -timeout 0 -v -ratios

## figures: what a processor at its defaults asks of the service, and how soon it hands over a change
figures:
	$(GO) test ./internal/integration/cosmos -run '^TestFigure' -timeout 0 -v -figures

## load: 500 connections to a server, 50 of them slow or sending garbage
load:
	$(GO) test ./cmd/changefeed/internal/serve -run '^TestBadClientsHardlySlowTheOthers$$' -timeout 0 -v -load.connections=500

## memory-server: the memory of a server that is idle, of one whose 100,000 documents are read, and of one under attack with 256 MiB
memory-server:
	$(GO) test ./cmd/changefeed -run '^(TestServersMemoryStaysBounded|TestServerSurvivesEveryAttackOnItsMemory)$$' -timeout 0 -v -serve.memory

## demo: the 20,000 flights moved to another partition key; SEED=n varies what happens
demo:
	$(GO) run ./cmd/changefeed demo $(if $(SEED),--seed $(SEED))

## examples: the examples build, and each runs as a process against a server; its own module, and so is examples/flights
examples:
	cd examples && $(GO) vet ./... && $(GO) test ./...
	cd examples/flights && $(GO) vet ./... && $(GO) test ./...

## replicate-flights: two processes copy the flights of a Parquet file under another key, and one is killed; FLIGHTS=file RECORDS=n
replicate-flights: build
	cd examples/flights && $(GO) test ./... && $(GO) run . accept -input $(abspath $(FLIGHTS)) -records $(RECORDS) -changefeed $(BIN)/changefeed

## interop: the official SDKs and raw HTTP against `changefeed serve`, over TLS and plain; then hosts of ours and of Java's that share leases, short (needs Node 20, Python 3.11, Java 17 and Maven)
interop:
	$(GO) run ./interop/runner
	$(GO) test ./interop/mixed -run '^TestHostsShareLeasesWithJava$$' -timeout 0 -v -mixed

## interop-go, interop-js, interop-java, interop-python, interop-raw: one suite (of Python two, its synchronous client and its asynchronous one); TRANSPORTS=tls or plain for one transport. interop-java: also every scene of shared leases (half an hour)
interop-go interop-js interop-java interop-python interop-raw:
	$(GO) run ./interop/runner -suites $(@:interop-%=%)$(if $(filter interop-python,$@),$(comma)python-async) $(if $(TRANSPORTS),-transports $(TRANSPORTS))
	$(if $(filter interop-java,$@),$(GO) test ./interop/mixed -run '^TestHostsShareLeasesWithJava$$' -timeout 0 -v -mixed.full)

## interop-record: every suite, and what they did kept in interop/results.json; then docs/support.md; SUITES=go,js for some
interop-record:
	$(GO) run ./interop/runner $(if $(SUITES),-suites $(SUITES)) -record interop/results.json
	$(GO) run ./interop/runner -support

## support: docs/support.md, from the table of routes and interop/results.json
support:
	$(GO) run ./interop/runner -support

## compare-java: changes a second of this module's processor and of Java's, on the same server (3 to 5 minutes)
compare-java:
	$(GO) test ./interop/compare -run '^TestRatesBesideJava$$' -timeout 0 -v -compare

## count: exported identifiers, files and lines of code of every package
count:
	$(GO) run ./internal/count

clean:
	rm -rf $(BIN)
