# `make up` and `make test` are all that a newcomer needs; `make help` lists the rest.

SHELL := /bin/bash
.DEFAULT_GOAL := help

# Reproducible data, such as the Python environment of the local AWS.
export CAPT_CACHE ?= $(CURDIR)/.cache
DATA ?= .capt
# Terraform, or OpenTofu if Terraform is not installed.
TF := $(shell command -v terraform || command -v tofu)
CAPT = target/debug/capt

.PHONY: help
help: ## List the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: check-tools
check-tools:
	@scripts/check-tools

.PHONY: deps
deps: check-tools ## Install the Python environment of the local AWS (moto) into the cache directory
	@scripts/moto-venv

.PHONY: build
build: check-tools ## Build target/debug/capt
	@# --workspace enables the features of the tests too, so that they do not rebuild everything.
	cargo build --locked --workspace --bin capt

.PHONY: up
up: build deps ## Run the quickstart: a VPC, an EKS cluster and two Fargate profiles in the local AWS
	$(CAPT) up -f examples/quickstart.yaml --data $(DATA)

.PHONY: down
down: build ## Delete everything, check that no resource is left, and stop
	$(CAPT) down --data $(DATA)

# The test tiers. Each prints its expected duration, and what it skips if a tool is missing; see docs/testing.md.

.PHONY: test
test: ## Unit, process, module, operator and system tests on the embedded API and the local AWS (CASES="operator:: p27" selects)
	@scripts/tier test $(MAKE) --no-print-directory run-test

.PHONY: run-test
run-test: build deps
	@command -v kubectl >/dev/null || { echo "missing: kubectl — install it, the tests use it as a client" >&2; exit 1; }
	scripts/run-tests test $(CASES)

.PHONY: test-real
test-real: ## Conformance, contract, Sandbox and router suites on a real control plane built from Go modules (CASES=f4 selects)
	@scripts/tier test-real $(MAKE) --no-print-directory run-test-real

.PHONY: run-test-real
run-test-real: build deps
	@if command -v go >/dev/null; then scripts/real-kube build --all; \
	elif [[ -n "$$CONFORMANCE_REQUIRE_REAL" ]]; then \
	  echo "error: Go is not installed, so there is no real control plane to test on" >&2; exit 1; \
	else echo "notice: Go is not installed. SKIPPED: contract, Sandbox and router suites on a real control plane; conformance compares with recordings"; fi
	scripts/run-tests real $(CASES)

.PHONY: check
check: ## The gate for a change: lint, test and test-real, with longer fuzzing and full loads
	@scripts/tier check $(MAKE) --no-print-directory run-check

# Fuzz and soak tests run for minutes instead of seconds, property tests use their full sizes, and the tested binaries are compiled
# with clippy-driver.
.PHONY: run-check
run-check: export FUZZ_SECONDS ?= 60
run-check: export SOAK_SECONDS ?= 120
run-check: export F1_REQUESTS ?= 100000
run-check: export RUSTC_WORKSPACE_WRAPPER = clippy-driver
run-check:
	$(MAKE) --no-print-directory lint
	$(MAKE) --no-print-directory test
	$(MAKE) --no-print-directory test-real
	@# At the full rate this test runs alone: next to other tests it would measure the machine.
	F3_RATE=2000 scripts/run-tests real f3_f4_routing_is_enabled

.PHONY: soak
soak: ## Long-running tests: 10 min of WebSocket, 1 min of tunnel outage, 1 GiB both ways, 10 min of fuzzing, 200 Sandboxes
	@scripts/tier soak $(MAKE) --no-print-directory run-soak

.PHONY: run-soak
run-soak: build deps
	FUZZ_SEED=$${FUZZ_SEED:-$$RANDOM}; echo "FUZZ_SEED=$$FUZZ_SEED"; export FUZZ_SEED; WEBSOCKET_SECONDS=600 TUNNEL_OUTAGE_SECONDS=60 TUNNEL_TRANSFER_MIB=1024 SOAK_SECONDS=600 FUZZ_SECONDS=600 \
	  SANDBOXES=200 F13_SANDBOXES=1000 F5_SECONDS=300 RUNS=1000 \
	  scripts/run-tests test f3_ f11_ f14_ f15_ f5_a_settled f2_sandboxes f13_ fuzz:: soak:: sharing:: $(CASES)

