# Every target says in one line what it does; `make help` lists them.
SHELL := /bin/bash
.DEFAULT_GOAL := help

# Not `cargo run` in every recipe: cargo builds, then the binary has the terminal to itself.
TARGET := $(or $(CARGO_TARGET_DIR),target)
TESTBED := $(TARGET)/debug/testbed
BUILD := cargo build --quiet --locked --package testbed --bin testbed

.PHONY: help
help: ## List every target
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sort | awk -F ':.*## ' '{printf "make %-16s %s\n", $$1, $$2}'

.PHONY: test
test: tools-here ## Run every check and every test that CI runs
	@cargo build --locked --package xtask
# An error is a sentence with its causes, and a panic names its line: sixty frames of a runtime would bury them.
	@RUST_BACKTRACE=0 cargo xtask test

.PHONY: check
check: tools-here ## Format, lints, generated files, unit tests, the explorer's small worlds: a few minutes
	@cargo build --locked --package xtask
	@RUST_BACKTRACE=0 cargo xtask check

.PHONY: test-all
test-all: tools-here ## Run also what takes long: the other versions and sizes, and the testbed's own tests in any case
	@cargo build --locked --package xtask
	@RUST_BACKTRACE=0 cargo xtask test --all

.PHONY: cluster-up
cluster-up: tools-here ## Start a real three-node Kubernetes on this machine
	@cargo build --locked --package testbed --bin testbed
	@$(TESTBED) up

.PHONY: cluster-down
cluster-down: tools-here ## Remove it, and all that it left on this machine
	@$(BUILD)
	@$(TESTBED) down

.PHONY: cluster-status
cluster-status: tools-here ## Say what runs where and how much memory it takes
	@$(BUILD)
	@$(TESTBED) status

.PHONY: kubeconfig
kubeconfig: tools-here ## Print the path of the cluster's kubeconfig, and nothing else
	@$(BUILD)
	@$(TESTBED) kubeconfig

.PHONY: kubectl
kubectl: tools-here ## Run kubectl on the cluster: make kubectl ARGS='get pods -A'
	@$(BUILD)
	@$(TESTBED) kubectl -- $(ARGS)

.PHONY: load
load: tools-here ## Write to and read from an etcd cluster, and check its answers: make load CLUSTER=example-etcd-cluster DURATION=60 (NAMESPACE, RATE)
	@$(BUILD)
	@$(TESTBED) load $(if $(NAMESPACE),--namespace $(NAMESPACE)) $(if $(CLUSTER),--cluster $(CLUSTER)) $(if $(DURATION),--duration $(DURATION)) $(if $(RATE),--rate $(RATE))

.PHONY: bench
bench: tools-here ## Measure: etcd pods made by hand, ours beside them, a life of changes, the operator's memory: make bench RUNS=10 CLUSTERS=50
	@cargo build --quiet --locked --release --package testbed --bin bench
	@$(BUILD)
	@[ -n "$$TESTBED_KUBECONFIG" ] || { $(TESTBED) up && cargo xtask push; }
	@$(TARGET)/release/bench

.PHONY: demo
demo: tools-here ## Tell the seeds' story: a Kubernetes, the operator, an etcd cluster, put and get
	@cargo build --locked --package xtask
	@cargo xtask demo

.PHONY: image
image: tools-here ## Build our image, as an OCI archive
	@cargo xtask image

.PHONY: deploy
deploy: tools-here ## Put our image into the testbed's registry and install the operator from deploy/install.yaml
	@cargo xtask deploy

.PHONY: undeploy
undeploy: tools-here ## Take the operator away, and all etcd clusters with it
	@cargo xtask undeploy

.PHONY: generate
generate: tools-here ## Write the files that follow from the types: CRDs, roles, install manifests
	@cargo xtask generate

.PHONY: tools-here
tools-here:
	@[ "$$(uname -s)" = Linux ] || { echo "error: the testbed runs Kubernetes nodes in Linux namespaces and needs Linux; elsewhere, use a cluster that you have by naming its kubeconfig in TESTBED_KUBECONFIG" >&2; exit 1; }
	@command -v cargo >/dev/null || { echo "error: Rust is missing: install it with rustup, then run this again" >&2; exit 1; }
	@xtask/seed-target $(TARGET)
