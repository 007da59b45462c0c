# `make run` shows Headwater at work on real data, `make demo` the same without a server; `make test` proves it. Both install what is missing.
# Both build with one profile and one feature graph, so Lance is compiled once (see README).

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

cache := $(HOME)/.cache/headwater
# Kept outside the checkout, so that a fresh clone does not compile Lance again.
export CARGO_TARGET_DIR ?= $(cache)/target
# The Lance-free crates alone resolve to other features: they get a directory of their own.
fast_target := $(cache)/fast
export HEADWATER_VENV ?= $(cache)/venv
export HEADWATER_PYTHON ?= $(HEADWATER_VENV)/bin/python
export HEADWATER_NODE ?= $(cache)/node

# Crates that compile in seconds, without Lance.
fast_packages := headwater-format headwater-store headwater-engine headwater-sim xtask
fast_flags := $(addprefix --package ,$(fast_packages))
fast_filter := $(subst $(subst ,, ),|,$(foreach p,$(fast_packages),package($(p))))

nextest := $(shell command -v cargo-nextest 2>/dev/null)
nextest_run := cargo nextest run --workspace --filterset

.PHONY: help run demo test test-clients lint fast bench fmt tools venv node clean

help: ## show this list
	@sed -nE 's/^([a-z-]+):.*## (.*)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

run: tools venv ## build, then send a year of flights through the server with LanceDB's client, kill it once, read back
	cargo build --workspace --bins
	"$(HEADWATER_PYTHON)" examples/flights/serve.py --headwater "$(CARGO_TARGET_DIR)/debug/headwater"

demo: tools venv ## the same with the command alone: no server, and read back by pylance
	cargo build --workspace --bins
	"$(HEADWATER_PYTHON)" examples/flights/run.py --headwater "$(CARGO_TARGET_DIR)/debug/headwater"

# Always --workspace: naming single packages would resolve other features and compile Lance again.
# There are no doc tests: every library turns them off, which tidy checks.
test: tools venv node ## every test: the Lance-free crates first, then the rest; then formatting
ifneq ($(nextest),)
# Exit code 100 is a failed test, and the other half is still worth a run; any other is a failed build.
	@status=0; \
	$(nextest_run) '$(fast_filter)' || { status=$$?; [ $$status -eq 100 ] || exit $$status; }; \
	$(nextest_run) 'not ($(fast_filter))' || status=$$?; \
	exit $$status
else
	cargo test --workspace --all-targets --no-fail-fast
endif
	cargo fmt --all --check

lint: tools ## formatting, clippy with our bans, licences and sources of every dependency
	cargo fmt --all --check
	cargo xtask licences
	cargo xtask tidy
	cargo clippy --workspace --all-targets -- --deny warnings

fast: ## tests of the Lance-free crates only, in seconds
ifneq ($(nextest),)
	CARGO_TARGET_DIR="$(fast_target)" cargo nextest run $(fast_flags)
else
	CARGO_TARGET_DIR="$(fast_target)" cargo test $(fast_flags) --all-targets
endif

# In a folder of its own: it compiles Lance again, with the client's features.
test-clients: tools ## LanceDB's Rust client against the server: the RTE routes, and its own connection tests
	cargo build --workspace --bins
	clients/rust/test.sh "$(cache)/clients" "$(CARGO_TARGET_DIR)/debug/headwater"

bench: tools venv ## measure against the reference and against bare storage (docs/performance.md)
	cd bench && CARGO_TARGET_DIR="$(cache)/bench" cargo run --release -- all --python "$(HEADWATER_PYTHON)"

fmt: ## format the code
	cargo fmt --all

tools: ## install the system packages a build needs (protobuf-compiler, mold, …)
	@scripts/install-tools.sh

venv: tools ## the Python environment of tests and example
	@scripts/make-venv.sh

node: tools ## LanceDB's Node client, for the tests
	@scripts/make-node.sh

clean: ## forget what was built, Lance included (it takes about half an hour to build again)
	cargo clean
	rm -rf "$(fast_target)" "$(cache)/clients"