.PHONY: chaos
chaos: ## Kill processes at chosen moments of AWS calls and check that nothing is lost (N=1000 SEED=7; docs/chaos.md)
	@scripts/tier chaos $(MAKE) --no-print-directory run-chaos

.PHONY: run-chaos
run-chaos: build deps
	python3 -B -m unittest discover -s tests/chaos
	scripts/chaos

.PHONY: lint
lint: ## rustfmt, clippy, terraform fmt, and dependencies: sources, hashes, licences; advisories with cargo-deny
	@scripts/tier lint $(MAKE) --no-print-directory run-lint

.PHONY: run-lint
run-lint: check-tools
	cargo fmt --all -- --check
	@# `make check` lints the same build that it tests.
	$(if $(RUSTC_WORKSPACE_WRAPPER),scripts/lint-build,cargo clippy --locked --workspace --all-targets -- -D warnings \
	  && cargo clippy --locked --workspace --lib --no-default-features -- -D warnings)
	$(TF) fmt -check -recursive terraform
	scripts/unify-features --check
	scripts/dependency-check

.PHONY: fmt
fmt: ## Format everything
	cargo fmt --all
	$(TF) fmt -recursive terraform

.PHONY: bench
bench: ## Benchmarks: driver and gateway against bare terraform; operator with 200 clusters; router, tunnel, route table; 1,000 Sandboxes; embedded-kube
	@scripts/tier bench $(MAKE) --no-print-directory run-bench

.PHONY: run-bench
run-bench: deps
	cargo bench --locked --bench driver
	cargo bench --locked -p provider-gateway --bench gateway
	cargo bench --locked -p capt --bench operator
	cargo bench --locked -p sandbox --bench table
	cargo bench --locked -p sandbox-router --bench fast_path
	cargo bench --locked -p sandbox-router --bench tunnel
	cargo bench --locked -p capt --bench sandboxes
	@if scripts/router-bench-tools; then PATH="$$PATH:/usr/sbin" cargo bench --locked -p sandbox-router --bench router; \
	  else echo "notice: SKIPPED: router benchmark"; fi
	@if command -v go >/dev/null; then scripts/real-kube build; \
	  else echo "notice: Go is not installed; embedded-kube is not compared with a real control plane"; fi
	cargo bench --locked -p conformance --bench kube

.PHONY: alike
alike: build deps ## Compare Terraform with and without the gateway: the whole corpus and the examples (about 20 minutes)
	CORPUS=all scripts/run-tests test corpus::
	cargo test --locked --workspace --test suites system::gateway_equivalence -- --ignored

.PHONY: real-kube
real-kube: ## Build a real Kubernetes control plane and Cluster API from Go modules, in the cache directory (6-12 minutes, once)
	@scripts/real-kube build --all

.PHONY: conformance
conformance: check-tools ## Compare embedded-kube with a real kube-apiserver, case by case (RECORD=1 rewrites the recordings)
	@if command -v go >/dev/null; then scripts/real-kube build; \
	  else echo "notice: Go is not installed, so there is no real control plane; using the recordings"; fi
	CONFORMANCE_RECORD=$(RECORD) cargo test --locked --workspace --test conformance -- $(CASES)

.PHONY: contract
contract: build deps ## The Cluster API contract on a real kube-apiserver with the real core (CASES=p10 selects)
	@if command -v go >/dev/null; then scripts/real-kube build --all; \
	  else echo "notice: Go is not installed, so there is no real control plane"; fi
	cargo test --locked --workspace --test contract -- $(CASES)

.PHONY: deploy-check
deploy-check: check-tools ## Render the manifests of deploy/ with kubectl, and check them, their RBAC and the Dockerfile
	@command -v kubectl >/dev/null || { echo "missing: kubectl — install it, it renders the manifests" >&2; exit 1; }
	scripts/run-tests test deploy::

.PHONY: crds
crds: build ## Generate the CRDs in crds/
	$(CAPT) crds --write crds
