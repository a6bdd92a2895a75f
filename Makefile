# Every target says in one line what it does; `make help` lists them.
SHELL := /bin/bash
.DEFAULT_GOAL := help

ifneq ($(shell uname -s),Linux)
$(error the testbed runs Kubernetes nodes in Linux namespaces and needs Linux)
endif

# Not `cargo run` in every recipe: cargo builds, then the binary has the terminal to itself.
TESTBED := target/debug/testbed
BUILD := cargo build --quiet --locked --package testbed --bin testbed

.PHONY: help
help: ## List every target
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sort | awk -F ':.*## ' '{printf "make %-16s %s\n", $$1, $$2}'

.PHONY: test
test: need-cargo ## Run every check and every test, as CI does
	@cargo build --locked --package xtask
	@cargo xtask test

.PHONY: cluster-up
cluster-up: need-cargo ## Start a real three-node Kubernetes on this machine
	@cargo build --locked --package testbed --bin testbed
	@$(TESTBED) up

.PHONY: cluster-down
cluster-down: need-cargo ## Remove it, and all that it left on this machine
	@$(BUILD)
	@$(TESTBED) down

.PHONY: cluster-status
cluster-status: need-cargo ## Say what runs where and how much memory it takes
	@$(BUILD)
	@$(TESTBED) status

.PHONY: kubeconfig
kubeconfig: need-cargo ## Print the path of the cluster's kubeconfig, and nothing else
	@$(BUILD)
	@$(TESTBED) kubeconfig

.PHONY: kubectl
kubectl: need-cargo ## Run kubectl on the cluster: make kubectl ARGS='get pods -A'
	@$(BUILD)
	@$(TESTBED) kubectl -- $(ARGS)

.PHONY: bench
bench: need-cargo ## Measure the floor: etcd pods made by hand, from apply to Ready
	@cargo build --quiet --locked --release --package testbed --bin bench
	@$(BUILD)
	@$(TESTBED) up
	@target/release/bench

.PHONY: need-cargo
need-cargo:
	@command -v cargo >/dev/null || { echo "error: Rust is missing: install it with rustup, then run this again" >&2; exit 1; }
