# `make up` and `make test` are all that a newcomer needs; `make help` lists the rest.

SHELL := /bin/bash
.DEFAULT_GOAL := help

# What can be made again lives here: the python of the local AWS, for one.
export CAPT_CACHE ?= $(CURDIR)/.cache
DATA ?= .capt
# Terraform, or OpenTofu where that is what there is.
TF := $(shell command -v terraform || command -v tofu)
CAPT = target/debug/capt

.PHONY: help
help: ## List the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: check-tools
check-tools:
	@scripts/check-tools

.PHONY: deps
deps: check-tools ## Install what the tests need: a python environment with moto, in the cache directory
	@scripts/moto-venv

.PHONY: build
build: check-tools ## Build the command
	@# With the features that the tests need too, so that they do not build everything a second time.
	cargo build --locked --workspace --bin capt

.PHONY: up
up: build deps ## Make the quickstart from objects: a VPC, an EKS cluster and two Fargate profiles in the local AWS
	$(CAPT) up -f examples/quickstart.yaml --data $(DATA)

.PHONY: down
down: build ## Delete everything that was made, prove that nothing is left, and stop
	$(CAPT) down --data $(DATA)

# The tiers. Each says how long it takes, and what it leaves out where a tool is missing; docs/testing.md has the rest.

.PHONY: test
test: ## Unit, process, module, operator and system tests on the embedded API and the local AWS (CASES="operator:: p27" chooses)
	@scripts/tier test $(MAKE) --no-print-directory run-test

.PHONY: run-test
run-test: build deps
	@command -v kubectl >/dev/null || { echo "missing: kubectl — install it, the tests use it as a client" >&2; exit 1; }
	scripts/run-tests test $(CASES)

.PHONY: test-real
test-real: ## Conformance, contract, Sandbox and router suites on a real control plane built from Go modules (CASES=f4 chooses)
	@scripts/tier test-real $(MAKE) --no-print-directory run-test-real

.PHONY: run-test-real
run-test-real: build deps
	@if command -v go >/dev/null; then scripts/real-kube build --all; \
	elif [[ -n "$$CONFORMANCE_REQUIRE_REAL" ]]; then \
	  echo "error: Go is not installed, so there is no real control plane to test on" >&2; exit 1; \
	else echo "notice: Go is not installed. SKIPPED: contract, Sandbox and router suites on a real control plane; conformance compares with recordings"; fi
	scripts/run-tests real $(CASES)

.PHONY: check
check: ## What a change must pass: lint, test and test-real, with long fuzzing and the whole loads
	@scripts/tier check $(MAKE) --no-print-directory run-check

# Fuzzing and soaking last for minutes instead of seconds, properties have the numbers that they ask for, and clippy is the
# compiler of what is tested.
.PHONY: run-check
run-check: export FUZZ_SECONDS ?= 60
run-check: export SOAK_SECONDS ?= 120
run-check: export F1_REQUESTS ?= 100000
run-check: export RUSTC_WORKSPACE_WRAPPER = clippy-driver
run-check:
	$(MAKE) --no-print-directory lint
	$(MAKE) --no-print-directory test
	$(MAKE) --no-print-directory test-real
	@# The whole rate alone: beside other tests it would be a measurement of the machine.
	F3_RATE=2000 scripts/run-tests real f3_f4_routing_is_enabled

.PHONY: soak
soak: ## The long forms: 10 min of WebSocket, a minute of sleep, 1 GiB both ways, 10 min of fuzzing, 200 Sandboxes
	@scripts/tier soak $(MAKE) --no-print-directory run-soak

