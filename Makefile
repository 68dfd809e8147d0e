# Everything here needs Go, git and make only: tools are built from their Go
# modules (hack/tools) into bin/.

MODULES  := pkg publisher projector integration integration/mongoemu integration/sbemu
PACKAGES := $(MODULES:%=./%/...)
# The commands of the stand-ins.
STAND_INS := ./integration/mongoemu/cmd/mongoemu ./integration/sbemu/cmd/sbemu
# The tools whose code is in this repository.
TOOLS    := hack/tools/images hack/tools/dockerlint
BIN      := $(CURDIR)/bin
DOCKERFILES := $(wildcard */Dockerfile .*/Dockerfile)

# The tests that need a Kubernetes control plane.
KUBE := ./integration/chart ./integration/kube

# The race detector needs cgo, and cgo needs a C compiler and the C library's headers.
# RACE is -race if both are there. Its first use runs the check, and no other does.
RACE = $(eval RACE := $(shell go list -race runtime >/dev/null 2>&1 && \
	printf '\043include <stdlib.h>\n' | $$(go env CC) -fsyntax-only -x c - >/dev/null 2>&1 && echo -race))$(RACE)

.DEFAULT_GOAL := help

.PHONY: help
help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^##@ / {printf "\n%s\n", substr($$0, 5)} /^[a-z\/-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

##@ Run

.PHONY: demo
demo: build ## Run events through the whole pipeline, kill its leader, change a projection, erase a person (STAY=yes to keep it up)
	@$(BIN)/sandbox --publisher $(BIN)/publisher --projector $(BIN)/projector $(if $(filter yes,$(STAY)),--stay --logs $(BIN)/demo)

.PHONY: build
build: ## Build the services, the sandbox and the stand-ins into bin/
	@mkdir -p $(BIN)
	@CGO_ENABLED=0 go build -o $(BIN)/ ./publisher ./projector ./integration/cmd/sandbox $(STAND_INS)

##@ Check

# The folders with tests of single packages. RACED are those of the services and the stand-ins
# that start goroutines or hold locks, except the language, whose tests count bytes and time.
# Their first use runs the commands, and no other does.
UNIT  = $(eval UNIT := $$(patsubst $(CURDIR)/%,./%,$$(shell go list -f '{{.Dir}}' $(PACKAGES) | grep -vE '/integration/(e2e|kube|chart|cluster|node|harness/containers|simulation)$$$$')))$(UNIT)
RACED = $(eval RACED := $$(filter-out ./projector/internal/projection,$$(filter $$(UNIT),$$(shell grep -rlE '^\s+go [a-z]|\.Go\b|\bsync\.|\batomic\.' \
	--include='*.go' --exclude='*_test.go' pkg publisher projector integration/mongoemu integration/sbemu | xargs -n1 dirname | sort -u | sed 's|^|./|'))))$(RACED)
# Tests need no debug information, and make lint vets them.
LEAN = -vet=off -ldflags='-s -w'
# Many tests wait, so more of them run at once than there are cores.
CORES := $(or $(shell grep -c ^processor /proc/cpuinfo 2>/dev/null),2)
AT_ONCE = -p $(shell echo $$((2 * $(CORES))))
WIDE    = $(AT_ONCE) -parallel $(shell echo $$((4 * $(CORES))))
# A bubble of virtual time needs what only the linker can give (integration/virtual/idle.go).
VIRTUAL = GOGC=1600 GOMEMLIMIT=2GiB CGO_ENABLED=$(if $(filter yes,$(RACES)),1,0) go test $(if $(filter yes,$(RACES)),-race) -count 1 -vet=off -tags simulation -ldflags='-s -w -checklinkname=0'

# make test-all runs the recipe of make test with these other values: so each test runs once.
SHORT_TESTS    = -short
LAST_HISTORY   = 30
RACED_HERE     =
test-all: SHORT_TESTS  =
test-all: LAST_HISTORY = 300
test-all: RACED_HERE   = $(if $(RACE),$(RACED))

