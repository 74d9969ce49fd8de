# `make up` and `make test` are all that a newcomer needs; `make help` lists the rest.

SHELL := /bin/bash
.DEFAULT_GOAL := help

# What can be made again lives here: the python of the local AWS, for one.
export CAPT_CACHE ?= $(CURDIR)/.cache
DATA ?= .capt
# Terraform, or OpenTofu where that is what there is.
TF := $(shell command -v terraform || command -v tofu)
CAPT = target/debug/capt
# Tests beside each other that each have a real control plane. It waits more than it works once it runs.
REAL_AT_ONCE ?= 3

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

.PHONY: test
test: build deps ## Run every test: unit, process, modules, conformance, and the whole system on the local AWS
	@command -v kubectl >/dev/null || { echo "missing: kubectl — install it, the tests use it as a client" >&2; exit 1; }
	@if command -v go >/dev/null; then scripts/real-kube build --all; \
	  else echo "notice: Go is not installed; the Kubernetes API is compared with recordings and not with a real one"; fi
	cargo test --locked --workspace --all-targets
	cargo test --locked --workspace --doc
	scripts/test-modules

.PHONY: soak-sandbox
soak-sandbox: check-tools ## The long tests of routers and tunnels: 10 min of WebSocket, a minute of sleep, 1 GiB both ways (about 45 minutes)
	WEBSOCKET_SECONDS=600 TUNNEL_OUTAGE_SECONDS=60 TUNNEL_TRANSFER_MIB=1024 SOAK_SECONDS=300 \
	  cargo test --locked -p sandbox-router --tests -- f3_ f11_ f14_ f15_

.PHONY: lint
lint: check-tools ## Formatting, clippy, terraform fmt, and the dependencies' licences where cargo-deny is there
	cargo fmt --all -- --check
	cargo clippy --locked --workspace --all-targets -- -D warnings
	$(TF) fmt -check -recursive terraform
	@if command -v cargo-deny >/dev/null; then cargo deny check bans licenses sources; \
	  else echo "notice: cargo-deny is not installed, so the dependencies were not checked (cargo install cargo-deny)"; fi

.PHONY: fmt
fmt: ## Format everything
	cargo fmt --all
	$(TF) fmt -recursive terraform

.PHONY: bench
bench: deps ## Measure: driver and gateway against bare terraform; the operator with 200 clusters; router, tunnel and table; a thousand Sandboxes; embedded-kube against a real kube-apiserver
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
	CORPUS=all cargo test --locked --workspace --test corpus
	cargo test --locked --workspace --test system alike -- --ignored

.PHONY: real-kube
real-kube: ## Build a real Kubernetes control plane and Cluster API from Go modules, in the cache directory (6-12 minutes, once)
	@scripts/real-kube build --all

.PHONY: conformance
conformance: check-tools ## Compare embedded-kube with a real kube-apiserver, case by case (RECORD=1 writes the recordings anew)
	@if command -v go >/dev/null; then scripts/real-kube build; \
	  else echo "notice: Go is not installed, so the real control plane is not built; the recordings are compared instead"; fi
	CONFORMANCE_RECORD=$(RECORD) cargo test --locked -p conformance --test conformance -- $(CASES)

.PHONY: contract
contract: build deps ## The contract of Cluster API on a real kube-apiserver and with its real core (CASES=p10 chooses)
	@if command -v go >/dev/null; then scripts/real-kube build --all; \
	  else echo "notice: Go is not installed, so the real control plane is not built"; fi
	cargo test --locked -p capt --test contract -- $(CASES)

.PHONY: sandbox-real
sandbox-real: check-tools ## Sandboxes, routers and tunnels on a real kube-apiserver, one for each test; make test has them on embedded-kube (CASES=f4 chooses)
	@if command -v go >/dev/null; then scripts/real-kube build; fi
	@if [[ -x "$$(scripts/real-kube bin)/kube-controller-manager" ]]; then \
	  CAPT_TEST_KUBE=real cargo test --locked --workspace --test sandbox --test connect -- --test-threads=$(REAL_AT_ONCE) $(CASES); \
	elif [[ -n "$$CONFORMANCE_REQUIRE_REAL" ]]; then \
	  echo "error: Go is not installed, so there is no real control plane to test on" >&2; exit 1; \
	else echo "notice: Go is not installed, so Sandboxes were NOT tested on a real control plane"; fi

.PHONY: deploy-check
deploy-check: check-tools ## Render the manifests of deploy/ with kubectl, and check them, their rights and the image's recipe
	@command -v kubectl >/dev/null || { echo "missing: kubectl — install it, it renders the manifests" >&2; exit 1; }
	cargo test --locked -p capt --test deploy

.PHONY: crds
crds: build ## Write the CRDs
	$(CAPT) crds --write crds