.PHONY: run-soak
run-soak: build deps
	FUZZ_SEED=$${FUZZ_SEED:-$$RANDOM}; echo "FUZZ_SEED=$$FUZZ_SEED"; export FUZZ_SEED; WEBSOCKET_SECONDS=600 TUNNEL_OUTAGE_SECONDS=60 TUNNEL_TRANSFER_MIB=1024 SOAK_SECONDS=600 FUZZ_SECONDS=600 \
	  SANDBOXES=200 F13_SANDBOXES=1000 F5_SECONDS=300 RUNS=1000 \
	  scripts/run-tests test f3_ f11_ f14_ f15_ f5_a_settled f2_sandboxes f13_ fuzz:: soak:: sharing:: $(CASES)

.PHONY: lint
lint: ## Formatting, clippy, terraform fmt, and the dependencies' licences where cargo-deny is there
	@scripts/tier lint $(MAKE) --no-print-directory run-lint

.PHONY: run-lint
run-lint: check-tools
	cargo fmt --all -- --check
	@# In `make check` the build that is tested is also the one that is linted.
	$(if $(RUSTC_WORKSPACE_WRAPPER),scripts/lint-build,cargo clippy --locked --workspace --all-targets -- -D warnings)
	$(TF) fmt -check -recursive terraform
	@if command -v cargo-deny >/dev/null; then cargo deny check bans licenses sources; \
	  else echo "notice: cargo-deny is not installed, so the dependencies were not checked (cargo install cargo-deny)"; fi

.PHONY: fmt
fmt: ## Format everything
	cargo fmt --all
	$(TF) fmt -recursive terraform

.PHONY: bench
bench: ## Measure: driver and gateway against bare terraform; the operator with 200 clusters; router, tunnel, table; a thousand Sandboxes; embedded-kube
	@scripts/tier bench $(MAKE) --no-print-directory run-bench

.PHONY: run-bench
run-bench: deps
	cargo bench --locked --bench driver
	cargo bench --locked -p provider-gateway --bench gateway
	cargo bench --locked -p capt --bench operator
	cargo bench --locked -p sandbox --bench table
	cargo bench --locked -p sandbox-router --bench tunnel
	cargo bench --locked -p capt --bench sandboxes
	@if scripts/router-bench-tools; then PATH="$$PATH:/usr/sbin" cargo bench --locked -p sandbox-router --bench router; \
	  else echo "notice: the router is not measured without them"; fi
	@if command -v go >/dev/null; then scripts/real-kube build; \
	  else echo "notice: Go is not installed, so there is no real control plane for embedded-kube to be measured against"; fi
	cargo bench --locked -p conformance --bench kube

.PHONY: alike
alike: build deps ## Compare Terraform with and without the gateway: every configuration of the corpus, and the examples (about 20 minutes)
	CORPUS=all scripts/run-tests test corpus::
	cargo test --locked --workspace --test suites system::alike -- --ignored

.PHONY: real-kube
real-kube: ## Build a real Kubernetes control plane and Cluster API from Go modules, in the cache directory (6-12 minutes, once)
	@scripts/real-kube build --all

.PHONY: conformance
conformance: check-tools ## Compare embedded-kube with a real kube-apiserver, case by case (RECORD=1 writes the recordings anew)
	@if command -v go >/dev/null; then scripts/real-kube build; \
	  else echo "notice: Go is not installed, so the real control plane is not built; the recordings are compared instead"; fi
	CONFORMANCE_RECORD=$(RECORD) cargo test --locked --workspace --test conformance -- $(CASES)

.PHONY: contract
contract: build deps ## The contract of Cluster API on a real kube-apiserver and with its real core (CASES=p10 chooses)
	@if command -v go >/dev/null; then scripts/real-kube build --all; \
	  else echo "notice: Go is not installed, so the real control plane is not built"; fi
	cargo test --locked --workspace --test contract -- $(CASES)

.PHONY: deploy-check
deploy-check: check-tools ## Render the manifests of deploy/ with kubectl, and check them, their rights and the image's recipe
	@command -v kubectl >/dev/null || { echo "missing: kubectl — install it, it renders the manifests" >&2; exit 1; }
	scripts/run-tests test deploy::

.PHONY: crds
crds: build ## Write the CRDs
	$(CAPT) crds --write crds