.PHONY: test
test: ## Run the tests in minutes: unit and property tests, the end-to-end scenarios that need no processes (in virtual time), 30 random histories
	@echo "=== 1 of 4 at $$(date +%T): the tests of the projections in this repository (seconds)"
	@$(MAKE) --no-print-directory test-projections
	@echo "=== 2 of 4 at $$(date +%T): unit and property tests (a minute, and three more for the first build; unchanged packages are cached)"
	@CGO_ENABLED=0 go test $(SHORT_TESTS) $(LEAN) $(WIDE) -timeout 20m $(filter-out $(RACED_HERE),$(UNIT))
	@$(if $(RACED_HERE),echo "=== 2 of 4 at $$(date +%T): those of packages with goroutines or locks under the race detector")
	@$(if $(RACED_HERE),go test -race $(SHORT_TESTS) $(LEAN) $(AT_ONCE) -timeout 20m $(RACED_HERE))
	@echo "=== 3 of 4 at $$(date +%T): end-to-end scenarios, those that need no processes in virtual time"
	@# They wait more than they work: four at a time, on two cores too.
	@$(VIRTUAL) $(SHORT_TESTS) -parallel 4 -timeout $(if $(filter-out embedded,$(PENSTOCK_TEST_BACKEND)),60m,25m) ./integration/e2e ./integration/harness/containers
	@echo "=== 4 of 4 at $$(date +%T): random histories 1 to $(LAST_HISTORY), or as many as 30 minutes allow, and those that failed once"
	@SEEDS=1..$(LAST_HISTORY) FOR=30m SUMMARY=$(BIN)/histories.txt $(VIRTUAL) -timeout 45m ./integration/simulation
	@cat $(BIN)/histories.txt

.PHONY: test-all
test-all: test ## Run make test, and in the same pass what it leaves out: the race detector (with a C compiler), the long forms of tests, the scenarios that need processes, 270 more histories, or as many as 30 minutes allow
	$(if $(RACE),,@echo "cgo has no C compiler here (go env CC CGO_ENABLED): the tests ran without the race detector")

.PHONY: simulate
simulate: ## Run random histories of the whole pipeline in virtual time (SEEDS=1..1000, FOR=8h, TIMES=20 for each seed, SHRINK=yes, PARALLEL=2, RACES=yes for the race detector)
	$(VIRTUAL) -timeout 0 -v -run TestHistories ./integration/simulation

.PHONY: mutations
mutations: ## Put each of a table of defects into the services, and check that histories find it (RUN=regexp of names; about a minute each)
	MUTATIONS='$(or $(RUN),.)' go test -count 1 -timeout 0 -v -run TestMutationsAreFound ./integration/simulation/mutations

.PHONY: proof
proof: ## Add a run of random histories to the record (SEEDS and FOR as above), then the mutations (MUTATIONS=regexp of names), and write docs/proof.md
	@export RECORD=$(CURDIR)/integration/simulation/record; failed=; \
	$(MAKE) --no-print-directory simulate SEEDS=$(or $(SEEDS),$(if $(FOR),1,1..300)) || failed=yes; \
	[ -z "$(MUTATIONS)" ] || $(MAKE) --no-print-directory mutations RUN='$(MUTATIONS)' || failed=yes; \
	$(MAKE) --no-print-directory proof-page && [ -z "$$failed" ]

.PHONY: proof-page
proof-page: ## Write docs/proof.md from the record
	go run ./integration/cmd/proof >docs/proof.md

.PHONY: test-projections
test-projections: ## Run the tests of the projections in this repository
	@mkdir -p $(BIN)
	@CGO_ENABLED=0 go build -o $(BIN)/ ./projector
	$(BIN)/projector test ./integration/...

.PHONY: bench-build
bench-build:
	@mkdir -p $(BIN)
	@CGO_ENABLED=0 go build -o $(BIN)/ ./publisher ./projector ./integration/cmd/bench

.PHONY: bench
bench: bench-build ## Measure both services beside the limits of the bare SDK and driver (BENCH=regexp of rows, ROUNDS=3, SHORT=true; about 45 minutes), and, if all rows are measured, refold and verification
	@$(BIN)/bench
	@[ -n "$(BENCH)$(FORMAT)$(SHORT)" ] || $(MAKE) --no-print-directory bench-refold

.PHONY: bench-refold
bench-refold: ## Measure a refold against a copy, what it costs live events, and a verification against reading
	go test -run '^$$' -bench . -benchtime 1x -timeout 20m ./projector/internal/history

.PHONY: bench-compare
bench-compare: bench-build $(BIN)/benchstat ## Compare the speed with another revision (BASE=revision, ROUNDS=6; BENCH, SHORT and LATENCY_FOR as above)
	@hack/bench-compare.sh "$(BASE)" $(BIN) "$(or $(ROUNDS),6)"

.PHONY: bench-hot
bench-hot: ## Measure the hot paths by themselves, with their allocations
	go test -run '^$$' -bench . -benchmem $(filter-out ./integration/%,$(PACKAGES))

.PHONY: conformance
conformance: ## Run the Go SDK's live tests, and scenarios through the JavaScript and Python SDKs, against sbemu (needs ports 443, 5671 and 5672), and scenarios through the Node.js driver against mongoemu
	CGO_ENABLED=0 go run ./integration/mongoemu/conformance -with integration/examples/watcher -with integration/examples/writer
	CGO_ENABLED=0 go run ./integration/sbemu/conformance -with integration/examples/consumer

FUZZTIME ?= 1m
.PHONY: fuzz
fuzz: ## Run every fuzz target for a minute each (FUZZTIME=5m for longer)
	@hack/fuzz.sh $(FUZZTIME) $(MODULES)

.PHONY: notices
notices: build ## Write the licences of everything that is linked into the services to dist/
	@mkdir -p dist
	@hack/notices.sh $(BIN)/publisher $(BIN)/projector >dist/third-party-notices.txt

.PHONY: lint
lint: $(BIN)/golangci-lint workflow-lint dockerfile-lint ## Check style, import rules, that the modules are tidy, the workflows and the Dockerfiles
	@for module in $(MODULES); do \
		echo "lint $$module"; \
		(cd $$module && CGO_ENABLED=0 $(BIN)/golangci-lint run --allow-parallel-runners --config $(CURDIR)/.golangci.yml ./...) || exit 1; \
	done
	@for module in $(TOOLS); do \
		echo "lint $$module"; \
		(cd $$module && CGO_ENABLED=0 GOWORK=off $(BIN)/golangci-lint run --allow-parallel-runners --config $(CURDIR)/.golangci.yml ./...) || exit 1; \
	done
	@for module in $(MODULES) $(TOOLS); do \
		(cd $$module && GOWORK=off go mod tidy -diff) || { echo "$$module: run make tidy"; exit 1; }; \
	done

.PHONY: workflow-lint
workflow-lint: $(BIN)/actionlint ## Check the workflows of .github (their scripts too, if shellcheck is installed)
	@echo "lint .github/workflows"
	@$(BIN)/actionlint .github/workflows/*.yaml

.PHONY: dockerfile-lint
dockerfile-lint: $(BIN)/dockerlint ## Check the Dockerfiles by BuildKit's rules, as docker build --check does, and that the linter refuses broken ones
	@echo "lint $(DOCKERFILES)"
	@cd hack/tools/dockerlint && GOWORK=off go test ./...
	@$(BIN)/dockerlint $(DOCKERFILES)

.PHONY: verify
verify: ## Build every module by itself, without the workspace
	@for module in $(MODULES); do \
		echo "build $$module"; (cd $$module && CGO_ENABLED=0 GOWORK=off go build ./...) || exit 1; \
	done

.PHONY: llms
llms: ## Write the index of the documentation for language models to llms.txt, and all pages as one file to dist/
	@LC_ALL=C hack/llms.sh >llms.txt
	@mkdir -p dist && LC_ALL=C hack/llms.sh --full >dist/llms-full.txt

.PHONY: chart-lint
chart-lint: $(BIN)/helm ## Lint the chart with every set of values
	@for values in charts/penstock/ci/*.yaml; do $(BIN)/helm lint --strict --quiet charts/penstock -f $$values || exit 1; done

.PHONY: chart-test
chart-test: build $(BIN)/helm $(BIN)/helm-docs $(BIN)/helm-unittest ## Test the chart, and hold it against the services
	$(BIN)/helm-unittest charts/penstock
	charts/verify.sh $(BIN)/helm $(BIN)/helm-docs $(BIN)/publisher $(BIN)/projector

.PHONY: chart-docs
chart-docs: $(BIN)/helm-docs ## Write the chart's README anew, from the comments in its values
	@cd charts/penstock && $(BIN)/helm-docs --log-level error --sort-values-order file

.PHONY: kube-tools
kube-tools: $(BIN)/helm ## Build a Kubernetes control plane for tests (some minutes, once)
	@hack/tools/kube/build.sh .cache/kube-tools
	@ln -sf $(BIN)/helm .cache/kube-tools/helm

.PHONY: node-tools
node-tools: ## Build a Kubernetes node for tests: kubelet, containerd, CNI plugins, CoreDNS … (some minutes, once)
	@hack/tools/node/build.sh .cache/node-tools
	@CGO_ENABLED=0 go build -trimpath -o .cache/node-tools/ ./integration/cmd/pause $(STAND_INS)

.PHONY: test-kube
test-kube: kube-tools chart-lint chart-test ## Test the chart, and leadership, on a real Kubernetes control plane
	@# Compiled on every core first, and without cgo, as the services are.
	@CGO_ENABLED=0 go test -run '^$$' $(LEAN) $(KUBE) >/dev/null
	CGO_ENABLED=0 PENSTOCK_KUBE_TOOLS=$(CURDIR)/.cache/kube-tools go test -count 1 $(LEAN) -p 1 -parallel 4 -timeout 25m -v $(KUBE)

.PHONY: test-containers
test-containers: ## Run the end-to-end scenarios over containers of the stand-ins, or with PENSTOCK_TEST_ACCEPT_EULA=Y of MongoDB and Microsoft's Service Bus emulator (RUN=regexp; needs a Docker engine, or Linux and root to start one)
	@hack/test-containers.sh .cache/containers -v $(if $(RUN),-run '$(RUN)')

.PHONY: cluster-needs
cluster-needs:
	@[ "$$(uname)" = Linux ] && [ "$$(id -u)" = 0 ] && command -v nft ip curl >/dev/null || { \
		echo "make test-cluster runs a Kubernetes node, which needs Linux, root, nftables, iproute2 and curl (Debian: apt-get install nftables iproute2 curl)"; exit 1; }

.PHONY: test-cluster
test-cluster: cluster-needs kube-tools node-tools images ## Test the chart and its pods on a real Kubernetes node, while things fail (needs Linux and root)
	@CGO_ENABLED=0 go test -run '^$$' $(LEAN) ./integration/cluster >/dev/null
	CGO_ENABLED=0 PENSTOCK_KUBE_TOOLS=$(CURDIR)/.cache/kube-tools PENSTOCK_NODE_TOOLS=$(CURDIR)/.cache/node-tools PENSTOCK_IMAGES=$(CURDIR)/dist \
		go test -count 1 $(LEAN) -p 1 -timeout 40m -v ./integration/cluster

##@ Release

# The images' version is the one that the chart asks for, and every time in them is
# the last commit's. Where there is no git repository, set the latter two.
VERSION           ?= $(shell sed -n 's/^appVersion: *//p' charts/penstock/Chart.yaml)
REVISION          ?= $(shell git describe --always --abbrev=40 --dirty --exclude '*')
SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct)

.PHONY: images
images: $(BIN)/images ## Build the container images, for amd64 and arm64, as OCI archives in dist/
	@$(BIN)/images -output dist -version "$(VERSION)" -revision "$(REVISION)" -epoch "$(SOURCE_DATE_EPOCH)"

.PHONY: load-images
load-images: $(BIN)/images ## Build the container images for this machine, and load them into the Docker engine that answers
	@$(BIN)/images -docker -version "$(VERSION)" -revision "$(REVISION)" -epoch "$(SOURCE_DATE_EPOCH)" | docker load

.PHONY: release-chart
release-chart: $(BIN)/helm ## Package the chart into dist/ with the images' digests in it (DIGESTS=file, as make images prints them)
	@hack/release/chart.sh $(BIN)/helm "$(VERSION)" "$(DIGESTS)" dist

.PHONY: release-programs
release-programs: ## Build both services for Linux, macOS and Windows, as archives in dist/ (PLATFORMS="linux/amd64 …")
	@hack/release/programs.sh "$(VERSION)" "$(REVISION)" "$(SOURCE_DATE_EPOCH)" dist $(PLATFORMS)

.PHONY: test-images
test-images: images ## Test the images: what they hold, that a second build equals them, their programs in an empty root
	CGO_ENABLED=0 PENSTOCK_IMAGES=$(CURDIR)/dist go test -count 1 $(LEAN) -timeout 10m -v ./integration/images

##@ Maintain

.PHONY: fmt
fmt: $(BIN)/golangci-lint ## Format the code
	@for module in $(MODULES); do (cd $$module && $(BIN)/golangci-lint fmt --config $(CURDIR)/.golangci.yml ./...) || exit 1; done

.PHONY: metrics-page
metrics-page: ## Write docs/metrics.md anew, from the code
	@go run ./integration/cmd/metricspage >docs/metrics.md.new && mv docs/metrics.md.new docs/metrics.md

.PHONY: screenshots
screenshots: ## Take the pictures of docs/status-page.md anew (needs chromium)
	@folder=$$(mktemp -d) && PENSTOCK_SCREENSHOTS=$$folder go test -count 1 -timeout 10m -run '^TestStatusPages$$' ./integration/e2e && \
		cp $$folder/status-projector.png docs/screenshots/status-projector.png && \
		cp $$folder/status-publisher-dark.png docs/screenshots/status-publisher.png && rm -r $$folder

# `go get -tool` keeps the modules of the tools: tidying them would resolve the tests of
# everything that they build.
.PHONY: tidy
tidy: ## Tidy every module but those that only list tools
	@for module in $(MODULES) $(TOOLS); do (cd $$module && GOWORK=off go mod tidy) || exit 1; done

# The tools' names as people type them: make bin/helm.
bin/%: $(BIN)/%
	@:

$(BIN)/golangci-lint: hack/tools/go.mod
	@mkdir -p $(BIN)
	@echo "build golangci-lint (once)"
	@cd hack/tools && GOWORK=off go build -o $@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint

$(BIN)/benchstat: hack/tools/benchstat/go.mod
	@mkdir -p $(BIN)
	@cd hack/tools/benchstat && GOWORK=off go build -o $@ golang.org/x/perf/cmd/benchstat

$(BIN)/actionlint: hack/tools/actionlint/go.mod
	@mkdir -p $(BIN)
	@echo "build actionlint (once)"
	@cd hack/tools/actionlint && GOWORK=off go build -o $@ github.com/rhysd/actionlint/cmd/actionlint

$(BIN)/dockerlint: $(wildcard hack/tools/dockerlint/*)
	@mkdir -p $(BIN)
	@echo "build dockerlint (once)"
	@cd hack/tools/dockerlint && GOWORK=off go build -o $@ .

$(BIN)/images: $(wildcard hack/tools/images/*)
	@mkdir -p $(BIN)
	@cd hack/tools/images && GOWORK=off go build -trimpath -o $@ .

$(BIN)/helm $(BIN)/helm-docs: hack/tools/helm/go.mod
	@mkdir -p $(BIN)
	@echo "build helm (once)"
	@cd hack/tools/helm && GOWORK=off go build -o $(BIN)/ helm.sh/helm/v4/cmd/helm github.com/norwoodj/helm-docs/cmd/helm-docs

$(BIN)/helm-unittest: hack/tools/helm-unittest/go.mod
	@mkdir -p $(BIN)
	@echo "build helm-unittest (once)"
	@cd hack/tools/helm-unittest && GOWORK=off go build -o $@ github.com/helm-unittest/helm-unittest/cmd/helm-unittest
